"""Scores against sacrebleu's own, and the loss against its definition."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from flax_transformer import Translator
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.tasks.translation.evaluation import evaluate_loss, evaluate_translation
from flax_transformer.tasks.translation.run import Run


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
    pairs = Pairs(['a b', long, 'h h h'], ['a b', long, 'h h h'])
    measured = evaluate_loss(config, translator.params, translator.tokenizer, pairs)
    assert measured['target_tokens'] == sum(len(ids) for ids in translator.tokenizer.encode(pairs.targets))
    log_prob = 0.0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        alone = evaluate_loss(config, translator.params, translator.tokenizer, Pairs([source], [target]))
        log_prob += alone['nll'] * alone['target_tokens']
    assert measured['nll'] == pytest.approx(log_prob / measured['target_tokens'], rel=1e-5)
