"""The hint to a misspelt name: typos first, long shared parts only without any."""

import time

import pytest

from flax_transformer.common.errors import first_line, nearest


@pytest.mark.parametrize(
    ('name', 'known', 'hint'),
    [
        ('tset', ['tsetse', 'test', 'TSET'], ' Did you mean TSET, test?'),  # tsetse shares more, and is another word
        ('num_layer', ['layers', 'num_layers', 'num_heads'], ' Did you mean num_layers?'),
        ('dropout', ['dropout_rate', 'layers'], ' Did you mean dropout_rate?'),
        ('beam', ['layers', 'seed'], ''),
    ],
)
def test_a_misspelt_name_gets_the_names_of_few_typos(name: str, known: list[str], hint: str) -> None:
    assert nearest(name, known) == hint


def test_an_error_without_a_message_has_a_first_line() -> None:
    assert [first_line(error) for error in (ValueError(), ValueError('one\ntwo'))] == ['ValueError', 'one']


def test_a_misspelt_word_among_many_is_answered_soon() -> None:
    """Likeness of long parts takes 50 us a name."""
    names = [f'{number:x}word' for number in range(300_000)]
    began = time.process_time()
    assert nearest('1ffwrod', names).startswith(' Did you mean 1ffword')
    assert nearest('quite another name', names) == ''
    assert time.process_time() - began < 5
