"""Which format a file is of, where XLIFF has its targets, and what is not kept."""

import re
from pathlib import Path

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.documents.formats import format_of, read_document

OLD = '<xliff version="1.2"><file>{}</file></xliff>'
NEW = '<xliff version="2.1" srcLang="en"><file id="f"><unit id="u">{}</unit></file></xliff>'


@pytest.mark.parametrize(
    ('name', 'content', 'expected'),
    [
        ('a.txt', '\ufeff<!-- c -->\n<!DOCTYPE HTML><p>a', 'html'),
        ('a.xml', '<?xml version="1.0"?>\n<html xmlns="x"/>', 'html'),
        ('a.xml', '<?xml version="1.0"?>\n<xliff/>', 'xliff'),
        ('a.srt', 'WEBVTT\n\n00:01.000 --> 00:02.000\na\n', 'vtt'),
        ('a.en', '1\n00:00:01,000 --> 00:00:02,000\na\n', 'text'),
        ('a', '1\n00:00:01,000 --> 00:00:02,000\na\n', 'srt'),
        ('a.unknown', '# c\n\nmsgid "a"\nmsgstr ""\n', 'po'),
        ('a.txt', '{"a": "b"}\n', 'json'),
        ('a.txt', '{"a": "b"}\n{"a": "c"}\n', 'text'),
        ('a.txt', '[1] A note.\nmsgid\n', 'text'),
        ('a.XHTML', '', 'html'),
        ('a.jsonl', '', 'jsonl'),
        ('a.pot', '', 'po'),
        ('a.docx', 'PK', None),
        ('a.pdf', '%PDF', None),
    ],
)
def test_a_format_is_known_by_name_and_content(name: str, content: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding='utf-8')
    if expected:
        assert format_of(tmp_path / name) == expected
    else:
        with pytest.raises(UserError, match=r'expected \.html, .*\.vtt.* or \.txt'):
            format_of(tmp_path / name)


@pytest.mark.parametrize(
    ('unit', 'was', 'state'),  # @ is where the target goes
    [
        ('<source>a</source>@<!-- c --><note>n</note>', '', ''),
        ('<source>a</source>\n <seg-source>a</seg-source>@<note/>', '', ''),
        ('@<source>a</source>', '<target xml:lang="de" state="new"/>', ' xml:lang="de"'),
        ('<source>a</source><note/>@', '<target\n></target>', ''),
        ('<alt-trans><target>b</target></alt-trans><source>a</source>@', '', ''),
        ('<source>a</source><target>b</target>', '', ''),
        ('<source/>', '', ''),
    ],
)
def test_a_unit_of_xliff_has_one_target(unit: str, was: str, state: str) -> None:
    unit = OLD.format(f'<trans-unit id="1">{unit}</trans-unit>')
    document = read_document(unit.replace('@', was).encode(), 'xliff', 'a.xlf')
    after = document.with_texts(['A'][: len(document.lines)])
    assert after == unit.replace('@', f'<target{state} state="translated">A</target>')


def test_xliff_keeps_segments_and_line_ends_and_halves_of_tags() -> None:
    source = '<bpt id="1">&lt;b&gt;</bpt>a<ept id="1">&lt;/b&gt;</ept> <ph id="2">&lt;br/&gt;</ph>b\n c'
    segments = '<mrk mtype="seg" mid="0">a.</mrk> <mrk mtype="seg" mid="1">b <mrk mtype="x">c</mrk></mrk>'
    units = f'<trans-unit id="1" xml:space="preserve"><source>{source}</source></trans-unit>'
    units += f'<trans-unit id="2"><source>d</source><seg-source>{segments}</seg-source></trans-unit>'
    document = read_document(OLD.format(units).encode(), 'xliff', 'a.xlf')
    assert [line.text for line in document.lines] == ['a b', 'c', 'a.', 'b c']
    assert [span.kind for span in document.lines[0].spans] == ['open', 'close', 'void']
    after = document.with_texts([line.raw for line in document.lines])
    for target in (source, segments):
        assert f'<target state="translated">{target}</target>' in after


def test_a_subtitle_in_one_tag_a_line_is_one_sentence() -> None:
    lines = '<i>I saw</i>\n<i>the <b>dog</b>.</i>\n'
    document = read_document(f'1\n00:00:01,000 --> 00:00:02,000\n{lines}'.encode(), 'srt', 'a.srt')
    assert [line.text for line in document.lines] == ['I saw the dog.']
    after = document.with_texts(['Ich sah den <b>Hund</b>.'])
    assert '\n<i>Ich sah den\n<b>Hund</b>.</i>\n' in after


def test_xliff_says_what_is_not_translated_and_into_which_language() -> None:
    kept = '<group translate="no"><trans-unit id="1"><source>a</source></trans-unit></group>'
    mixed = '<trans-unit id="2"><source>b <mrk mtype="protected">c</mrk> d</source></trans-unit>'
    lacking = '<trans-unit id="3"><note>d</note></trans-unit>'
    (line,) = read_document(OLD.format(kept + mixed + lacking).encode(), 'xliff', 'a.xlf').lines
    assert [span.raw for span in line.spans] == ['<mrk mtype="protected">c</mrk>']
    document = read_document(NEW.format('<segment><source>a</source></segment>').encode(), 'xliff', 'a.xlf')
    after = document.with_texts(['A'], 'de')
    assert ' srcLang="en" trgLang="de">' in after
    assert '<segment state="translated"><source>a</source><target>A</target></segment>' in after
    assert read_document(after.encode(), 'xliff', 'a.xlf').languages == ['de']


def test_html_names_the_language_that_it_is_in_then() -> None:
    page = '<!-- <html lang="x"> --><html xml:lang="en" lang=en-GB><p lang="en">a</p>'
    document = read_document(page.encode(), 'html', 'a.html')
    assert document.identity() == page
    after = '<!-- <html lang="x"> --><html xml:lang="de" lang=de><p lang="en">A</p>'
    assert document.with_texts(['A'], 'de') == after


@pytest.mark.parametrize('form', ['html', 'markdown'])
def test_no_sentence_goes_across_the_branches_of_a_template(form: str) -> None:
    text = 'a {% if x %}b{% else %} c {% url z %} d{% endif %}, e'
    lines = read_document(text.encode(), form, 'a').lines
    assert [re.findall(r'[^\W\d_]', line.text) for line in lines] == [['a'], ['b'], ['c', 'd'], ['e']]


def test_a_translation_begins_no_list_of_markdown() -> None:
    document = read_document(b'In May.\n\n- one\n\nten\n', 'markdown', 'a.md')
    assert document.with_texts(['1. Mai', '# b', '1.5']) == '1\\. Mai\n\n- \\# b\n\n1.5\n'


@pytest.mark.parametrize(
    ('source', 'lost'),
    [
        ('see {n} <x id="1"/>', 'SEE <x id="1"/>'),
        ('a <g id="1">b</g>', 'A <g id="1"><g id="1">B</g>'),
        (
            '<x i="1" canReorder="no"/>a<x i="2" canReorder="no"/>',
            '<x i="2" canReorder="no"/>A<x i="1" canReorder="no"/>',
        ),
    ],
)
def test_a_unit_whose_spans_were_not_kept_is_left_and_named(source: str, lost: str) -> None:
    source = f'<source>{source}</source>'
    old = f'\n<trans-unit id="1">{source}@</trans-unit>', '<target state="needs-review-translation"/>'
    new = f'\n<segment@>{source}</segment>', ' state="initial" subState="mt:needs-review"'
    for form, (unit, mark) in ((OLD, old), (NEW, new)):
        document = read_document(form.format(unit.replace('@', '')).encode(), 'xliff', 'a.xlf')
        assert document.with_texts([lost]) == form.format(unit.replace('@', mark))
        (name,) = document.left([lost])
        assert name.startswith('line 2: ')
