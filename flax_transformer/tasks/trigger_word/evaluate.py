"""What `flax-transformer evaluate RUN` does for a trigger word."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.named_files import data_root
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.engine.runs.trust import check_named_files
from flax_transformer.engine.task_value import Command, EvaluateOptions
from flax_transformer.tasks.evaluation import only_run, print_scores

from .config import TriggerWordDataConfig

if TYPE_CHECKING:
    from .scoring import Scores


_MOST_KINDS = 6  # texts of other recordings that are listed with their minutes


@dataclass(frozen=True)
class Options(EvaluateOptions):
    part: Literal['test', 'validation'] = 'test'  # the recordings to score on
    threshold: float | None = None  # least score of a hit; None: the run's
    json: bool = False  # print one JSON object instead, with the curve of false rejects against false accepts
    data: TriggerWordDataConfig = field(default_factory=TriggerWordDataConfig)


def evaluate(runs: list[str], options: Options, *, note: Say, progress_bar: Callable[..., Any]) -> None:
    from .detector import Detector
    from .run import Run
    from .scenes import part_files, read_part, specs_of
    from .scoring import score

    name = only_run(runs, 'detectors')
    if not specs_of(options.data, options.part):
        raise UserError(f'{name} has no {options.part} recordings (data.{options.part} is empty); name some')
    run = Run(split_reference(name)[0])
    check_named_files(
        run,
        options.data,
        partial(part_files, part=options.part),
        data_root,
        fields=('root', options.part, f'{options.part}_background'),
        trust=options.trust_data,
        remedy=f'--data.{options.part} and --data.{options.part}-background, or with --data.root',
    )
    clips = read_part(replace(run.read_config(), data=options.data), options.part, say=note)
    detector = Detector.from_run(name, step=options.step, threshold=options.threshold)
    with progress_bar(None, 'recordings') as bar:
        result = score(detector, clips, progress=bar.update)
    print_scores(asdict(result), _lines(options.part, result), as_json=options.json)


def _lines(part: str, result: 'Scores') -> list[str]:
    lines = [f'{place}: missed' for place in result.missed]
    lines += [f'{wrong.place}: false accept at {wrong.seconds:.2f} s, {wrong.confidence:.3f}' for wrong in result.wrong]
    kinds = [f'{name} {_minutes(hours)}' for name, hours in result.hours_by_text.items()]
    if len(kinds) > _MOST_KINDS:
        kinds[_MOST_KINDS:] = ['...']
    return [
        *lines,
        *([''] if lines else []),
        f'{part}: {result.words:,} recordings of the trigger word, {_minutes(result.negative_hours)} of others',
        *([f'  ({", ".join(kinds)})'] if kinds else []),
        f'threshold          {result.threshold:g}',
        f'false rejects      {result.misses:,} of {result.words:,}, {result.misses / result.words:.1%}  (95 % interval '
        f'{result.rejects_low:.1%} to {result.rejects_high:.1%}, Clopper-Pearson)',
        _false_accepts(result),
        _delay(result),
        f'margin             other sounds score at most {result.highest_other:.4f}, the words at least '
        f'{result.lowest_word:.4f}' + _between(result),
    ]


def _false_accepts(result: 'Scores') -> str:
    counted = f'false accepts      {result.false_accepts:,} in {result.negative_hours * 3600:,.0f} s'
    if result.accepts_per_hour is None:
        return f'{counted}: there are no recordings without the word'
    interval = f'95 % interval {result.accepts_low:.1f} to {result.accepts_high:.1f}, Poisson'
    return f'{counted}, {result.accepts_per_hour:.1f} an hour  ({interval})'


def _between(result: 'Scores') -> str:
    """The threshold halfway between other sounds and words, in log odds, if there is one."""
    low, high = (min(max(score, 1e-6), 1 - 1e-6) for score in (result.highest_other, result.lowest_word))
    if low >= high:
        return ''
    odds = (low / (1 - low) * high / (1 - high)) ** 0.5
    return f': halfway between is {odds / (1 + odds):.4f}'


def _delay(result: 'Scores') -> str:
    if not result.delays:
        return 'delay              no word was heard'
    usual, most = (f'{1000 * seconds:.0f} ms' for seconds in (median(result.delays), max(result.delays)))
    return f'delay              {usual} after the end of the word (median), at most {most}'


def _minutes(hours: float) -> str:
    return f'{hours:.1f} h' if hours >= 2 else f'{60 * hours:.1f} min'


EVALUATE = Command(
    Options,
    evaluate,
    """Score a trained trigger word on the test recordings of its config, heard one after another as one
stream: false rejects and false accepts an hour with exact intervals, the delay, and what was heard wrongly. --part
validation scores the validation recordings instead, by which a threshold may be chosen.""",
)
