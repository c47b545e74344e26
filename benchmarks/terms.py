"""Terms that a model misses, with and without: `python benchmarks/terms.py RUN TRAIN TEST`; JSON lines.

TRAIN and TEST are paths with {lang}. Aligns the words of the training text (IBM model 1 in both directions, Brown et
al. 1993), and takes up to 200 source words in test lines whose translation the reference has and the run's translation
lacks. Prints the share of terms in the translations, and BLEU: of these lines, each with the form of its reference
required; and of all lines in which a glossary finds one of the words, with every form that it is often aligned to.
Then times 500 lines, plain and with two words of the reference each, in turn; CPU seconds, since other work shares the
machine.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measuring import seconds_in_turn

from flax_transformer import Translator
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.tasks.translation.metrics import make_metrics
from flax_transformer.tasks.translation.run import Run

TERMS, TIMED, ROUNDS = 200, 500, 3
SIGNS = '.,;:!?"()\'…„“”-'


def words(line: str) -> list[str]:
    return [word for each in line.split() if (word := each.strip(SIGNS))]


def align(pairs: list[tuple[list[str], list[str]]], rounds: int = 5) -> dict[tuple[str, str], float]:
    """t(target | source) of IBM model 1, of words that are next to each other in some pair."""
    names = [{word: i for i, word in enumerate(sorted({w for pair in pairs for w in pair[side]}))} for side in (0, 1)]
    keys, rows = [], []
    number = 0
    for source, target in pairs:
        for word in target:
            keys += [names[0][each] * len(names[1]) + names[1][word] for each in source]
            rows += [number] * len(source)
            number += 1
    unique, place = np.unique(np.array(keys), return_inverse=True)
    rows, of_source = np.array(rows), unique // len(names[1])
    probability = np.ones(len(unique))
    for _ in range(rounds):
        weights = probability[place]
        share = weights / np.bincount(rows, weights)[rows]
        counts = np.bincount(place, share)
        probability = counts / np.bincount(of_source, counts)[of_source]
    known = [list(each) for each in names]
    return {
        (known[0][key // len(names[1])], known[1][key % len(names[1])]): value
        for key, value in zip(unique.tolist(), probability.tolist(), strict=True)
        if value > 0.05
    }


def lexicon(pairs: list[tuple[list[str], list[str]]]) -> dict[str, list[str]]:
    """Forms of the translation of each source word, the most frequent 100 left out."""
    there, back = align(pairs), align([pair[::-1] for pair in pairs])
    common = Counter(word for source, _ in pairs for word in source)
    often = {word for word, _ in common.most_common(100)}
    found: dict[str, list[str]] = {}
    for (source, target), value in there.items():
        if source not in often and common[source] >= 5 and value * back.get((target, source), 0.0) > 0.1:
            found.setdefault(source, []).append(target)
    return found


def report(
    name: str,
    plain: Sequence[Translation],
    found: Sequence[Translation],
    wanted: Sequence[Sequence[str | tuple[str, ...]]],
    references: Sequence[str],
) -> None:
    """Prints what became of the terms of each line, and BLEU of the lines that have some."""
    chosen, bleu = [i for i, terms in enumerate(wanted) if terms], make_metrics()['bleu']
    record = {'terms': name, 'lines': len(chosen), 'count': sum(map(len, wanted))}
    for when, translations in (('without', plain), ('with', found)):
        texts = [translations[i].text for i in chosen]
        kept = [
            any(form in text for form in ([term] if isinstance(term, str) else term))
            for i, text in zip(chosen, texts, strict=True)
            for term in wanted[i]
        ]
        record[f'share_{when}'] = sum(kept) / len(kept)
        record[f'bleu_{when}'] = bleu.corpus_score(texts, [[references[i] for i in chosen]]).score
    print(json.dumps(record | {'signature': str(bleu.get_signature())}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    for name in ('run', 'train', 'test'):
        parser.add_argument(name)
    parser.add_argument('--target-language')
    options = parser.parse_args()
    data = Run(options.run.partition('@')[0]).read_config().data
    languages = (data.source_language, options.target_language or data.target_language)
    read = lambda name: [list(read_lines(Path(name.format(lang=language)))) for language in languages]
    forms = lexicon([([w.lower() for w in words(a)], words(b)) for a, b in zip(*read(options.train), strict=True)])
    sources, references = read(options.test)
    translator = Translator.from_run(options.run, target_language=options.target_language, beam_width=4)
    plain = translator(sources)
    missed = [
        (number, word, form)
        for number, (source, reference) in enumerate(zip(sources, references, strict=True))
        for word in dict.fromkeys(map(str.lower, words(source)))
        if word in forms and not {*forms[word]} & {*words(plain[number].text)}
        for form in [next((form for form in forms[word] if form in words(reference)), None)]
        if form is not None
    ][:TERMS]
    required = [[form for at, _, form in missed if at == number] for number in range(len(sources))]
    glossary = Glossary({word: forms[word] for _, word, _ in missed})
    matches = [[match.targets for match in glossary.find(source)] for source in sources]
    report('the form of the reference', plain, translator(sources, required=required), required, references)
    report('a glossary', plain, translator(sources, glossary=glossary), matches, references)
    chosen = [i for i, line in enumerate(references) if len({*words(line)}) > 2][:TIMED]
    some, rng = [sources[i] for i in chosen], np.random.default_rng(0)
    phrases = [[str(w) for w in rng.choice(sorted({*words(references[i])}), 2, replace=False)] for i in chosen]
    functions = {'none': lambda: translator(some), 'two each': lambda: translator(some, required=phrases)}
    seconds = seconds_in_turn(functions, ROUNDS, time.process_time)
    ratios = [with_two / none for with_two, none in zip(seconds['two each'], seconds['none'], strict=True)]
    print(json.dumps({'lines': len(some), 'seconds': seconds, 'median_ratio': statistics.median(ratios)}))


if __name__ == '__main__':
    main()
