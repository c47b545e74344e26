"""Configs check themselves and survive JSON. Points are those of docs/explanation/paper_and_code.md."""

import dataclasses
import itertools
import json
import math
import re
import types
import typing
from typing import Literal

import pytest

from flax_transformer.common.config_json import changed_fields, from_json, section_classes, to_json
from flax_transformer.common.errors import UserError
from flax_transformer.config import (
    CheckConfig,
    Config,
    CorpusConfig,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)

SECTIONS = {
    field.name: section_classes(typing.get_type_hints(Config)[field.name]) for field in dataclasses.fields(Config)
}
SECTIONS.pop('seed')


def fields_of(*kinds):
    """(section, field) of every field whose type is, or may be, one of `kinds`."""
    found = []
    for section in itertools.chain(*SECTIONS.values()):
        for name, hint in typing.get_type_hints(section).items():
            options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
            if any(option in kinds or typing.get_origin(option) in kinds for option in options):
                found.append(pytest.param(section, name, id=f'{section.__name__}.{name}'))
    return found


def names(field):
    return rf'\b{field}\b'


@pytest.mark.parametrize(('section', 'field'), fields_of(int, float))
def test_minus_one_is_refused_for_every_number(section, field):
    """All numbers are sizes, counts, ids, rates or positive reals; one added without a check fails here."""
    with pytest.raises(UserError, match=names(field)) as caught:
        section(**{field: -1})
    assert '-1' in str(caught.value)
    assert 'expected' in str(caught.value) or 'ask for' in str(caught.value) or 'no effect' in str(caught.value)


@pytest.mark.parametrize(('section', 'field'), fields_of(float))
def test_nan_is_refused_for_every_real_number(section, field):
    with pytest.raises(UserError, match=names(field)):
        section(**{field: math.nan})


@pytest.mark.parametrize(('section', 'field'), fields_of(Literal))
def test_unknown_word_is_refused_with_the_words_there_are(section, field):
    with pytest.raises(UserError, match=names(field)) as caught:
        section(**{field: 'nonsense'})
    assert "'nonsense'" in str(caught.value)
    for word in typing.get_args(typing.get_type_hints(section)[field]):
        assert word in str(caught.value)


NEVER_ZERO = {
    TransformerConfig: 'vocab_size d_model num_heads head_dim '
    'd_ff num_encoder_layers num_decoder_layers max_length target_vocab_size',
    TokenizerConfig: 'max_sentences',
    DataConfig: 'source_length target_length block_size numbers_train numbers_held_out',
    TrainingConfig: 'steps tokens_per_step log_every evaluate_every checkpoint_every keep_last keep_best',
    DecodingConfig: 'beam_width max_extra_tokens batch_tokens max_tokens min_tokens',
}


@pytest.mark.parametrize('section', NEVER_ZERO)
def test_zero_is_refused_where_it_means_nothing(section):
    for field in NEVER_ZERO[section].split():
        with pytest.raises(UserError, match=f'{field}=0'):
            section(**{field: 0})


ONE, WEIGHED = CorpusConfig('a', 'x'), CorpusConfig('a', 'x', weight=1.0)
FRENCH = CorpusConfig('b', 'y', target_language='fr')


@pytest.mark.parametrize(
    ('section', 'values', 'expected'),
    [
        (TransformerConfig, {'d_model': 512, 'num_heads': 7}, r'd_model=512 is not divisible by num_heads=7.*head_dim'),
        (TransformerConfig, {'d_model': 15, 'num_heads': 5}, r'd_model=15.*even'),
        (TransformerConfig, {'dropout_rate': 1.0}, r'dropout_rate=1.0'),
        (TransformerConfig, {'norm_epsilon': 0.0}, r'norm_epsilon=0.0'),
        (TransformerConfig, {'positions': 'learnt'}, r"positions='learnt'.*Did you mean learned"),
        (TransformerConfig, {'pad_id': 37_000}, r'pad_id=37000.*36999'),
        (TransformerConfig, {'target_vocab_size': 9}, r"target_vocab_size=9: tie_embeddings='all'"),
        (TransformerConfig, {'target_vocab_size': 9, 'tie_embeddings': 'none', 'pad_id': 9}, r'pad_id=9.*target_vo.*8'),
        (TransformerConfig, {'pad_id': 1}, r'pad_id and eos_id are both 1'),
        (TokenizerConfig, {'character_coverage': 1.01}, r'character_coverage=1.01'),
        (TokenizerConfig, {'character_coverage': 0.5}, r'character_coverage=0.5'),
        (DataConfig, {'source_language': ''}, r'source_language is empty'),
        (DataConfig, {'train': ''}, r'train is empty'),
        (DataConfig, {'numbers_below': 61_999}, r'numbers_below=61999.*62000'),
        (DataConfig, {'train': 'x', 'mixture': (ONE,)}, r"train='x' has no effect with a mixture"),
        (DataConfig, {'mixture': (CorpusConfig('test', 'x'),)}, r"'test' is the name of the test set"),
        (DataConfig, {'bpe_dropout': 1.0}, r'bpe_dropout=1.0'),
        (DataConfig, {'mixture_temperature': 0.5}, r'mixture_temperature=0.5: expected at least 1'),
        (DataConfig, {'mixture': (ONE,) * 2}, r'mixture: expected names that differ, got a, a'),
        (DataConfig, {'mixture': (WEIGHED, FRENCH)}, r'mixture: a have a weight and the others none'),
        (
            DataConfig,
            {'mixture': (WEIGHED,), 'mixture_temperature': 2.0},
            r'mixture_temperature=2.0 .* corpora have weights',
        ),
        (DataConfig, {'mixture': (ONE, FRENCH)}, r'target languages de, fr.*set language_tags'),
        (
            DataConfig,
            {'mixture': (FRENCH,), 'language_tags': True},
            r"target_language='de' is no target of the corpora, fr",
        ),
        (CorpusConfig, {'name': '', 'train': 'x'}, r'name is empty'),
        (CorpusConfig, {'name': 'a', 'train': ''}, r'train is empty'),
        (CorpusConfig, {'name': 'a', 'train': 'x', 'weight': 0.0}, r'weight=0.0: expected more than 0'),
        (CheckConfig, {'copy': 1.5}, r'copy=1.5: expected at most 1'),
        (CheckConfig, {'max_length_ratio': 1.0}, r'max_length_ratio=1.0: expected more than 1'),
        (OptimizerConfig, {'learning_rate': 0.0}, r'learning_rate=0.0'),
        (OptimizerConfig, {'warmup_steps': 0}, r'warmup_steps=0.*noam'),
        (OptimizerConfig, {'beta1': 1.0}, r'beta1=1.0'),
        (OptimizerConfig, {'ema_decay': 1.0}, r'ema_decay=1.0'),
        (OptimizerConfig, {'epsilon': 0.0}, r'epsilon=0.0'),
        (OptimizerConfig, {'weight_decay': 0.1}, r"weight_decay=0.1 has no effect with name='adam'"),
        (OptimizerConfig, {'clip_norm': 0.0}, r'clip_norm=0.0'),
        (OptimizerConfig, {'freeze': ('encoder/.*', '*')}, r"freeze='\*': expected a regular expression"),
        (OptimizerConfig, {'schedule_steps': 9}, r"schedule_steps=9 has no effect with schedule='noam'"),
        (OptimizerConfig, {'schedule_steps': 0, 'schedule': 'cosine'}, r'schedule_steps=0'),
        (
            Config,
            {'optimizer': OptimizerConfig(schedule='linear', schedule_steps=9), 'training': TrainingConfig(steps=10)},
            r'schedule_steps=9: expected at least training.steps=10',
        ),
        (TrainingConfig, {'label_smoothing': 1.0}, r'label_smoothing=1.0'),
        (TrainingConfig, {'best_by': 'bleu'}, r"best_by='bleu': nothing is translated with evaluate_bleu=0"),
        (TrainingConfig, {'average_last': 3, 'keep_last': 2}, r'average_last=3: expected 1 to keep_last=2'),
        (DecodingConfig, {'max_source_tokens': 7}, r'max_source_tokens=7'),
        (DecodingConfig, {'banned_ids': (3, -1)}, r'banned_ids=\(3, -1\): expected ids of at least 0'),
        (DecodingConfig, {'banned_ids': 3}, r'banned_ids=3: expected tuple\[int, \.\.\.\]'),
        (DecodingConfig, {'beam_width': 4, 'groups': 3}, r'beam_width=4 is not divisible by groups=3'),
        (DecodingConfig, {'beam_width': 4, 'n_best': 5}, r'n_best=5: expected at most beam_width=4'),
        (DecodingConfig, {'search': 'sample', 'n_best': 2}, r'n_best=2: expected at most samples=1'),
        (DecodingConfig, {'beam_width': 1, 'mbr': 'bleu'}, r"mbr='bleu'.*beam_width of at least 2"),
        (DecodingConfig, {'temperature': 0.0}, r'temperature=0.0: expected at least 1e-9'),
        (DecodingConfig, {'top_p': 0.0}, r'top_p=0.0'),
        (DecodingConfig, {'min_p': 1.0}, r'min_p=1.0'),
        (DecodingConfig, {'seed': 2**31}, r'seed=2147483648'),
        (Config, {'training': TrainingConfig(tokens_per_step=1000)}, r'tokens_per_step=1000.*target_length=128.*1024'),
        (
            Config,
            {'training': TrainingConfig(patience=3), 'data': DataConfig(validation='')},
            r'training.patience=3 has no effect without a validation set',
        ),
        (
            Config,
            {'training': TrainingConfig(r_drop_alpha=2.0), 'model': TransformerConfig(dropout_rate=0.0)},
            r'training.r_drop_alpha=2.0 has no effect without dropout',
        ),
        (Config, {'tokenizer': TokenizerConfig(unk_id=1)}, r'unk_id=1'),
        (Config, {'model': TransformerConfig(positions='learned', max_length=127)}, r'max_length=127.*306'),
    ],
)
def test_bad_value_is_refused_by_name(section, values, expected):
    with pytest.raises(UserError, match=expected):
        section(**values)


def test_training_takes_its_first_three_fields_without_names_and_no_more():
    """As earlier versions ordered them; a fourth would be another field now."""
    assert TrainingConfig(7, 128, 0.2) == TrainingConfig(steps=7, tokens_per_step=128, label_smoothing=0.2)
    with pytest.raises(TypeError, match='positional'):
        TrainingConfig(7, 128, 0.2, 50)


def test_defaults_are_the_papers():
    """Each a named field. Points 1, 2, 3, 4, 5, 6, 8, 9, 11, 12 and 13; the base model of table 3."""
    config = Config()
    model, optimizer, training, decoding = config.model, config.optimizer, config.training, config.decoding
    assert (model.d_model, model.num_heads, model.width_of_head, model.d_ff) == (512, 8, 64, 2048)
    assert (model.num_encoder_layers, model.num_decoder_layers, model.activation) == (6, 6, 'relu')
    assert model.scale_embedding  # point 1
    assert (model.tie_embeddings, model.logits_bias) == ('all', False)  # point 2
    assert not model.attention_bias  # point 3
    assert (model.norm_first, model.norm_epsilon) == (False, 1e-6)  # point 4
    rates = model.dropout_rate, model.attention_dropout_rate, model.activation_dropout_rate
    assert rates == (0.1, 0.0, 0.0)  # point 5
    assert training.label_smoothing == 0.1  # point 6
    assert (optimizer.schedule, optimizer.learning_rate, optimizer.warmup_steps) == ('noam', 1.0, 4000)  # point 8
    adam = optimizer.name, optimizer.beta1, optimizer.beta2, optimizer.epsilon
    assert adam == ('adam', 0.9, 0.98, 1e-9)  # point 9
    assert (optimizer.clip_norm, optimizer.weight_decay) == (None, 0.0)  # point 9
    assert model.positions == 'interleaved'  # point 11
    assert decoding.max_extra_tokens == 50  # point 12
    assert 24_000 <= training.tokens_per_step <= 26_000  # point 12
    assert (decoding.beam_width, decoding.length_penalty, decoding.alpha) == (4, 'gnmt', 0.6)  # point 13


def another(hint, default):
    """A value of this type that is not the default."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(kind for kind in kinds if kind is not types.NoneType)
    if dataclasses.is_dataclass(kind):
        return all_changed(kind)
    if typing.get_origin(kind) is Literal:
        return next(word for word in typing.get_args(kind) if word != default)
    if typing.get_origin(kind) is tuple:
        return (another(typing.get_args(kind)[0], None),)
    return {bool: not default, int: 77, float: 0.77, str: '/somewhere/ü'}[kind]


def all_changed(section):
    """A section in which no field has its default, so that a field lost on the way is seen."""
    hints = typing.get_type_hints(section)
    fields = dataclasses.fields(section)
    return section(**{field.name: another(hints[field.name], field.default) for field in fields})


@pytest.fixture
def changed(monkeypatch):
    """A config in which no field has its default; values need not fit each other here."""
    for section in (Config, CorpusConfig, *itertools.chain(*SECTIONS.values())):
        monkeypatch.setattr(section, '__post_init__', lambda self: None, raising=False)
    return all_changed(Config)


def test_json_round_trip_gives_the_same_config(changed):
    for config in (Config(), changed):
        text = to_json(config)
        assert from_json(text, Config) == config
        assert list(json.loads(text).items())[:2] == [('schema_version', 2), ('task', 'translation')]
        assert text.endswith('}\n')


def test_changed_fields_sees_every_field(changed):
    every = {
        f'{name}.{field.name}' for name, (section, *_) in SECTIONS.items() for field in dataclasses.fields(section)
    }
    assert set(changed_fields(Config(), changed)) == every | {'seed'}


@pytest.mark.parametrize('version', [3, 1, '2', None, 2.0])
def test_schema_that_this_version_cannot_read_is_refused_by_name(version):
    expected = re.escape(f'schema_version={version!r}') + r': this version of flax_transformer reads 2; '
    with pytest.raises(UserError, match=expected):
        from_json(json.dumps({'schema_version': version}), Config)
    with pytest.raises(UserError, match='schema_version'):
        from_json('{}', Config)


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ({'model': {'d_model': '512'}}, r"model\.d_model='512': expected int"),
        ({'model': {'d_model': True}}, r'model\.d_model=True: expected int'),
        ({'model': {'head_dim': 'x'}}, r"model\.head_dim='x': expected int \| None"),
        ({'model': {'dropout_rate': '0.1'}}, r"model\.dropout_rate='0\.1': expected float"),
        ({'model': {'norm_first': 1}}, r'model\.norm_first=1: expected bool'),
        ({'model': {'activation': 3}}, r'model\.activation=3: expected one of relu, gelu, swish'),
        ({'optimizer': {'clip_norm': 'none'}}, r"optimizer\.clip_norm='none': expected float \| None"),
        ({'model': 5}, r'model: got 5, expected a table'),
    ],
)
def test_wrong_type_is_refused_by_name(values, expected):
    with pytest.raises(UserError, match=expected):
        from_json(json.dumps({'schema_version': 2, 'task': 'translation', **values}), Config)


def test_whole_number_is_taken_for_a_real_one():
    text = '{"schema_version": 2, "task": "translation", "optimizer": {"learning_rate": 2}}'
    assert from_json(text, Config).optimizer.learning_rate == 2.0


def test_fused_attention_is_for_bfloat16_and_some_widths_and_drops_no_weights():
    TransformerConfig(attention='cudnn', head_dim=128)
    for changes in ({'dtype': 'float32'}, {'attention_dropout_rate': 0.1}, {'head_dim': 20}, {'head_dim': 264}):
        with pytest.raises(ValueError, match="attention='cudnn'"):
            TransformerConfig(attention='cudnn', **changes)
    for score in ('dot', 'additive'):
        with pytest.raises(ValueError, match=f"scaled dot products only: attention_score='{score}'.*'plain'"):
            TransformerConfig(attention='cudnn', attention_score=score)


@pytest.mark.parametrize('name', ['batch', 'instance'])
def test_norms_over_positions_are_refused_in_a_decoder(name):
    assert TransformerConfig(encoder_norm=name).norm_of_encoder == name
    with pytest.raises(ValueError, match=f"norm='{name}' .* see later ones.*encoder_norm='{name}' is possible"):
        TransformerConfig(norm=name)


def test_group_norm_needs_whole_groups():
    assert TransformerConfig(norm='group').norm_of_encoder == 'group'
    for changes in ({'norm': 'group'}, {'encoder_norm': 'group'}):
        with pytest.raises(ValueError, match='d_model=24 is not divisible by 16'):
            TransformerConfig(d_model=24, **changes)
