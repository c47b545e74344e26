"""Scores against sacrebleu's own, and the loss against its definition."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from flax_transformer import Translator
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.tasks.translation.evaluation import evaluate_loss, evaluate_translation
from flax_transformer.tasks.translation.metrics import score
from flax_transformer.tasks.translation.run import Run

OURS = ['The cat sat on the mat.', 'It is raining today', 'no']
THEIRS = ['The cat sat on the mat.', 'It rains today, I think.', 'yes']


def test_exact_matches_are_printed_first() -> None:
    first, second, *_ = str(score(OURS, THEIRS)).splitlines()
    assert first == 'exact matches: 33.3% of 3 lines'
    assert second.startswith('BLEU ')


def test_no_bleu_is_printed_where_no_translation_has_four_words() -> None:
    scores = score(['eins', 'zwei'], ['eins', 'zwei'], sources=['one', ' '.join(['two'] * 11)])
    assert scores.exact == 1.0
    (line,) = [line for line in str(scores).splitlines() if 'BLEU' in line]
    assert line == 'BLEU is not defined here: it counts four tokens in a row, and no translation has as many'
    assert scores.bleu_signature in str(scores)
    assert 'BLEU is not defined' not in str(score(OURS, THEIRS))


def test_the_table_by_length_has_a_bleu_for_sentences() -> None:
    ours, sources = [OURS[0], OURS[0]], ['a', ' '.join('a' * 11)]
    title, *rows = str(score(ours, ours, sources=sources)).splitlines()[-4:-1]
    assert title.split() == ['source', 'words', 'lines', 'BLEU', 'chrF', 'length', 'ratio']
    assert [row.split() for row in rows] == [[words, '1', '100.00', '100.00', '1.000'] for words in ('0-10', '11-20')]


def test_all_references_of_a_pair_count() -> None:
    class Echo:
        target_language = 'de'

        def __call__(self, sources: list[str], progress: object) -> list[SimpleNamespace]:
            return [SimpleNamespace(text=source, truncated=False) for source in sources]

    lines = ['this is the first line', 'and that is the second']
    pairs = Pairs(lines, ['was ist das hier', lines[1]], ([lines[0], None],))
    scores, _ = evaluate_translation(Echo(), pairs)
    assert (scores.exact, scores.bleu) == (1, pytest.approx(100))
    assert scores.bleu_signature.startswith('nrefs:var|')


def test_the_loss_leaves_no_pair_out_and_does_not_depend_on_the_batches(copy_run: Path) -> None:
    """A pair that is longer than a training row counts too."""
    config = Run(copy_run).read_config()
    translator = Translator.from_run(copy_run)
    long = ' '.join('abcdefgh' * 8)
    pairs = Pairs(['a b', 'c', long, 'h h h'], ['a b', 'c', long, 'h h h'])
    measured = evaluate_loss(config, translator.params, translator.tokenizer, pairs)
    assert measured['target_tokens'] == sum(len(ids) for ids in translator.tokenizer.encode(pairs.targets))
    log_prob = 0.0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        alone = evaluate_loss(config, translator.params, translator.tokenizer, Pairs([source], [target]))
        log_prob += alone['nll'] * alone['target_tokens']
    assert measured['nll'] == pytest.approx(log_prob / measured['target_tokens'], rel=1e-5)
