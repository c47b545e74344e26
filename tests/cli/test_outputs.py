"""Files that a translation is written to: nobody else's, of one input, and none if there is nothing in them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import TESTS
from translators import Shuffling, translate_by

from flax_transformer.cli import translate
from flax_transformer.cli.lines import LineWriter
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.result import Translation

RUN = TESTS / 'golden' / 'number_words'
Call = Callable[..., tuple[int, str, str]]


class Breaking(Shuffling):
    """Raises at a text."""

    breaks_at = ''

    def __call__(self, lines: Sequence[str], **options: object) -> list[Translation]:
        if self.breaks_at and any(self.breaks_at in getattr(line, 'text', line) for line in lines):
            raise UserError('broken')
        return super().__call__(lines, **options)


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    translator = Breaking(changes=0)
    translate_by(translator, monkeypatch)
    monkeypatch.setattr(translate, 'CHUNK', 1)
    return translator


@pytest.mark.parametrize('suffix', ['txt', 'html'])
def test_nothing_is_left_of_an_output_without_a_line(
    suffix: str, translator: Breaking, tmp_path: Path, call_command: Call
) -> None:
    source = tmp_path / f'in.{suffix}'
    source.write_bytes(b'one<p>two\n')
    translator.breaks_at = 'one'
    assert call_command('translate', RUN, '--input', source, '--output', tmp_path / 'out')[0] == 2
    assert [*tmp_path.iterdir()] == [source]
    (tmp_path / 'a.docx').write_bytes(b'PK')
    _, _, error = call_command('translate', RUN, '--input', tmp_path / 'a.docx', '--output', tmp_path / 'out')
    assert 'a.docx: got a file of an unknown format, expected .html' in error
    assert not (tmp_path / 'out').exists()


def test_an_output_is_resumed_with_its_own_input_alone(
    translator: Breaking, tmp_path: Path, call_command: Call
) -> None:
    own, other = tmp_path / 'own.html', tmp_path / 'other.html'
    own.write_text('<p>one<p>two', encoding='utf-8')
    other.write_text('<p>four<p>five', encoding='utf-8')
    translator.breaks_at = 'two'
    assert call_command('translate', RUN, '--input', own, '--output', tmp_path / 'out')[0] == 2
    translator.breaks_at = ''
    code, _, error = call_command('translate', RUN, '--input', other, '--output', tmp_path / 'out', '--resume')
    assert (code, 'was begun from another input' in error) == (2, True)
    for asked in (['two'], []):  # the second time, everything is done
        translator.asked.clear()
        code, _, error = call_command('translate', RUN, '--input', own, '--output', tmp_path / 'out', '--resume')
        assert (code, translator.asked) == (0, asked)
    assert 'out is whole' in error
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / 'out', own]
    assert (tmp_path / 'out').read_text(encoding='utf-8') == '<p>ONE<p>TWO'


def test_an_output_that_is_longer_than_its_input_is_refused(
    translator: Breaking, tmp_path: Path, call_command: Call
) -> None:
    (tmp_path / 'in').write_text('one\ntwo\n', encoding='utf-8')
    files = ('--input', tmp_path / 'in', '--output', tmp_path / 'out', '--resume')
    (tmp_path / 'out').write_text('EINS\n', encoding='utf-8')
    assert call_command('translate', RUN, *files)[0] == 0
    assert (tmp_path / 'out').read_text(encoding='utf-8') == 'EINS\nTWO\n'
    (tmp_path / 'in').write_text('one\n', encoding='utf-8')
    code, _, error = call_command('translate', RUN, *files)
    assert (code, '--output has 2 lines, the input 1' in error) == (2, True)


def test_an_output_has_one_writer(tmp_path: Path) -> None:
    with LineWriter(tmp_path / 'out', resume=True) as writer:
        with pytest.raises(UserError, match='out is being written by another process'):
            LineWriter(tmp_path / 'out', resume=True)
        writer.write(['one'])
    assert (tmp_path / 'out').read_bytes() == b'one\n'


def test_lines_keep_the_blanks_around_their_sentences(translator: Breaking, tmp_path: Path, call_command: Call) -> None:
    text = '\ufeff  one\ttwo three \r\n\t\r\nfour.  five\r\nsix\n'
    (tmp_path / 'in.txt').write_bytes(text.encode())
    files = ('--input', tmp_path / 'in.txt', '--output', tmp_path / 'out')
    assert call_command('translate', RUN, *files) == (0, '', '')
    assert (tmp_path / 'out').read_bytes().decode() == text.upper()
    assert [*filter(None, translator.asked)] == ['one', 'two three', 'four.', 'five', 'six']
