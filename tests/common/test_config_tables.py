"""Configs as JSON and YAML: the same fields, and errors that name the line."""

import json
from pathlib import Path

import pytest

from flax_transformer import load_config
from flax_transformer.common.config_files import shipped_configs
from flax_transformer.common.config_json import to_json
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, CorpusConfig, DataConfig, OptimizerConfig, TransformerConfig


@pytest.fixture
def loaded(tmp_path: Path):
    """A function that writes a config file of a kind and loads it."""

    def load(text: str, suffix: str = '.yaml') -> Config:
        file = tmp_path / f'mine{suffix}'
        file.write_text(text, encoding='utf-8')
        return load_config(str(file))

    return load


@pytest.fixture
def refusal(loaded):
    """A function that returns what load_config has against a file, after the file's name."""

    def refused(text: str, suffix: str = '.yaml') -> str:
        with pytest.raises(UserError) as caught:
            loaded(text, suffix)
        return str(caught.value).rpartition(f'mine{suffix}')[2]

    return refused


def test_a_partial_file_means_defaults_for_the_rest(loaded) -> None:
    text = 'model:\n  d_model: 64\noptimizer:\n  epsilon: 1e-7\n  freeze: [encoder/.*]\nseed: 1_000\n'
    expected = Config(
        model=TransformerConfig(d_model=64), optimizer=OptimizerConfig(epsilon=1e-7, freeze=('encoder/.*',)), seed=1000
    )
    assert loaded(text) == expected
    table = {'model': {'d_model': 64}, 'optimizer': {'epsilon': 1e-7, 'freeze': ['encoder/.*']}, 'seed': 1000}
    assert loaded(json.dumps(table, indent='\t'), '.json') == expected
    assert loaded('') == loaded('# nothing but a comment\n') == loaded('{}', '.json') == Config()


@pytest.mark.parametrize('name', shipped_configs())
def test_every_shipped_config_survives_as_yaml_and_json(name: str, loaded) -> None:
    import yaml

    config = load_config(name)
    table = json.loads(to_json(config))
    assert loaded(yaml.safe_dump(table)) == config
    assert loaded(json.dumps(table), '.json') == config


def test_yaml_has_no_surprises(loaded) -> None:
    text = "data:\n  source_language: no\n  mixture: [{name: a, train: 'a.{lang}', weight: .5}]\n  root: null\n"
    corpus = CorpusConfig('a', 'a.{lang}', weight=0.5)
    assert loaded(text) == Config(data=DataConfig(source_language='no', mixture=(corpus,)))


ERRORS = {
    'unknown field': ('model:\n  d_modell: 64\n', ', line 2: model.d_modell'),
    'dotted': ('training.steps: 3\n', ', line 1: training.steps'),
    'wrong type': ('seed: 1\nmodel:\n  d_ff: wide\n', ", line 3: model.d_ff='wide'"),
    'value out of range': ('training:\n  steps: 0\n', ', line 2: training.steps=0'),
    'fields together': ('model:\n\n  num_heads: 7\n', ', line 3: model.d_model=512'),
    'sections together': ('training:\n  tokens_per_step: 100\n', ', line 2: tokens_per_step=100'),
    'in a mixture': ('data:\n  mixture:\n  - name: a\n    trian: b\n', ', line 4: data.mixture.0.trian'),
    'no section': ('model: 5\n', ', line 1: model: got 5'),
    'twice': ('model:\n  d_ff: 8\n  d_ff: 16\n', ', line 3: model.d_ff'),
    'list': ('- 1\n', ': got list'),
    'not YAML': ('model:\n  d_ff: [8\nseed: 1\n', ', line 3: not YAML'),
    'unknown task': ('seed: 1\ntask: translatoin\n', ", line 2: task='translatoin'"),
    'later version': ('schema_version: 99\n', ', line 1: schema_version=99'),
    'code': ("seed: !!python/object/apply:os.system ['true']\n", ', line 1: not YAML'),
    'no int': ('seed: !!int x\n', ': not YAML'),
    'number as a name': ('model:\n  1: 2\n', ', line 2: got 1'),
    'control character': ('seed: \x01\n', ': not YAML'),
    'endless': ('data: &a\n  mixture: [*a]\n', ': is nested too deeply'),
    'deep': ('[' * 700, ': is nested too deeply'),
}


@pytest.mark.parametrize(('text', 'message'), ERRORS.values(), ids=ERRORS)
def test_an_error_names_the_line_and_the_field(text: str, message: str, refusal) -> None:
    assert refusal(text).startswith(message)


def test_an_unknown_field_gets_the_nearest_and_its_section(refusal) -> None:
    assert 'mean d_model' in refusal(ERRORS['unknown field'][0])
    for text in ('steps: 3\n', 'training.steps: 3\n'):
        assert 'mean steps in training' in refusal(text)
    assert 'mean' not in refusal('training:\n  zzzzzzzz: 1\n')


def test_json_errors_name_the_line(refusal) -> None:
    assert refusal('{\n  "seed": 1\n  "task": 2}', '.json').startswith(', line 3: not JSON: ')
    assert refusal('{\n\t"model": {\n\t\t"d_modell": 1}}', '.json').startswith(', line 3: model.d_modell')
    assert refusal('{"seed": 1,\n"seed": 2}', '.json').startswith(', line 2: seed')
    assert refusal('{"seed": 1e999}', '.json').startswith(', line 1: seed=inf')
    assert refusal('[' * 100_000, '.json') == ': is nested too deeply'
