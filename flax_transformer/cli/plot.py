"""`flax-transformer plot KIND NAME ... [--output FILE]`."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.cli.options import parse, positional, read_config, trainer_on_one_device
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import written_whole
from flax_transformer.common.installing import install_command
from flax_transformer.common.json_text import parse_json
from flax_transformer.plots.look import Figure
from flax_transformer.tasks.find import read_run_config, task_module

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.translator import Translator

# What each kind draws, and the names that it takes.
KINDS = {
    'attention': 'RUN LINE',
    'heads': 'RUN LINE',
    'layers': 'RUN LINE',
    'alignment': 'RUN LINE',
    'tree': 'RUN LINE',
    'quality': 'RUN LINE',
    'curves': 'RUN RUN ...',
    'lengths': 'SCORES.json ...',
    'schedule': 'CONFIG|RUN ...',
    'positions': 'CONFIG|RUN ...',
    'speech': 'RUN RECORDING',
    'trigger': 'RUN RECORDING',
    'confusion': 'SCORES.json',
    'detection': 'SCORES.json',
}
OF_TRANSLATION = ('attention', 'heads', 'layers')  # kinds that draw a given translation, too
# Kinds that draw scores, with the task and what it scores.
SCORED = {'confusion': ('speech', 'a speech run on single words'), 'detection': ('trigger_word', 'a trigger word')}
DESCRIPTION = """Draw a picture (needs matplotlib, extra `plots`). Of a translation run and a line in quotes: attention,
the mean of the last decoder layer's heads; heads, each of them; layers, all heads of all layers; alignment, which word
comes from which; tree, the n-best translations as branches; quality, how sure the model is of each word. Of a run and a
recording: speech, what CTC hears in each frame; trigger, the probability of the trigger word and the hits. Of runs:
curves. Of what `evaluate --json` printed: lengths, scores by the length of the source; confusion, spoken words taken
for others; detection, false rejects against false accepts. Of configs or runs: schedule, the learning rate; positions,
the table of sinusoids."""


FORMATS = ('.png', '.svg', '.pdf')


@dataclass(frozen=True)
class PlotOptions:
    output: Path | None = None  # the picture: .png, .svg or .pdf; by default KIND.png
    translation: str | None = None  # a translation of the line, for attention, heads and layers; default: the run's own


def main(argv: list[str]) -> None:
    options = parse('plot', PlotOptions, argv, DESCRIPTION, first='KIND NAME ...', default=_defaults, most=None)
    kind, *names = positional(argv)
    takes = KINDS[kind]
    if not names or (not takes.endswith('...') and len(names) != len(takes.split())):
        got = f'got {" ".join(map(repr, names))}' if names else 'got nothing'
        quotes = ', the line in quotes' if takes == 'RUN LINE' else ''
        raise UserError(f'plot {kind}: {got}, expected {takes}{quotes}')
    if options.translation is not None and kind not in OF_TRANSLATION:
        raise UserError(f'plot {kind}: --translation has no effect; it is for {", ".join(OF_TRANSLATION)}')
    output = options.output or Path(f'{kind}.png')
    check_format(output)
    write_picture(output, lambda: _draw(kind, names, options.translation), what='plot')
    print(f'the picture is in {output}')


def _defaults(kind: str) -> PlotOptions:
    if kind not in KINDS:
        raise UserError(f'plot: no picture {kind!r}; expected one of {", ".join(KINDS)}.{nearest(kind, KINDS)}')
    return PlotOptions()


def _draw(kind: str, names: Sequence[str], translation: str | None) -> 'Figure':
    if KINDS[kind] == 'RUN LINE':
        return _of_line(kind, *names, translation)
    if KINDS[kind] == 'RUN RECORDING':
        return _of_recording(kind, *names)
    if kind in SCORED:
        task, what = SCORED[kind]
        with _scores(Path(names[0]), what) as scores:
            return task_module(task, 'pictures').plot_scores(scores)
    return {'curves': _curves, 'lengths': _lengths, 'schedule': _schedule, 'positions': _positions}[kind](names)


def _of_line(kind: str, run: str, line: str, translation: str | None) -> 'Figure':
    from flax_transformer.tasks.translation.inference.translator import Translator

    if kind == 'tree':
        from flax_transformer.plots.search import merge_hypotheses, plot_beam_tree

        width = max(read_run_config(run, 'translation').decoding.beam_width, 2)
        (found,) = Translator.from_run(run, beam_width=width, n_best=width)([line])
        tokens, parents, log_probs, ends = merge_hypotheses(
            [each.tokens for each in found.n_best], [each.token_log_probs for each in found.n_best]
        )
        title = f'{len(found.n_best)} best translations, the first in color'
        return plot_beam_tree(tokens, parents, log_probs, best=ends[0], title=title)
    translator = Translator.from_run(run)
    if kind == 'quality':
        from flax_transformer.plots.curves import plot_bars
        from flax_transformer.plots.look import readable

        (found,) = translator([line])
        if found.quality is None or found.word_quality is None:
            raise UserError(
                f'the translation has no quality; expected a calibrated run: flax-transformer calibrate {run}'
            )
        words, sentence = map(readable, found.text.split()), f'quality of the sentence: {found.quality:.2f}'
        return plot_bars({'quality': found.word_quality}, list(words), xlabel=sentence, ylabel='quality', digits=2)
    if kind != 'alignment':
        return _attention(kind, translator, line, translation)
    from flax_transformer.plots.attention import plot_alignment

    (found,) = translator([line], alignment=True)
    return plot_alignment(found.alignment or (), line.split(), found.text.split())


def _attention(kind: str, translator: 'Translator', line: str, translation: str | None) -> 'Figure':
    from flax_transformer.plots.attention import plot_heads, plot_layers
    from flax_transformer.tasks.translation.inspection import attention_map, plot_attention

    found = attention_map(translator, line, translation)
    if kind == 'attention':
        return plot_attention(found)
    if kind == 'heads':
        title = f'attention of decoder layer {len(found.weights)}'
        return plot_heads(found.weights[-1], found.source, found.target, title=title)
    return plot_layers(found.weights, found.source, found.target, title='attention of the decoder over the source')


def _of_recording(kind: str, run: str, recording: str) -> 'Figure':
    from flax_transformer.tasks.speech.transcriber import Transcriber
    from flax_transformer.tasks.trigger_word.detector import Detector

    task, model = {'speech': ('speech', Transcriber), 'trigger': ('trigger_word', Detector)}[kind]
    read_run_config(run, task)  # raises if it is no run, or another task's
    return task_module(task, 'pictures').plot_recording(model.from_run(run), recording)


@contextlib.contextmanager
def _scores(file: Path, what: str) -> Iterator[Any]:
    """What `evaluate --json` printed for `what`. Raises UserError if the block finds that it is something else."""
    expected = f'expected what `flax-transformer evaluate RUN --json` prints for {what}'
    if not file.is_file():
        raise UserError(f'{file}: no such file; {expected}')
    try:
        yield parse_json(file.read_bytes())
    except UserError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f'{file}: {expected}') from None


def _curves(names: Sequence[str]) -> 'Figure':
    from flax_transformer.engine.runs.learning_curves import plot_curves
    from flax_transformer.tasks.find import open_run

    return plot_curves([open_run(name).path for name in names])


def _lengths(names: Sequence[str]) -> 'Figure':
    from flax_transformer.plots.curves import plot_lengths

    tables, scores = {}, ['bleu', 'chrf']
    for name in names:
        with _scores(Path(name), 'a translation run') as found:
            unit, rows = str(found['length_unit']), found['by_length']
            buckets, counts = [str(each['words']) for each in rows], [int(each['num_lines']) for each in rows]
            tables[name] = buckets, counts, {score: [float(each[score]) for each in rows] for score in scores}
            scores = scores if found['has_four_words'] else ['chrf']
        if not buckets:
            raise UserError(f'{name}: has no scores by length')
    buckets, counts, _ = tables[names[0]]
    for name, (others, _, _) in tables.items():
        if others != buckets:
            raise UserError(f'{name}: its lengths are not those of {names[0]}; expected scores of the same test set')
    return plot_lengths(
        {name: found[scores[0]] for name, (_, _, found) in tables.items()},
        buckets,
        counts=counts,
        ylabel={'bleu': 'BLEU', 'chrf': 'chrF'}[scores[0]],
        unit=unit,
    )


def _schedule(names: Sequence[str]) -> 'Figure':
    import numpy as np

    from flax_transformer.plots.curves import plot_schedule

    rates = {}
    longest = max(read_config(name).training.steps for name in names)
    steps = np.unique(np.linspace(1, max(longest, 1), 2000).round().astype(int))
    for name in names:
        trainer = trainer_on_one_device(read_config(name))
        rate = np.asarray(trainer.learning_rate(steps))
        rates[name] = np.where(steps <= trainer.config.training.steps, rate, np.nan)
    return plot_schedule(rates, steps=steps)


def _positions(names: Sequence[str]) -> 'Figure':
    from flax_transformer.plots.model_parts import plot_positions
    from flax_transformer.transformer.layers import sinusoids

    tables = {}
    for name in names:
        model = read_config(name).model
        layout = getattr(model, 'positions', None)
        if layout in (None, 'learned'):
            got = 'its model has no positions' if layout is None else "model.positions='learned'"
            raise UserError(f'{name}: {got}; expected a table of sinusoids, which a config determines')
        tables[f'{name} ({layout})'] = sinusoids(64, model.d_model, layout)
    return plot_positions(tables)


def check_format(output: Path) -> None:
    """Raises UserError for a name of another format."""
    if output.suffix not in FORMATS:
        raise UserError(f'--output {output}: expected a file name ending in {", ".join(FORMATS)}')


def write_picture(output: Path, draw: 'Callable[[], Figure]', *, what: str) -> None:
    """Draws into a file that is whole at any time, for viewers that read it again.

    Raises UserError without matplotlib, saying that `what` needs it.
    """
    try:
        figure = draw()
    except ImportError as error:
        if error.name is not None and not error.name.startswith('matplotlib'):
            raise
        raise UserError(f'{what} needs matplotlib: {install_command("plots")}') from None
    with written_whole(output) as opened:
        figure.savefig(opened, format=output.suffix[1:], dpi=150)
