"""Files in, files out: what is language is translated, everything else stands as it did."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TESTS
from translators import Shuffling, translate_by

from flax_transformer.tasks.translation.documents.formats import format_of, read_document
from flax_transformer.tasks.translation.inference.aside import translate_aside
from flax_transformer.tasks.translation.inference.result import Translation

RUN = TESTS / 'golden' / 'number_words'
# The translator writes what is in ‹› in capitals, and adds what is in «».
DOCUMENTS = {
    'a.html': """<!DOCTYPE html>
<P class="x">‹hi› <b>‹big› <i>‹one›</i></b>‹, see› <a
href="u">t@u.de</a>.<!-- c --><br>
  ‹next line› &lt;‹caf›&ordf; &copy; 2024
<pre> raw <b>x</b></pre><p title='‹it›&#39;‹s›'>‹cost: 5›&nbsp;€ &lt;today&gt; <input type=submit value=«"»‹Send›«"»>
<br>{% if x %}‹if› {% url y %} ‹then›{% endif %}<hr><img translate=no alt="k">
<a href="#" aria-label="‹up›"><i></i></a> <img alt="‹dog›" data-x='alt="x"'> ‹x› <img src=x alt='‹cat›'> ‹y›<p>
<p translate="no">keep <b>me</b></p>‹plain› &amp; <script>if (a<b) c</script><li>‹run› <code>ls</code> ‹now›<li>12""",
    'a.xml': """<?xml version='1.0'?>
<!DOCTYPE d [<!ENTITY e 'x'>]>
<d>
 <p a='1'>‹one› <b>‹two›</b> &amp; &e; <br/></p>
 <_q><![CDATA[ a <b> ]]></_q>
 <p>‹three›</p><p>‹four›</p>
</d>
""",
    'a.md': """---
title: no
---
# ‹one› *‹two›*

‹some› **‹bold› _‹it›_**‹,› `code` ‹and› [‹a link›](http://u.v "t") ![‹alt›](s.png)\x20\x20
‹hard› \\*‹break›\\* <http://a.b>

> ‹a quote›

1. ‹item› 2 * 3 *‹it›*
2. read as [one](http://u.v "x) y"), which is a title

| ‹a› | ‹b› \\| ‹c› |
|---|---|
| ‹d› | `e\\|f` |

- [ ] ‹task› [‹r›][r], [‹s›][«s»], {{< fig a_b_c >}} ‹math› $x_i$[^1]
- [x] ‹done›, <kbd>esc</kbd> ‹it›<br>‹now›\\
  ‹more›

> [!NOTE]
> ‹note›

::: tip ‹title›
‹inside›
:::

[^1]: ‹foot note›

```py
code
```

<div>
‹of html›
</div>

[r]: http://r.x
[s]: http://s.x
""",
    'a.po': """# top
msgid ""
msgstr ""
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#. note
#: a.c:3
#, c-format
msgctxt "menu"
msgid "%d file in <b>%s</b><br/>\\n"
msgid_plural "%d files"
msgstr[0] "«%d FILE IN <b>%s</b><br/>\\n»"
msgstr[1] "«%d FILES»"

msgid "done"
msgstr "fertig"

#~ msgid "old"
#~ msgstr "alt"
""",
    'a.srt': """3
00:00:01,000 --> 00:00:02,500
‹one› <i>‹two›</i>
‹and three›

4
00:00:03,000 --> 00:00:04,000
- {\\an8}‹no›
- ‹yes›
""",
    'a.xlf': """<xliff>
<unit><source>a <g id="1">b</g><x id="2"/></source>\
«<target state="translated">A <g id="1">B</g><x id="2"/></target>»<note>n</note></unit>
<unit><source>c &amp; <ph>&lt;c&gt;</ph></source>\
<target« state="translated"»>«C &amp; <ph>&lt;c&gt;</ph>»</target></unit>
<unit><source>d</source><target>D!</target></unit>
<unit translate="no"><source>e</source></unit>
</xliff>""".replace('unit', 'trans-unit'),
    'b.xlf': """<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<x:file id="f"><x:unit id="u"><x:segment« state="translated"»><x:source>a <x:sc id="1"/>b<x:ec startRef="1"/> \
<x:ph id="2"/></x:source>«<x:target>A <x:sc id="1"/>B<x:ec startRef="1"/> <x:ph id="2"/></x:target>»</x:segment>
<x:ignorable><x:source>c</x:source></x:ignorable></x:unit></x:file>
<x:file id="g" translate="no"><x:unit id="v"><x:segment><x:source>d</x:source></x:segment></x:unit></x:file>
</x:xliff>""",
    'a.vtt': """WEBVTT - a film

STYLE
::cue { color: red }

NOTE nothing
to translate

first
00:01.000 --> 00:02.500 align:start
<v Bob>‹well, now› &amp; <i>‹then›</i>
‹and so on until the end›

NOTE not
this either

00:03.000 --> 00:04.000
– ‹yes›
– ‹no›
""",
    'a.json': """{"a": {"b": "‹hello› {name}, \\"‹you›\\" \\u00d7",  "@b": {"c": "d"}}, "n": [1, "‹one›", "2"],
 "i": "‹it has› {n, plural, =0 {‹none›} one {# ‹file›} other {{x} ‹of› #}}", "t": "<0>‹read›</0>\\n\\t‹this›"}
""",
    'b.json': """{
  "a": {"message": "‹hi› $WHO$, $1", "description": "no", "placeholders": {"who": {"content": "$1", "example": "b"}}},
  "b": {"message": "‹description›"}
}
""",
    'a.properties': """# no
a.b = ‹hello›, {0}! ‹It''s› \\u00d7
c : ‹one two three›\\t‹four›
""",
    'a.ftl': """# no
a-b = ‹hello›, { $name }!
    .title = ‹a title›
c = { $n ->
    [one] ‹one mail›
   *[other] { $n } ‹mails›
}
""",
}
Call = Callable[..., tuple[int, str, str]]


def both(text: str) -> tuple[str, str]:
    """A document before and after."""
    in_capitals = re.sub('‹(.*?)›', lambda found: found[1].upper(), text, flags=re.S)
    return re.sub('«.*?»|[‹›]', '', text), re.sub('[«»]', '', in_capitals)


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Shuffling:
    translator = Shuffling(changes=0)
    translate_by(translator, monkeypatch)
    return translator


@pytest.mark.parametrize('name', DOCUMENTS)
def test_a_document_keeps_what_is_no_language(
    name: str, translator: Shuffling, tmp_path: Path, call_command: Call
) -> None:
    before, after = both(DOCUMENTS[name])
    (tmp_path / name).write_bytes(before.encode())
    files = ('--input', tmp_path / name, '--output', tmp_path / 'out')
    assert call_command('translate', RUN, *files) == (0, '', '')
    assert (tmp_path / 'out').read_bytes().decode() == after
    code, _, error = call_command('translate', RUN, *files)
    assert (code, 'out is there already; give another --output' in error) == (2, True)
    kind = {'xlf': 'xliff', 'md': 'markdown', 'ftl': 'fluent'}.get(name[2:], name[2:])
    assert call_command('translate', RUN, '--input-format', kind, text=before) == (0, after, '')


@pytest.mark.parametrize('name', DOCUMENTS)
def test_what_returns_its_input_gives_back_the_bytes(name: str, tmp_path: Path) -> None:
    before, _ = both(DOCUMENTS[name])
    (tmp_path / name).write_text(before)
    form = format_of(tmp_path / name)
    for text in (before, '\ufeff' + before, before.replace('\n', '\r\n'), before.rstrip(), f'{before} \t\n\n'):
        document = read_document(text.encode(), form, name)
        assert document.identity() == text
        texts = [translation.text for translation in translate_aside(Same(changes=0), document.lines)]
        assert document.left(texts) == []
        if not any(unit.source for unit in document.units):  # else translations go elsewhere
            assert document.with_texts(texts) == text


class Same(Shuffling):
    def _translate(self, line: str, alignment: bool) -> Translation:
        return replace(super()._translate(line, alignment), text=line)


def test_a_document_resumes_after_the_texts_that_are_there(
    translator: Shuffling, tmp_path: Path, call_command: Call
) -> None:
    (tmp_path / 'a.html').write_text('<p>one<p>two<p>three', encoding='utf-8')
    files = ('--input', tmp_path / 'a.html', '--output', tmp_path / 'b.html')
    (tmp_path / 'b.html.lines').write_text('"EINS"\n"ZW', encoding='utf-8')
    assert call_command('translate', RUN, *files)[0] == 2
    assert call_command('translate', RUN, *files, '--resume')[0] == 0
    assert translator.asked == ['two', 'three']
    assert (tmp_path / 'b.html').read_text(encoding='utf-8') == '<p>EINS<p>TWO<p>THREE'
    assert not (tmp_path / 'b.html.lines').exists()
    code, _, error = call_command('translate', RUN, '--input', tmp_path / 'a.html', '--format', 'jsonl')
    assert (code, 'the input is a document (html): leave out --format' in error) == (2, True)


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('a.po', b'hello\n', "line 1: got 'hello'; expected msgid"),
        ('a.po', b'msgid "a"b"\nmsgstr ""\n', "line 1: got 'msgid"),
        ('a.srt', b'hello\n', "line 1: got 'hello'; expected a number, a line with 00:00:01,000 -->"),
        ('a.srt', b'1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:0x --> 1\nb\n', "line 6: got '00:0x --> 1'"),
        ('a.xlf', b'<a/>', 'got XML of another kind, expected <xliff>'),
        ('a.xml', b'<a>\n<b></a>', 'line 2: mismatched tag; expected well-formed XML'),
        ('a.html', b'<p>\n\xff', 'line 2: byte 0xff is not valid UTF-8; convert'),
        ('a.md', b'a\0b', 'got a zero byte, expected text'),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    name: str, content: bytes, message: str, translator: Shuffling, tmp_path: Path, call_command: Call
) -> None:
    (tmp_path / name).write_bytes(content)
    code, output, error = call_command('translate', RUN, '--input', tmp_path / name, '--output', tmp_path / 'out')
    assert (code, output, (tmp_path / 'out').exists()) == (2, '', False)
    assert f'{name}, {message}' in error or f'{name}: {message}' in error


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('a.html', '<p>\n<b>a <i>c</b></p></u>', 'line 2: got <i>, expected </i> after it'),
        ('a.html', '<p>\n<b>a <i>c</b></p></u>', 'line 2: got </u>, expected <u> before it'),
        ('a.po', 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n', 'got msgstr[0], expected 2 plural forms'),
        (
            'a.po',
            'msgid ""\nmsgstr "x"\n\nmsgid "b"\nmsgid_plural "c"\nmsgstr[0] ""\n\nmsgid "a"\nmsgstr ""\n',
            'line 4: got a header without Plural-Forms',
        ),
        *(
            (
                'a.po',
                f'msgid ""\nmsgstr "Plural-Forms: {rule};"\n\nmsgid "b"\nmsgid_plural "c"\nmsgstr[0] ""\n\n'
                'msgid "a"\nmsgstr ""\n',
                'line 4: got a header without Plural-Forms',
            )
            for rule in ('nplurals=2; plural=n%0', 'nplurals=99999999; plural=n')
        ),
        ('a.srt', '1\n00:00:03,000 --> 00:00:02,000\na\n', 'line 2: got 00:00:03,000 --> 00:00:02,000, expected times'),
    ],
)
def test_what_is_amiss_is_said_and_the_rest_translated(
    name: str, content: str, message: str, translator: Shuffling, tmp_path: Path, call_command: Call
) -> None:
    (tmp_path / name).write_text(content, encoding='utf-8')
    code, output, error = call_command('translate', RUN, '--input', tmp_path / name)
    assert (code, 'A' in output) == (0, True)
    assert f'{name}, {message}' in error or f'{name}, line 1: {message}' in error
