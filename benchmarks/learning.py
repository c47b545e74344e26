"""A post-editor who corrects sentence by sentence, and what the model and its memory make of the next one.

    python benchmarks/learning.py [--source report.en --reference report.de] [--picture learn.png]

Each sentence is translated before its reference is added as the correction: by the untouched model, the memory alone,
what was learned, and both. TER is sacreBLEU's, of all sentences so far. The general set shows what was lost.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from sacrebleu.metrics import BLEU, TER

from flax_transformer import Translator
from flax_transformer.data.lines import read_lines
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.translation.learning.learner import Learner
from flax_transformer.tasks.translation.learning.memory import Memory, Pair, memory_file, read_sample

DATA = Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data'))
KINDS = ('untouched', 'memory', 'learned', 'both')


def simulate(run: str, pairs: list[Pair], general: tuple[list[str], list[str]], picture: Path | None) -> None:
    languages = pairs[0][2:4]
    asked = dict(zip(('source_language', 'target_language'), languages, strict=True))
    translator = Translator.from_run(run, weights='float32', **asked)  # as a server that learns has it
    learner = Learner(translator, read_sample(split_reference(run)[0]))
    learned = learner.start()
    texts: dict[str, list[str]] = {kind: [] for kind in KINDS}
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(memory_file(Path(folder), 'editor'))
        for pair in pairs:
            plain = translator(pair.source).text
            taught = translator.with_params(learner.params(learned))(pair.source).text
            known = memory.exact(pair.source, languages)
            for kind, text in zip(KINDS, (plain, known or plain, taught, known or taught), strict=True):
                texts[kind].append(text)
            began = time.perf_counter()
            memory.add([pair])
            learned = learner.learn(learned, memory.pairs()[-1])
            seconds.append(time.perf_counter() - began)

    references = [pair.target for pair in pairs]
    print('| sentences | ' + ' | '.join(KINDS) + ' |\n| --- | --- | --- | --- | --- |')
    curves: dict[str, list[float]] = {kind: [] for kind in KINDS}
    ends = [end for end in range(10, len(pairs) + 1, 10)] or [len(pairs)]
    for end in ends:
        for kind in KINDS:
            curves[kind].append(TER().corpus_score(texts[kind][:end], [references[:end]]).score)
        if end in (ends[len(ends) // 4], ends[len(ends) // 2], ends[-1]):
            print(f'| {end} | ' + ' | '.join(f'{curves[kind][-1]:.1f}' for kind in KINDS) + ' |')
    half = len(pairs) // 2
    last = {kind: TER().corpus_score(texts[kind][half:], [references[half:]]).score for kind in KINDS}
    print('| second half | ' + ' | '.join(f'{last[kind]:.1f}' for kind in KINDS) + ' |')
    sources, targets = general
    before, after = (
        BLEU().corpus_score([each.text for each in model(sources)], [targets]).score
        for model in (translator, translator.with_params(learner.params(learned)))
    )
    taken = len(pairs) - len(learned.left_out)
    print(f'general BLEU {before:.2f} -> {after:.2f}; {taken} of {len(pairs)} pairs were learned')
    print(f'an update: median {statistics.median(seconds):.2f} s, longest {max(seconds[1:] or seconds):.2f} s')
    if picture:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6, 3.5), layout='constrained')
        for kind in KINDS:
            axes.plot(ends, curves[kind], label=kind)
        axes.set(xlabel='sentences corrected', ylabel='TER of all until then (less is better)')
        axes.legend()
        figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--run', default='everyday')
    captions = DATA / 'multi30k'
    parser.add_argument('--source', type=Path, default=captions / 'test_2016_flickr.en')
    parser.add_argument('--reference', type=Path, default=captions / 'test_2016_flickr.de')
    known = [DATA / 'tatoeba_en_de' / f'test.{language}' for language in ('en', 'de')]
    parser.add_argument('--general', type=Path, nargs=2, default=known, metavar=('SOURCE', 'REFERENCE'))
    parser.add_argument('--languages', nargs=2, default=['en', 'de'])
    parser.add_argument('--count', type=int, default=200, help='sentences')
    parser.add_argument('--general-count', type=int, default=200)
    parser.add_argument('--picture', type=Path)
    options = parser.parse_args()
    source, target = options.languages
    lines = zip(read_lines(options.source), read_lines(options.reference), strict=True)
    pairs = [Pair(*line, source, target) for line in lines if all(map(str.strip, line))][: options.count]
    general = tuple(list(read_lines(file))[: options.general_count] for file in options.general)
    simulate(options.run, pairs, general, options.picture)


if __name__ == '__main__':
    main()
