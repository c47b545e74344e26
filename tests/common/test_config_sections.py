"""Configs check themselves and survive JSON. Points are those of docs/explanation/paper_and_code.md."""

import dataclasses
import itertools
import json
import math
import re
import types
import typing
from pathlib import Path
from typing import Literal

import pytest

from flax_transformer.common.config_json import changed_fields, from_json, from_table, section_classes, to_json
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
from flax_transformer.engine.config import TaskConfig

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


OUT_OF_RANGE = {
    TransformerConfig: {'dropout_rate': 1.0, 'norm_epsilon': 0.0, 'pad_id': 37_000},
    TokenizerConfig: {'character_coverage': 1.01},
    DataConfig: {'source_language': '', 'train': '', 'numbers_below': 61_999, 'bpe_dropout': 1.0},
    CheckConfig: {'copy': 1.5, 'max_length_ratio': 1.0},
    OptimizerConfig: {'learning_rate': 0.0, 'beta1': 1.0, 'ema_decay': 1.0, 'epsilon': 0.0, 'clip_norm': 0.0},
    TrainingConfig: {'label_smoothing': 1.0},
    DecodingConfig: {'max_source_tokens': 7, 'temperature': 0.0, 'top_p': 0.0, 'min_p': 1.0, 'seed': 2**31},
}


@pytest.mark.parametrize(
    ('section', 'field', 'value'),
    [(section, *pair) for section, values in OUT_OF_RANGE.items() for pair in values.items()],
)
def test_a_value_out_of_range_is_refused_by_name(section, field, value):
    with pytest.raises(UserError, match=f'{field}={value}' if value else names(field)):
        section(**{field: value})


@pytest.mark.parametrize(
    ('section', 'values'),
    [
        (TransformerConfig, {'d_model': 512, 'num_heads': 7}),
        (TransformerConfig, {'d_model': 15, 'num_heads': 5}),
        (TransformerConfig, {'positions': 'learnt'}),
        (TransformerConfig, {'d_model': 24, 'norm': 'group'}),
        (TransformerConfig, {'target_vocab_size': 9}),
        (TransformerConfig, {'pad_id': 9, 'target_vocab_size': 9, 'tie_embeddings': 'none'}),
        (TransformerConfig, {'pad_id': 1}),
        (DataConfig, {'train': 'x', 'mixture': (ONE,)}),
        (DataConfig, {'mixture': (CorpusConfig('test', 'x'),)}),
        (DataConfig, {'mixture_temperature': 0.5}),
        (DataConfig, {'mixture': (ONE,) * 2}),
        (DataConfig, {'mixture': (WEIGHED, FRENCH)}),
        (DataConfig, {'mixture_temperature': 2.0, 'mixture': (WEIGHED,)}),
        (DataConfig, {'mixture': (ONE, FRENCH)}),
        (DataConfig, {'target_language': 'de', 'mixture': (FRENCH,), 'language_tags': True}),
        (CorpusConfig, {'name': '', 'train': 'x'}),
        (CorpusConfig, {'train': '', 'name': 'a'}),
        (CorpusConfig, {'weight': 0.0, 'name': 'a', 'train': 'x'}),
        (OptimizerConfig, {'warmup_steps': 0}),
        (OptimizerConfig, {'weight_decay': 0.1}),
        (OptimizerConfig, {'freeze': ('encoder/.*', '*')}),
        (OptimizerConfig, {'schedule_steps': 9}),
        (OptimizerConfig, {'schedule_steps': 0, 'schedule': 'cosine'}),
        (TrainingConfig, {'best_by': 'bleu'}),
        (TrainingConfig, {'average_last': 3, 'keep_last': 2}),
        (DecodingConfig, {'banned_ids': (3, -1)}),
        (DecodingConfig, {'banned_ids': 3}),
        (DecodingConfig, {'beam_width': 4, 'groups': 3}),
        (DecodingConfig, {'n_best': 5, 'beam_width': 4}),
        (DecodingConfig, {'n_best': 2, 'search': 'sample'}),
        (DecodingConfig, {'mbr': 'bleu', 'beam_width': 1}),
    ],
)
def test_values_that_do_not_fit_each_other_are_refused_by_name(section, values):
    with pytest.raises(UserError, match=names(next(iter(values)))):
        section(**values)


@pytest.mark.parametrize(
    ('sections', 'words'),
    [
        (
            {'optimizer': OptimizerConfig(schedule='linear', schedule_steps=9), 'training': TrainingConfig(steps=10)},
            'schedule_steps=9',
        ),
        ({'training': TrainingConfig(tokens_per_step=1000)}, 'tokens_per_step=1000'),
        ({'training': TrainingConfig(patience=3), 'data': DataConfig(validation='')}, 'patience=3'),
        ({'training': TrainingConfig(r_drop_alpha=2.0), 'model': TransformerConfig(dropout_rate=0.0)}, 'r_drop_alpha'),
        ({'tokenizer': TokenizerConfig(unk_id=1)}, 'unk_id=1'),
        ({'model': TransformerConfig(positions='learned', max_length=127)}, 'max_length=127'),
    ],
)
def test_sections_that_do_not_fit_each_other_are_refused_by_name(sections, words):
    with pytest.raises(UserError, match=words):
        Config(**sections)


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
    with pytest.raises(UserError, match=re.escape(f'schema_version={version!r}')):
        from_json(json.dumps({'schema_version': version}), Config)
    with pytest.raises(UserError, match='schema_version'):
        from_json('{}', Config)


@pytest.mark.parametrize(
    ('field', 'value'),
    [
        ('model.d_model', '512'),
        ('model.d_model', True),
        ('model.head_dim', 'x'),
        ('model.dropout_rate', '0.1'),
        ('model.norm_first', 1),
        ('model.activation', 3),
        ('optimizer.clip_norm', 'none'),
    ],
)
def test_wrong_type_is_refused_by_name(field, value):
    section, name = field.split('.')
    with pytest.raises(UserError, match=re.escape(f'{field}={value!r}')):
        from_json(json.dumps({'schema_version': 2, 'task': 'translation', section: {name: value}}), Config)
    with pytest.raises(UserError, match=f'{section}.*5'):
        from_json(json.dumps({'schema_version': 2, 'task': 'translation', section: 5}), Config)


def test_what_a_run_cannot_store_is_refused_by_name():
    kind = dataclasses.make_dataclass('Mine', [('text', Path)], bases=(TaskConfig,), frozen=True, kw_only=True)
    kind.task = 'mine'
    with pytest.raises(UserError, match=r'text=.*str'):
        kind(text=Path('text.txt'))


def test_whole_number_is_taken_for_a_real_one():
    text = '{"schema_version": 2, "task": "translation", "optimizer": {"learning_rate": 2}}'
    assert from_json(text, Config).optimizer.learning_rate == 2.0


def test_fused_attention_is_for_bfloat16_and_some_widths_and_drops_no_weights():
    TransformerConfig(attention='cudnn', head_dim=128)
    refused = [{'dtype': 'float32'}, {'attention_dropout_rate': 0.1}, {'head_dim': 20}, {'head_dim': 264}]
    for changes in (*refused, {'positions': 'relative'}):
        with pytest.raises(ValueError, match="attention='cudnn'"):
            TransformerConfig(attention='cudnn', **changes)
    for score in ('dot', 'additive'):
        with pytest.raises(ValueError, match=f"attention_score='{score}'"):
            TransformerConfig(attention='cudnn', attention_score=score)


@pytest.mark.parametrize('name', ['batch', 'instance'])
def test_a_run_of_an_earlier_version_with_a_norm_over_positions_is_refused_by_name(name):
    assert from_table({'norm': 'rms', 'encoder_norm': 'same'}, TransformerConfig) == TransformerConfig(norm='rms')
    with pytest.raises(UserError, match=f"model.encoder_norm='{name}': .*earlier version"):
        from_table({'encoder_norm': name}, TransformerConfig, 'model')
