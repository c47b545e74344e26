"""Trains the model `everyday` anew, in one command: `python benchmarks/everyday.py runs/everyday`.

Needs the corpora `tatoeba_en_de` and `europarl_en_de` in $FLAX_TRANSFORMER_DATA, else in data/. The steps are those by
which the model of the package was made, one at a time and by hand: the configs tatoeba_both, tatoeba_europarl and
tatoeba_europarl_letters describe them. By the records these took some 17 CPU hours, translating left out. In one go
they have not been run at their full length, and some letters have been edited since.

If it is stopped, the same command goes on. FOLDER/everyday is the model, in eight bits and calibrated; the runs that
led to it stay next to it. Prints the megabytes of its weights and its BLEU on the test sets, in float32, as JSON.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import jax

from flax_transformer import Translator, cli
from flax_transformer.cli import process
from flax_transformer.cli.options import parse, trainer_on_one_device
from flax_transformer.cli.train import TrainOptions, train_as_asked, train_options
from flax_transformer.common.errors import EXIT_CODE, Interrupted, UserError
from flax_transformer.common.files import written_whole
from flax_transformer.config import Config
from flax_transformer.data.bitext.text_files import read_text_files
from flax_transformer.data.lines import compressing, each_line
from flax_transformer.data.named_files import ROOT_VARIABLE, data_root
from flax_transformer.engine.runs.averaging import average, write_copy
from flax_transformer.engine.runs.trust import remember
from flax_transformer.tasks.translation.evaluation import evaluate_translation
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.metrics import make_metrics
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.vocabulary_change import add_marks

ROOT = Path(__file__).parents[1]
LANGUAGES = ('en', 'de')
PAIRS = (LANGUAGES, LANGUAGES[::-1])
# One line in so many is left out, and a translation has at least this chrF to the reference.
TRANSLATED = {'tatoeba': (3, 30.0), 'europarl': (2, 25.0)}
FIRST_LETTERS = 365  # pairs that there were before the last training
# Weights of corpora where they are not those of the config.
WEIGHTS_OF_SECOND = {'tatoeba': 5, 'tatoeba-translated': 3.5, 'europarl-translated': 0.25, 'letters': 0.12}
WEIGHTS_OF_LAST = {'tatoeba-en-de': 9.5, 'tatoeba-de-en': 10, 'europarl': 1.2, 'letters': 0.5}
WEIGHTS_OF_LAST |= {'tatoeba-translated': 0, 'europarl-translated': 0}
# The smallest run: its corpora keep one line in so many, this many of them are translated, and its trainings.
SMALLEST = {'train': 400, 'dev': 80, 'test': 400}
SMALLEST_TRANSLATED = 20
SMALLEST_FIELDS = (
    '--training.steps 2 --training.tokens-per-step 512 --training.sample-translations 0 '
    '--model.d-model 64 --model.d-ff 64 --model.num-encoder-layers 1 --model.num-decoder-layers 1 '
    '--decoding.max-extra-tokens 2'
)
SMALLEST_VOCABULARY = '--model.vocab-size 1000'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('folder', type=Path)
    parser.add_argument('--smallest', action='store_true', help='two steps each on few lines, to see that it works')
    options = parser.parse_args()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            everyday = train_everyday(options.folder.absolute(), is_smallest=options.smallest)
        print(json.dumps(scores(everyday)))
    except UserError as error:
        print(f'everyday: {error}', file=sys.stderr)
        return 2
    except Interrupted as stopped:
        print(f'everyday: {stopped}', file=sys.stderr)
        return EXIT_CODE
    return 0


def train_everyday(folder: Path, *, is_smallest: bool) -> Path:
    """Makes all runs that are not there yet; the last one."""
    check_corpora(data_root(None))
    if is_smallest:
        write_small_corpora(data_root(None), folder / 'data')
        os.environ[ROOT_VARIABLE] = str(folder / 'data')
    chain = Chain(folder, is_smallest=is_smallest)

    both = chain.train('both', 'tatoeba_both')
    both_in_eight_bits = chain.make('both_in_eight_bits', lambda out: write_in_eight_bits(both, out))
    marked = chain.make('marked', lambda out: add_marks(both_in_eight_bits, out))
    first = chain.train(
        'first',
        'tatoeba_europarl --training.steps 4220 --optimizer.learning-rate 2.5e-3 --data.robust 0.4',
        marked,
    )
    debates = chain.train('debates', 'tatoeba_europarl', first)

    chain.translate(debates)
    chain.write_first_letters()
    second = chain.train(
        'second',
        'tatoeba_europarl_letters --training.steps 3038 --optimizer.learning-rate 1e-3',
        debates,
        WEIGHTS_OF_SECOND,
    )
    mean = chain.make('mean', lambda out: write_mean(debates, second, out))
    third = chain.train('third', 'tatoeba_europarl_letters', mean)

    third_in_eight_bits = chain.make('third_in_eight_bits', lambda out: write_in_eight_bits(third, out))
    last = chain.train(
        'last',
        'tatoeba_europarl_letters --training.steps 450 --training.int8-share 0.25 --training.cpu-dtype float32 '
        '--optimizer.learning-rate 2.5e-4 --optimizer.warmup-steps 40 '
        '--decoding.weights auto --decoding.noisy-channel en',
        third_in_eight_bits,
        WEIGHTS_OF_LAST,
        has_all_letters=True,
    )

    def write_calibrated(out: Path) -> None:
        write_in_eight_bits(last, out)
        call('calibrate', out)

    return chain.make('everyday', write_calibrated)


class Chain:
    """Runs in one folder, each made of those before it, and only if it is not there yet."""

    def __init__(self, folder: Path, *, is_smallest: bool) -> None:
        self.folder = folder
        self.is_smallest = is_smallest
        self.translated = folder / 'translated'  # and the letters that there were first

    def train(
        self,
        name: str,
        command: str,
        start: Path | None = None,
        weights: Mapping[str, float] | None = None,
        *,
        has_all_letters: bool = False,
    ) -> Path:
        """The run `name`, trained as `flax-transformer train` does, with other weights of the config's corpora."""
        argv = [*command.split(), '--workdir', str(self.folder / name), '--training.calibrate-on', '0']
        if self.is_smallest:
            fields = SMALLEST_FIELDS if start else f'{SMALLEST_FIELDS} {SMALLEST_VOCABULARY}'
            argv += fields.split()
        if start is not None:
            argv += ['--init-from', str(start)]
        options = parse('train', TrainOptions, argv, first='CONFIG', default=lambda name: train_options(name, argv))
        config = self._with_corpora(options.config, weights or {}, has_all_letters=has_all_letters)
        train_as_asked(replace(options, config=config))
        return options.workdir

    def _with_corpora(self, config: Config, weights: Mapping[str, float], *, has_all_letters: bool) -> Config:
        """The config with these weights, by names of corpora with or without languages, and this folder's files.

        A corpus of weight 0 is left out.
        """
        mixture = []
        for corpus in config.data.mixture:
            kind = corpus.name.replace(f'-{corpus.source_language}-{corpus.target_language}', '')
            weight = weights.get(corpus.name, weights.get(kind, corpus.weight))
            train = corpus.train
            if kind.endswith('-translated') or (kind == 'letters' and not has_all_letters):
                train = str(self.translated / Path(train).name)
            if weight != 0:
                mixture.append(replace(corpus, train=train, weight=weight))
        return replace(config, data=replace(config.data, mixture=tuple(mixture)))

    def make(self, name: str, write: Callable[[Path], Any]) -> Path:
        """The run `name`, by a function that writes it to a folder."""
        made = self.folder / name
        if not made.exists():
            new = self.folder / f'{name}.new'
            shutil.rmtree(new, ignore_errors=True)  # of a start that was stopped
            write(new)
            new.rename(made)
        remember(made)
        return made

    def write_first_letters(self) -> None:
        for language in LANGUAGES:
            file = self.translated / f'letters.{language}'
            if not file.exists():
                write_lines(file, islice(each_line(ROOT / 'configs' / file.name), FIRST_LETTERS))

    def translate(self, run: Path) -> None:
        """Writes translated/CORPUS_PAIR.LANGUAGE: lines of the corpora, and the translations of them that are good."""
        root = data_root(None)
        chrf = make_metrics()['chrf']
        for source, target in PAIRS:
            for corpus, (period, least) in TRANSLATED.items():
                name = f'{corpus}_{source}{target}'
                if (self.translated / f'{name}.{target}').exists():
                    continue
                files = [file_of(root, corpus, 'train', language) for language in (source, target)]
                numbered = enumerate(zip(*map(each_line, files), strict=True), 1)
                pairs = [pair for number, pair in numbered if number % period]
                if self.is_smallest:
                    pairs, least = pairs[:SMALLEST_TRANSLATED], 0.0
                lines = self.translated / f'{name}.lines.txt'
                translations = self.translated / f'{name}.translations.txt'
                write_lines(lines, [line for line, _ in pairs])
                call('translate', run, '--to', target, '--input', lines, '--output', translations, '--resume')

                good = [
                    (line, translation)
                    for (line, reference), translation in zip(pairs, each_line(translations), strict=True)
                    if translation != line and chrf.sentence_score(translation, [reference]).score >= least
                ]
                write_lines(self.translated / f'{name}.{source}', [line for line, _ in good])
                write_lines(self.translated / f'{name}.{target}', [translation for _, translation in good])


def check_corpora(root: Path) -> None:
    for corpus in TRANSLATED:
        for part in SMALLEST:
            for language in LANGUAGES:
                file = file_of(root, corpus, part, language)
                if not file.exists():
                    raise UserError(f'{file} does not exist; expected the corpora below ${ROOT_VARIABLE}, else data/')


def file_of(root: Path, corpus: str, part: str, language: str) -> Path:
    return root / f'{corpus}_en_de' / f'{part}.{language}{".gz" if part == "train" else ""}'


def write_small_corpora(root: Path, folder: Path) -> None:
    for corpus in TRANSLATED:
        for part, period in SMALLEST.items():
            for language in LANGUAGES:
                lines = each_line(file_of(root, corpus, part, language))
                write_lines(file_of(folder, corpus, part, language), islice(lines, 0, None, period))


def write_in_eight_bits(run: Path, out: Path) -> None:
    average(Run(run), out, trainer_on_one_device(Run(run).read_config()).shapes.params, last=1, int8=True)


def write_mean(one: Path, other: Path, out: Path) -> None:
    """Makes `out` a run whose parameters are the mean of those of two runs."""
    first, second = load_run(f'{one}@last'), load_run(f'{other}@last')
    params = jax.tree.map(lambda mine, theirs: (mine + theirs) / 2, first.params, second.params)
    write_copy(Run(one), out, first.config, params)


def write_lines(file: Path, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(file) as opened, compressing(opened, file.suffix) as written:
        for line in lines:
            written.write(f'{line}\n'.encode())


def call(*words: object) -> None:
    """Runs a command of flax-transformer in this process; if it fails, exits with its code."""
    code = cli.main([str(word) for word in words])
    if code:
        sys.exit(code)


def scores(run: Path) -> dict[str, Any]:
    """The megabytes of a run's weights in eight bits, and the BLEU of the test sets."""
    weights = Translator.from_run(run, weights='int8').weights
    megabytes = sum(leaf.nbytes for leaf in jax.tree.leaves(weights)) / 1e6
    bleu = {}
    for source, target in PAIRS:
        translator = Translator.from_run(run, target_language=target, literals='ignored', weights='float32')
        for corpus in TRANSLATED:
            files = [file_of(data_root(None), corpus, 'test', language) for language in (source, target)]
            found, _ = evaluate_translation(translator, read_text_files(*files))
            bleu[f'{corpus} {source}-{target}'] = found.bleu
    return {'megabytes': megabytes, 'bleu': bleu, 'signature': found.bleu_signature}


if __name__ == '__main__':
    process.run(main, is_training=True)
