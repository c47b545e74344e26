"""Scores against sacrebleu's own, and the loss against its definition."""

from pathlib import Path

import pytest
import sacrebleu

from flax_transformer import Translator
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.tasks.translation.evaluation import evaluate_loss
from flax_transformer.tasks.translation.metrics import score
from flax_transformer.tasks.translation.run import Run

OURS = ['The cat sat on the mat.', 'It is raining today', 'no']
THEIRS = ['The cat sat on the mat.', 'It rains today, I think.', 'yes']


def test_bleu_is_cased_detokenised_sacrebleu() -> None:
    scores = score(OURS, THEIRS)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(OURS, [THEIRS]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(OURS, [THEIRS]).score)
    assert scores.bleu_signature.startswith('nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:')
    assert scores.exact == pytest.approx(1 / 3)
    assert score([line.lower() for line in OURS], THEIRS).bleu < scores.bleu
    assert f'{scores.bleu:.2f}' in str(scores)


def test_a_bleu_of_single_words_is_explained() -> None:
    scores = score(['eins', 'zwei'], ['eins', 'zwei'])
    assert scores.exact == 1.0
    assert 'no line has the four words' in str(scores)
    assert 'no line has the four words' not in str(score(OURS, THEIRS))


def test_unequal_numbers_of_lines_are_refused() -> None:
    with pytest.raises(ValueError, match='2 translations, 3 references'):
        score(OURS[:2], THEIRS)


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
