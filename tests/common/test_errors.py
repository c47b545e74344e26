"""The hint to a misspelt name, and the first line of an error."""

import pytest

from flax_transformer.common.errors import first_line, nearest


@pytest.mark.parametrize(
    ('name', 'known', 'hint'),
    [
        ('tset', ['tsetse', 'test', 'TSET'], ' Did you mean TSET?'),
        ('num_layer', ['layers', 'num_layers', 'num_heads'], ' Did you mean num_layers?'),
        ('dropout', ['dropout_rate', 'layers'], ' Did you mean dropout_rate?'),
        ('beam', ['layers', 'seed'], ''),
    ],
)
def test_a_misspelt_name_gets_the_names_of_few_typos(name: str, known: list[str], hint: str) -> None:
    assert nearest(name, known) == hint


def test_an_error_without_a_message_has_a_first_line() -> None:
    assert [first_line(error) for error in (ValueError(), ValueError('one\ntwo'))] == ['ValueError', 'one']


def test_among_many_names_those_of_few_typos_alone_are_sought() -> None:
    """Likeness of long parts takes up to 50 us a name: 16 s among 300,000 words."""
    names = ['a sentence and its parts', *(f'{number:x}word' for number in range(20_000))]
    assert '1ffword' in nearest('1ffwrod', names)
    assert nearest('a sentence', names[:9]) == ' Did you mean a sentence and its parts?'
    assert nearest('a sentence', names) == ''
