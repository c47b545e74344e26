"""Messages of PO: their placeholders, their plural forms, and the lines around them."""

import shutil
import subprocess
from collections.abc import Sequence

import pytest

from flax_transformer.tasks.translation.documents.document import Document
from flax_transformer.tasks.translation.documents.formats import read_document
from flax_transformer.tasks.translation.inference.aside import translate_aside
from flax_transformer.tasks.translation.inference.result import Translation

HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: x\nPO-Revision-Date: x\nLast-Translator: x\nLanguage-Team: x\nLanguage: x\nMIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\nPlural-Forms: {};\n"

"""
GERMAN = 'nplurals=2; plural=(n != 1)'
RUSSIAN = 'nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)'


def capitals(lines: Sequence[str], **_: object) -> list[Translation]:
    return [aligned(line.upper(), range(len(line.split()))) for line in lines]


def reversed_capitals(lines: Sequence[str], **_: object) -> list[Translation]:
    return [aligned(' '.join(line.upper().split()[::-1]), range(len(line.split()))[::-1]) for line in lines]


def aligned(text: str, words: Sequence[int]) -> Translation:
    return Translation(text, -1.0, -1.0, 1, alignment=tuple((word, i) for i, word in enumerate(words)))


def translated(body: str, translate: object = capitals, plural_forms: str = GERMAN) -> tuple[str, list[str]]:
    """The messages after the header, and what was left; msgfmt accepts the file."""
    header = HEADER.replace('{}', plural_forms)
    document: Document = read_document((header + body).encode(), 'po', 'a.po')
    texts = [translation.text for translation in translate_aside(translate, document.lines)]
    after = document.with_texts(texts)
    assert after.startswith(header)
    if shutil.which('msgfmt'):
        check = subprocess.run(['msgfmt', '-c', '-o', '-', '-'], input=after.encode(), capture_output=True)
        assert check.returncode == 0, check.stderr.decode()
    return after.removeprefix(header), document.left(texts)


@pytest.mark.parametrize(
    ('flag', 'source', 'target'),
    [
        ('c-format', "go %'d of %5.2f, %dms, 5%% off %-20s", "GO %'d OF %5.2f, %dms, 5%% OFF %-20s"),
        ('c-format', '%1$s in %2$lu,', '%1$s IN %2$lu,'),
        ('python-format', '%(n)s of %(all)05d', '%(n)s OF %(all)05d'),
        ('python-brace-format', '{n:,} at {a.b[0]:>8.2f} {{ x }} {c:{d}}', '{n:,} AT {a.b[0]:>8.2f} {{ X }} {c:{d}}'),
        ('kde-format', 'page %1 of %2', 'PAGE %1 OF %2'),
        ('fuzzy', '%{a} or ${b}, {{ c }}, { $d }, %s: 100% off', '%{a} OR ${b}, {{ c }}, { $d }, %s: 100% OFF'),
        (
            'fuzzy',
            'in {n, plural, =1 {# file} other {{f} files}} now',
            'IN {n, plural, =1 {# FILE} other {{f} FILES}} NOW',
        ),
        (
            'fuzzy',
            "'{' or {0,choice,0#no|1<{0} y} or '{x}', %%A_B%%",
            "'{' OR {0,choice,0#no|1<{0} y} OR '{x}', %%A_B%%",
        ),
        ('fuzzy', r'a \033 b \x1b c \a', r'A \033 B \x1b C \a'),
        ('fuzzy', r'  <0>a</0>\tb<br/>c &amp; \"d\"\n', r'  <0>A</0>\tB<br/>C &amp; \"D\"\n'),
    ],
)
def test_placeholders_come_back(flag: str, source: str, target: str) -> None:
    after, left = translated(f'#, {flag}\nmsgid "{source}"\nmsgstr ""\n')
    kept = '' if flag == 'fuzzy' else f'#, {flag}\n'  # it said that there was no translation
    assert after.startswith(kept)
    assert after.endswith(f'\nmsgstr "{target}"\n')
    assert left == []


@pytest.mark.parametrize(
    ('flag', 'source', 'target'),
    [
        ('c-format', '%s gave %d', '%2$d GAVE %1$s'),
        ('python-brace-format', '{} gave {:,}', '{1:,} GAVE {0}'),
        ('python-format', '%s gave %d', None),
        ('c-format', '%*d gave %s', None),
    ],
)
def test_placeholders_that_change_places_are_numbered_or_left(flag: str, source: str, target: str | None) -> None:
    after, left = translated(f'# c\n#, {flag}\nmsgid "{source}"\nmsgstr ""\n', reversed_capitals)
    mark = ', fuzzy' if target is None else ''
    assert after == f'# c\n#, {flag}{mark}\nmsgid "{source}"\nmsgstr "{target or ""}"\n'
    assert len(left) == (target is None)
    # The next time, the mark goes.
    assert translated(after)[0].startswith(f'# c\n#, {flag}\nmsgid')


@pytest.mark.parametrize(
    ('plural_forms', 'one', 'forms'),
    [
        (GERMAN, 'a file', ['A FILE', '%d FILES']),
        ('nplurals=2; plural=(n > 1)', '%d file', ['%d FILE', '%d FILES']),  # French: 0, too
        ('nplurals=2; plural=(n > 1)', 'a file', ['%d FILES', '%d FILES']),
        (RUSSIAN, '%d file', ['%d FILE', '%d FILES', '%d FILES']),  # 21, too
        (RUSSIAN, 'a file', ['%d FILES', '%d FILES', '%d FILES']),
        ('nplurals=1; plural=0', '%d file', ['%d FILES']),
    ],
)
def test_a_plural_form_gets_what_is_right_for_all_its_numbers(plural_forms: str, one: str, forms: list[str]) -> None:
    before = f'#, c-format\nmsgid "{one}"\nmsgid_plural "%d files"\n'
    after, _ = translated(
        before + 'msgstr[0] ""\nmsgstr[1] ""\n'[: 27 if len(forms) > 1 else 13], plural_forms=plural_forms
    )
    assert after == before + ''.join(f'msgstr[{form}] "{text}"\n' for form, text in enumerate(forms))


def test_long_messages_are_wrapped_as_theirs_and_others_stay() -> None:
    words = 'word ' * 14
    body = f"""#| msgid "old"
msgctxt "a"
msgid ""
"{words}"
"word \\"word\\" {words}\\n"
"end"
msgstr ""

  msgid   "kept"
msgstr "ge" "halten"
#~ msgid "gone"
#~ msgstr "weg"
# last"""
    body = body.replace('"ge" "halten"', '"ge"\n\t"halten"')
    after, _ = translated(body)
    before, rest = body.split('msgstr ""\n', 1)
    assert after.startswith(f'{before}msgstr ""\n')
    assert after.endswith(rest)
    new = after.removeprefix(f'{before}msgstr ""\n').removesuffix(rest).splitlines()
    assert max(map(len, new)) <= 79
    assert ''.join(line[1:-1] for line in new) == f'{words}word \\"word\\" {words}'.upper() + '\\nEND'
