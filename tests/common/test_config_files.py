"""Config files say what is wrong with them: file, line and the nearest name."""

import re
from typing import get_type_hints

import pytest

import flax_transformer.config
from flax_transformer.common.config_files import load_config, shipped_configs
from flax_transformer.common.config_json import section_classes
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.recipes import package_recipes, recipe_of

HEAD = 'from flax_transformer.config import Config, DataConfig, TransformerConfig\n\n\ndef get_config():\n'


@pytest.fixture
def refusal(tmp_path):
    """A function that writes a config file and returns what load_config has against it."""
    file = tmp_path / 'mine.py'

    def refused(text):
        file.write_text(text, encoding='utf-8')
        with pytest.raises(UserError) as caught:
            load_config(str(file))
        message = str(caught.value)
        assert message.startswith(str(file))
        return message

    return refused


@pytest.mark.parametrize('name', shipped_configs())
def test_every_shipped_config_loads_by_name_and_by_path(name):
    config = load_config(name)
    assert isinstance(config, recipe_of(config).config)
    assert load_config(str(shipped_configs()[name])) == config


def test_a_file_beside_you_comes_before_a_shipped_config_of_its_name(tmp_path, monkeypatch):
    (tmp_path / 'number_words').write_text(HEAD + '    return Config(seed=77)\n')
    monkeypatch.chdir(tmp_path)
    assert load_config('number_words').seed == 77


@pytest.mark.parametrize(
    ('name', 'near'),
    [('number_word', 'number_words'), ('multi30k', 'multi30k_en_de'), ('fr', r'fr\.yaml\?')],
)
def test_a_missing_config_names_the_nearest_shipped_one_or_the_file_beside_you(name, near, tmp_path, monkeypatch):
    (tmp_path / 'fr.yaml').write_text('seed: 1')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"'{name}'.* mean {near}"):
        load_config(name)


def test_a_typo_in_a_field_names_file_line_and_nearest_field(refusal):
    message = refusal(
        HEAD + '    return Config(\n        model=TransformerConfig(\n            num_head=4,\n        )\n    )\n'
    )
    assert re.search(r'mine\.py, line [56]: ', message)
    assert "'num_head'" in message
    assert 'Did you mean num_heads' in message


@pytest.mark.parametrize('text', ['Hello there.\n', 'Hello\n', 'a\tb\n', '\0'])
def test_a_file_of_text_is_named_as_no_config(text: str, tmp_path) -> None:
    (tmp_path / 'x.en').write_text(text)
    with pytest.raises(UserError, match=r'x\.en is no config.*`flax-transformer new`'):
        load_config(str(tmp_path / 'x.en'))


@pytest.mark.parametrize(
    ('text', 'parts'),
    [
        (HEAD + '    return Config(optimiser=None)\n', ['line 5', 'Did you mean optimizer']),
        (HEAD + '    return Config(qqqqqq=1)\n', ['line 5', 'optimizer, training, parallel, seed, model']),
        (HEAD + '    return Config(\n        seed=1 2\n    )\n', ['line 6', 'SyntaxError']),
        (HEAD + '    x = 1\n    y = 1 / 0\n    return Config(seed=x + y)\n', ['line 6: ZeroDivisionError']),
        (HEAD + '    return Config(model=TransformerConfig(num_heads=7))\n', ['num_heads=7']),
        (HEAD + "    return Config(model=TransformerConfig(num_heads='8'))\n", ["num_heads='8'"]),
        (
            HEAD + "    ...\nexec(compile('def get_config(): return Config(optimiser=None)', 'imported', 'exec'))\n",
            ['Did you mean optimizer'],
        ),
        (HEAD + '    return {}\n', ['get_config() returned dict']),
        ('import os\n\nfrom flax_transformer.config import Confg\n', ['line 3', "'Confg'"]),
        ('config = 1\n', ['has no function get_config()']),
    ],
)
def test_what_is_wrong_with_a_config_is_told_with_its_line(refusal, text, parts):
    message = refusal(text)
    assert all(part in message for part in parts), message


def test_the_sections_of_all_tasks_are_in_one_place_and_configs_import_them_from_there():
    configs = [recipe.config for recipe in package_recipes()]
    hints = [hint for config in configs for name, hint in get_type_hints(config).items() if name != 'task']
    sections = {*configs, *(kind for hint in hints for kind in section_classes(hint))}
    assert all(getattr(flax_transformer.config, kind.__name__) is kind for kind in sections)
    assert {'CorpusConfig', *(kind.__name__ for kind in sections)} == set(flax_transformer.config.__all__)
    for file in shipped_configs().values():
        modules = re.findall(r'^from (flax_transformer\S*) import', file.read_text(encoding='utf-8'), flags=re.M)
        assert set(modules) <= {'flax_transformer.config'}, file
