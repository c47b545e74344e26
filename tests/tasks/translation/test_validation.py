"""Scores that a run measures on its validation set while it trains."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
import sacrebleu
from conftest import copy_config
from drawn_params import drawn
from tiny_translation import MODEL

from flax_transformer import Translator, train
from flax_transformer.config import Config, CorpusConfig, DataConfig, DecodingConfig, ParallelConfig, TrainingConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.task import TrainState
from flax_transformer.tasks.translation.inference.batch_runner import Runner
from flax_transformer.tasks.translation.metrics import make_metrics, score_tokens
from flax_transformer.tasks.translation.preparation import Prepared, ValidationSet
from flax_transformer.tasks.translation.training import TranslationValidation
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import parameter_shapes


@pytest.mark.slow
def test_bleu_is_that_of_the_translations_that_the_run_makes(copy_folder: Path, tmp_path: Path) -> None:
    """Of the moving average, by the run's own search, to the digit; and it can say which checkpoint is best."""
    config = copy_config(copy_folder, steps=50, evaluate_every=50, checkpoint_every=50, keep_last=1, evaluate_bleu=30)
    training = replace(config.training, best_by='bleu')
    decoding = replace(config.decoding, beam_width=1)
    optimizer = replace(config.optimizer, ema_decay=0.9)
    config = replace(config, training=training, optimizer=optimizer, decoding=decoding)
    run = train(config, tmp_path / 'run')
    (record,) = (r for r in read_metrics(run.path) if r['kind'] == 'validation' and r['step'] == 50)
    sources, targets = ((copy_folder / f'validation.{side}').read_text().splitlines()[:30] for side in ('in', 'out'))
    metric = make_metrics()['bleu']
    found = metric.corpus_score([one.text for one in Translator.from_run(run.path)(sources)], [targets])
    assert record['bleu'] == found.score > 1.0
    assert record['bleu_signature'] == str(metric.get_signature())
    assert record['bleu_sentences'] == 30


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def validation() -> TranslationValidation:
    """Of a model that has learned nothing, on two devices, in two languages."""
    lines = ['a man rides a bicycle', 'ein mann fährt rad', '一个男人骑自行车', '两个孩子正在公园里踢足球。']
    tokenizer = SentencePieceTokenizer.train(lines * 9, vocab_size=64, byte_fallback=False, languages=('de', 'zh_CN'))
    corpora = [CorpusConfig(name, 'train', 'validation', target_language=name) for name in ('de', 'zh_CN')]
    data = DataConfig(target_language='de', mixture=tuple(corpora), language_tags=True)
    config = Config(
        model=replace(MODEL, vocab_size=64),
        data=data,
        training=TrainingConfig(evaluate_bleu=None, sample_translations=0),
        decoding=DecodingConfig(beam_width=1, max_extra_tokens=3),
        parallel=ParallelConfig(num_devices=2),
    )
    sets = [
        ValidationSet(corpus.name, Pairs(lines[:1] * 2, lines[i : i + 1] * 2), None, corpus.name, corpus.name, tokens)
        for i, corpus, tokens in zip((1, 3), corpora, (score_tokens('de'), score_tokens('zh_CN')), strict=True)
    ]
    return TranslationValidation(config, Prepared(tokenizer, [], sets, {}), SimpleNamespace())


def test_each_language_is_scored_by_its_own_tokens_and_the_log_says_by_which(validation: TranslationValidation) -> None:
    said, texts = Said(), {}
    for each in validation._sets:
        texts |= {(each.name, i): target.replace('足球', '网球') for i, target in enumerate(each.pairs.targets)}
    validation._translate = lambda params: texts
    scores, _ = (validation._translate_and_score(step, None, said) for step in (1, 2))
    targets = validation._sets[1].pairs.targets
    expected = sacrebleu.corpus_bleu([texts['zh_CN', i] for i in range(2)], [targets], tokenize='zh').score
    assert scores['bleu/zh_CN'] == expected > 50
    assert scores['bleu/de'] == pytest.approx(100)
    assert scores['bleu'] == (scores['bleu/de'] + scores['bleu/zh_CN']) / 2
    of_de, of_zh = scores['bleu_signature'].split('; ')
    assert of_de.startswith('de nrefs:1|')
    assert ('|tok:13a|' in of_de, '|tok:zh|' in of_zh) == (True, True)
    assert said.lines == [f'BLEU is {scores["bleu_signature"]}']


@pytest.mark.slow
def test_an_evaluation_leaves_no_copy_of_the_parameters(validation: TranslationValidation) -> None:
    """Neither on one device nor on the others: training needs the memory."""
    alive = lambda: sum(x.nbytes * len(x.sharding.device_set) for x in jax.live_arrays() if x.ndim == 2)
    before = alive()
    params = jax.tree.map(jnp.asarray, drawn(parameter_shapes(validation._config.model)))
    size = alive() - before
    assert size > 0
    validation.trainer = SimpleNamespace(devices=Devices(ParallelConfig()), evaluate=lambda params, batches: {})
    kept: list[int] = []
    release = Runner.release
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, 'release', lambda runner: (kept.append(alive() - before), release(runner)))
        patch.setattr('flax_transformer.tasks.translation.training.loss_batches', lambda *args, **settings: [])
        patch.setattr('flax_transformer.tasks.translation.training.of_each_corpus', lambda *args: [])
        for _ in range(2):
            validation(TrainState(jnp.int32(3), params, None, None), Said())
            assert kept.pop() >= 3 * size, 'the copies on both devices'
            assert alive() - before == size
    del params
    assert alive() == before
