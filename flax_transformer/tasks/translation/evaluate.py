"""What `flax-transformer evaluate RUN [RUN ...] [--source F --reference F ...]` does for translation."""

import contextlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.engine.task_value import Command, EvaluateOptions
from flax_transformer.tasks.evaluation import check_examples, print_scores, scored_set

from .inference.directions import direction

if TYPE_CHECKING:
    from flax_transformer.data.bitext.corpus import Pairs

    from .metrics import ScoreTokens


@dataclass(frozen=True)
class Options(EvaluateOptions):
    source: Path | None = None  # a text file to translate, one sentence per line
    # Its translations, line by line; several files, or columns of a .tsv, are several references per line.
    reference: tuple[Path, ...] = ()
    output: Path | None = None  # a file for the translations
    examples: int = 5  # translations to print
    data: DataConfig = field(default_factory=DataConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)


def evaluate(runs: list[str], options: Options, *, note: Say, progress_bar: Callable[..., Any]) -> None:
    check_examples(options.examples)
    check_files(options.source, options.reference)
    if options.output is not None:
        for file in filter(None, (options.source, *options.reference)):
            if file.is_file() and options.output.is_file() and options.output.samefile(file):
                raise UserError(f'--output {options.output} is what is read; give another')
        options.output.open('a').close()  # fail before the work, not after

    options.parallel.prepare_devices()

    from .evaluation import evaluate_ensemble_loss, evaluate_loss, evaluate_translation
    from .inference.translator import Translator
    from .run import Run

    settings = asdict(options.decoding) | {'literals': 'ignored'}  # what is scored is the model's own text
    if options.data.language_tags:  # the set is in the language translated into
        data = options.data
        source, target = settings['source_language'], settings['target_language']
        with contextlib.suppress(UserError):  # the model may know more languages
            source, target = direction([corpus.languages for corpus in data.corpora], source, target)
        source, target = source or data.source_language, target or data.target_language
        data = replace(data, source_language=source, target_language=target)
        settings['target_language'] = data.target_language
        options = replace(options, data=data)
    tokens = tokens_of(options.data, settings['target_language'])
    name, pairs = read_set(runs[0], options.source, options.reference, options.data, trust=options.trust_data)
    translator = Translator.from_run(*runs, step=options.step, parallel=options.parallel, **settings)
    if len(runs) == 1:
        config = Run(split_reference(runs[0])[0]).read_config()
        config = replace(config, data=options.data, decoding=translator.decoding, parallel=options.parallel)
        loss = evaluate_loss(config, translator.params, translator.tokenizer, pairs)
    else:
        loss = evaluate_ensemble_loss(translator, pairs)
    with progress_bar(len(pairs), 'sentences') as bar:
        scores, translations = evaluate_translation(translator, pairs, tokens=tokens, progress=bar.update)
    sure = {}
    if translator.calibration:
        from .calibration import correlations

        sure = correlations(translations, [pairs.targets, *pairs.references])
    shown = itertools.islice(zip(pairs.sources, pairs.targets, translations, strict=True), options.examples)
    lines = [f'source       {own}\nreference    {target}\ntranslation  {text}\n' for own, target, text in shown]
    lines += [f'{name}, beam {options.decoding.beam_width}', f'{scores}', _loss_line(loss)]
    lines += [f'{kind.replace("_", " of ", 1)} and sentence chrF: {value:.3f}' for kind, value in sure.items()]
    of_set = {'set': name, 'direction': translator.languages}
    print_scores({**of_set, **asdict(scores), **loss, **sure}, lines, as_json=options.json)
    if options.output is not None:
        options.output.write_text(''.join(t.text + '\n' for t in translations), encoding='utf-8')
        note(f'translations written to {options.output}')


def check_files(source: Path | None, reference: tuple[Path, ...]) -> None:
    if (source is None) != (not reference):
        raise UserError('got one of --source and --reference, expected both or neither')


def tokens_of(data: DataConfig, language: str | None = None) -> 'ScoreTokens':
    """What BLEU counts in the language, by default the data's target language."""
    from .metrics import score_tokens

    return score_tokens(language or data.target_language, data.bleu_tokenizer)


def read_set(
    run: str, source: Path | None, reference: tuple[Path, ...], data: DataConfig, *, trust: bool
) -> tuple[str, 'Pairs']:
    """The name of the set to score on, and its pairs: from files, or the run's test set."""
    from flax_transformer.data.bitext.sources import named_files, read_corpus
    from flax_transformer.data.bitext.text_files import read_text_files

    if source is not None:
        return str(source), read_text_files(source, *reference)

    def paths(data: DataConfig) -> Iterable[Path]:
        return named_files(data.test, data)

    name, data = scored_set(run, None, data, paths, trust=trust, remedy='--source and --reference')
    return name, read_corpus(name, data)


def _loss_line(loss: dict[str, float]) -> str:
    smoothed = f'loss {loss["loss"]:.4f} (with label smoothing)  ' if 'loss' in loss else ''
    return (
        f'{smoothed}negative log-likelihood {loss["nll"]:.4f} nats  '
        f'perplexity {loss["perplexity"]:.3f}  per target token of {loss["target_tokens"]:,.0f}'
    )


EVALUATE = Command(
    Options,
    evaluate,
    """Score a trained model: sacreBLEU, chrF, chrF++ and TER with their signatures, and the loss per target
token. Without --source and --reference the test set of its config is used. Several RUNs form an ensemble.""",
)
