"""Scores that a run measures on its validation set while it trains."""

from dataclasses import replace
from pathlib import Path

from conftest import copy_config

from flax_transformer import Translator, train
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.translation.metrics import make_metrics


def test_bleu_is_that_of_the_translations_that_the_run_makes(copy_folder: Path, tmp_path: Path) -> None:
    """Of the moving average, by the run's own search, to the digit; and it can say which checkpoint is best."""
    config = copy_config(copy_folder, steps=80, evaluate_every=40, checkpoint_every=40, keep_last=1, evaluate_bleu=30)
    training = replace(config.training, best_by='bleu', sample_translations=1)
    decoding = replace(config.decoding, beam_width=3, alpha=1.0)
    config = replace(config, training=training, decoding=decoding)
    config = replace(config, optimizer=replace(config.optimizer, ema_decay=0.9))
    run = train(config, tmp_path / 'run')
    (record,) = (r for r in read_metrics(run.path) if r['kind'] == 'validation' and r['step'] == 80)
    sources, targets = ((copy_folder / f'validation.{side}').read_text().splitlines()[:30] for side in ('in', 'out'))
    metric = make_metrics()['bleu']
    found = metric.corpus_score([one.text for one in Translator.from_run(run.path)(sources)], [targets])
    assert record['bleu'] == found.score > 1.0
    assert record['bleu_signature'] == str(metric.get_signature())
    assert record['bleu_sentences'] == 30
