"""A section that may have one of several classes: JSON, differences, help, options."""

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar, Generic

import pytest
import tyro

from flax_transformer.cli.help import options_of
from flax_transformer.cli.options import C, parse
from flax_transformer.common.config_json import changed_fields, flat_fields, from_json, from_table, to_json
from flax_transformer.common.errors import UserError


@dataclass(frozen=True)
class Round:
    radius: int = 3  # from the middle


@dataclass(frozen=True)
class Square:
    FORMER = MappingProxyType({'angle': 90})

    radius: int = 3  # of the circle around it
    side: int = 4  # of four


@dataclass(frozen=True)
class ToyConfig:
    task: ClassVar[str] = 'toy'

    shape: Round | Square = field(default_factory=Round)
    seed: int = 0  # of the draw


@dataclass(frozen=True)
class ToyOptions(Generic[C]):
    config: Annotated[C, tyro.conf.arg(name='')]


SQUARE = ToyConfig(Square(side=5))


def test_json_names_the_class_unless_it_is_the_first() -> None:
    assert 'class' not in to_json(ToyConfig())
    assert json.loads(to_json(SQUARE))['shape'] == {'class': 'Square', 'radius': 3, 'side': 5}
    assert from_json(to_json(SQUARE), ToyConfig) == SQUARE
    assert from_json(to_json(ToyConfig()), ToyConfig) == ToyConfig()
    assert from_table({'shape': {'class': 'Round', 'radius': 2}}, ToyConfig) == ToyConfig(Round(2))


def test_a_field_of_an_earlier_version_is_read_at_its_default_only() -> None:
    shape = {'class': 'Square', 'side': 5, 'angle': 90}
    assert from_table({'shape': shape}, ToyConfig) == SQUARE
    with pytest.raises(UserError, match=r'shape\.angle=80'):
        from_table({'shape': {**shape, 'angle': 80}}, ToyConfig)


@pytest.mark.parametrize(
    ('table', 'message'),
    [
        ({'class': 'Sqare'}, r"shape.class='Sqare'.*Round, Square"),
        ({'class': ['Square']}, r"shape.class=\['Square'\]"),
        ({'side': 4}, 'shape.side: .*shape.class to Square'),
        ({'class': 'Square', 'sides': 4}, 'shape.sides: .*side'),
        ([4], r'shape: got \[4\]'),
    ],
)
def test_a_class_that_is_not_there_is_refused(table: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_table({'shape': table}, ToyConfig)


def test_configs_differ_in_the_class() -> None:
    assert flat_fields(ToyConfig(Square()))['shape.class'] == 'Square'
    changed = changed_fields(ToyConfig(), ToyConfig(Square()))
    assert changed == {'shape.class': (None, 'Square'), 'shape.side': (None, 4)}


def test_a_field_of_another_class_is_found_in_its_section() -> None:
    with pytest.raises(UserError, match='mean side in shape'):
        from_table({'side': 4}, ToyConfig)


def test_options_are_those_of_the_class_given() -> None:
    assert [each.name for each in options_of(ToyConfig)] == ['shape.radius', 'seed']
    found = {each.name: each for each in options_of(ToyConfig, SQUARE)}
    assert list(found) == ['shape.radius', 'shape.side', 'seed']
    assert (found['shape.side'].value, found['shape.radius'].text) == (5, 'of the circle around it')
    argv = ['config', '--shape.side', '7']
    parsed = parse('draw', ToyOptions, argv, first='CONFIG', default=lambda name: ToyOptions(SQUARE))
    assert parsed.config == ToyConfig(Square(side=7))
