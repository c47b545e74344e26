"""Tags and literals through a translation: each once, well nested, where the alignment says."""

import html
import random
import re
import time
from functools import partial
from pathlib import Path

import pytest
from translators import Ascii, Shuffling

from flax_transformer import Translator
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.tasks.translation.documents.markup import split_html, split_xml
from flax_transformer.tasks.translation.documents.messages import message_parts
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.aside import translate_aside
from flax_transformer.tasks.translation.inference.literals import Literals, with_literals
from flax_transformer.tasks.translation.inference.marked import Marked, Span
from flax_transformer.tasks.translation.inference.result import Translation

TAG = re.compile(r'<[^<>]*>')
TOUCHING = ['O<k n="{}">2</k>O', '10<k n="{}">6</k>', 'dog<k n="{}">[1]</k>,', 'Ko<k n="{}">1</k>.']
EMPTY = re.compile(r'<\w n="[^"]*"></\w>')
WORDS = ['the', 'dog,', 'a', '(house)', 'runs!', '12', 'or', 'grün', 'Ärger', '–', '"so"', "it's", '3.5', 'X']


def random_tree(draw: random.Random, words: int, depth: int = 0) -> str:
    """Words with elements around some of them, without blanks between some, and with empty tags."""
    parts = []
    for _ in range(words):
        kind = draw.random()
        if kind < 0.2 and depth < 5:
            name = draw.choice('abiuqx')
            inner = random_tree(draw, draw.randrange(4), depth + 1)
            parts.append(f'<{name} n="{draw.random()}">{inner}</{name}>')
        elif kind < 0.24:
            parts.append(draw.choice(TOUCHING).format(draw.random()))
        elif kind < 0.3:
            parts.append(draw.choice(['<img n="{}"/>', '<!-- {} -->', '<i n="{}"></i>']).format(draw.random()))
        else:
            parts.append(draw.choice(WORDS))
    return ''.join(part + draw.choice(['', ' ', ' ', ' ']) for part in parts)


def check_tags(before: str, after: str) -> None:
    """The same tags, none within another's half, and around an element what was around it."""
    tags = TAG.findall(after)
    assert sorted(tags) == sorted(TAG.findall(before)), (before, after)
    # What ends a word goes with it.
    joins_word = {tag for tag in tags if re.search(rf'[\w.,:;!?")\]]{re.escape(tag)}', before)}
    stacks = {}
    for text in (before, after):
        stack: list[str] = []
        around = stacks[text] = {}
        for tag in TAG.findall(text):
            if tag.startswith('</'):
                assert stack, (before, after)
                assert re.match(r'<(\w)', stack.pop())[1] == tag[2], (before, after)
            else:
                if not joins_word.intersection([tag, *stack]):
                    around[tag] = tuple(stack)
                if not tag.endswith(('/>', '-->')):
                    stack.append(tag)
        assert not stack
    before_, after_ = stacks.values() if len(stacks) == 2 else (stacks[before], stacks[before])
    assert before_ == after_, (before, after)


def test_required_phrases_have_stand_ins_for_whole_literals_only() -> None:
    asked = []

    def same(lines: list[str], *, required: list[list[str]], **_: object) -> list[Translation]:
        asked.append((lines, required))
        return [Translation(line, 0.0, 0.0, 0) for line in lines]

    mark = Literals(Ascii(), 'en', DecodingConfig()).mark
    translate_aside(same, ['I have 50,000 apples'], mark=mark, required=[['150,000', '50,000 pears']])
    ((line,), ((other, own),)) = asked[0]
    stand_in = line.split()[2]
    assert (other, own) == ('150,000', f'{stand_in} pears')
    assert stand_in != '50,000'


@pytest.mark.parametrize('count', [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_tag_of_random_trees_is_lost_doubled_or_crossed(count: int) -> None:
    draw, translator = random.Random(7), Shuffling()
    num_emptied = 0
    for _ in range(count):
        text = random_tree(draw, draw.randrange(12))
        for split in (split_html, split_xml):
            parts = split(text)
            lines = [part for part in parts if isinstance(part, Marked)]
            done = iter(translator(lines))
            out = ''.join(next(done).text if isinstance(part, Marked) else part for part in parts)
            check_tags(text, out)
            num_emptied += len({*EMPTY.findall(out)} - {*EMPTY.findall(text)})
    assert num_emptied <= count // 50  # where words are lost


@pytest.mark.parametrize(
    ('source', 'target', 'links', 'expected'),
    [
        ('I <b>saw</b> <i>the man</i>.', 'Ich sah den Mann.', '0-0 1-1 2-2 3-3', 'Ich <b>sah</b> <i>den Mann</i>.'),
        ('<i>One</i> <b>two three</b>', 'zwei drei eins', '1-0 2-1 0-2', '<b>Zwei drei</b> <i>eins</i>'),
        ('<b>one two</b> three four', 'eins drei vier zwei', '0-0 2-1 3-2 1-3', '<b>eins</b> drei vier zwei'),
        ('a <b>b <i>c</i></b> d', 'D C B A', '3-0 2-1 1-2 0-3', 'D <b><i>C</i> B</b> A'),
        ('Press <img/> now<ref/>, a.', 'Jetzt, A drück.', '0-2 1-0 2-1', '<img/> Jetzt<ref/>, A drück.'),
        ('<b>All of it.</b> Yes', 'Alles. Ja', '0-0 3-1', '<b>Alles.</b> Ja'),
        ('see <a>u@v.de</a> or 5 km', 'oder sieh', '1-0 0-1', 'oder sieh <a>u@v.de</a> 5 km'),
        ('at {n}', '94 an', '1-0 0-1', '{n} an'),
        ('Tell ("☃") it.', 'Sag es.', '0-0 1-1', 'Sag ("☃") es.'),
        ('im 12345. Haus', 'in the 94th house', '', 'in the 12345th house'),
        ('im 10002. Haus', 'in the 94th house', '', 'in the 10002nd house'),
        ('a <b>c', 'C A', '0-1 1-0', '<b>C A'),
        ('Cat<b>s</b> run<sup>1</sup>.', 'Katzen laufen.', '0-0 1-1', 'Katze<b>n</b> laufen<sup>1</sup>.'),
        ('See<a>[1]</a>, please.', 'Siehe, bitte.', '0-0 1-1', 'Siehe<a>[1]</a>, bitte.'),
        ('<u>S</u>ave <b>Java</b>Script', 'Speichere JavaScript', '0-0 1-1', '<u>S</u>peichere <b>Java</b>Script'),
        ('I <b>do</b> <i>not</i> see', 'seh nicht', '3-0 2-1', '<b>Seh</b> <i>nicht</i>'),
        ('I am {n}.', 'Ich bin .', '0-0 1-1', 'Ich bin {n}.'),
        ('Take <kbd>a</kbd>+<kbd>b</kbd>s.', 'Nimm.', '0-0', 'Nimm <kbd>a</kbd>+<kbd>b</kbd>s.'),
        ('Drink H<sub>2</sub>O', 'Trink', '0-0', 'Trink H<sub>2</sub>O'),
        ('a caf&eacute;<sup>2</sup> here', 'ein Café hier', '0-0 1-1 2-2', 'ein Caf&eacute;<sup>2</sup> hier'),
        ('Drink H<sub>2</sub>&eacute;', 'Trink', '0-0', 'Trink H<sub>2</sub>&eacute;'),
        ('My <b>house</b>', 'Mein Haus.', '0-0 1-1', 'Mein <b>Haus</b>'),
        ('Note:', 'Achtung.', '', 'Achtung:'),
        ('To <b>Tom</b>, Ann;', 'An Tom, Ann.', '0-0 1-1 2-2', 'An <b>Tom</b>, Ann;'),
        ('Name', 'name', '', 'Name'),
        ('On 12/31/2024 at 5:30 now.', 'Am jetzt.', '0-0 2-1', 'Am 12/31/2024 5:30 jetzt.'),
        ('I am {n} {m}.', 'Ich bin .', '0-0 1-1', 'Ich bin {n} {m}.'),
        ('on <a/><b/> it', 'am', '0-0', 'am <a/><b/>'),
        ('by 5 p.m.', 'um 94 an.', '', 'um 5 p.m. an.'),
        ('it is "here"', 'es ist „hier“.', '', 'es ist „hier“'),
        ('Tom', 'Tom ist.', '', 'Tom'),
        ('e.g.', 'z.B.', '', 'z.B.'),
        ('so z.B', 'also e.g.', '', 'also e.g.'),
    ],
)
def test_spans_go_where_their_words_went(source: str, target: str, links: str, expected: str) -> None:
    class Fixed(Shuffling):
        def _translate(self, line: str, alignment: bool) -> Translation:
            pairs = tuple(tuple(map(int, link.split('-'))) for link in links.split())
            return Translation(target, -1.0, -1.0, 1, alignment=pairs)

    (line,) = (part for part in split_html(source) if isinstance(part, Marked))
    (found,) = Fixed()([line])
    assert found.text == expected
    assert found.alignment is None


def test_a_term_is_no_part_of_an_address() -> None:
    glossary = Glossary({'house': ['Haus'], 'see a.de/x': ['siehe'], 'km': ['Kilometer']})
    text = 'In house: https://house.org/house, see a.de/x, 5 km.'
    marked = Literals(Ascii(), 'en', DecodingConfig()).mark(text, glossary)
    assert [span.raw for span in marked.spans] == ['https://house.org/house']


def test_a_number_is_made_no_amount_and_ends_with_one_stop() -> None:
    def dollars(lines: list[str], **_: object) -> list[Translation]:
        return [Translation(f'{line[:4]}${line[4:]}.', 0.0, 0.0, 0, alignment=()) for line in lines]

    mark = Literals(Ascii(), 'en', DecodingConfig()).mark
    (amount,) = translate_aside(dollars, ['Day 3'], mark=mark)
    assert amount.text.count('3') == 1
    assert '$3' not in amount.text

    def stopped(lines: list[str], **_: object) -> list[Translation]:
        return [Translation(f'now by {lines[0].split()[-2]}.', 0.0, 0.0, 0, alignment=())]

    (stop,) = translate_aside(stopped, ['by 5 p.m. now'], mark=mark)
    assert stop.text == 'now by 5 p.m.'


def test_the_clock_has_24_hours_in_german() -> None:
    local = Literals(Ascii(), 'en', DecodingConfig(literals='localized', target_language='de'))
    spans = local.mark('at 9 a.m., 12:30 PM, 12am, 13 p.m. and 1,250.5').spans
    assert [span.raw for span in spans] == ['9 Uhr', '12:30 Uhr', '0 Uhr', '13 p.m.', '1.250,5']

    for literals, morning in (('kept', '7.45'), ('localized', '7:45')):
        english = Literals(Ascii(), 'de', DecodingConfig(literals=literals, target_language='en'))
        spans = english.mark('um 14 Uhr, um 7.45 Uhr, von 0 Uhr bis 9 Uhr').spans
        assert [span.raw for span in spans] == ['14:00', morning, '0:00', '9']


def test_a_dash_stays_one_and_what_begins_with_a_capital_begins_so() -> None:
    def translate(lines: list[str], **_: object) -> list[Translation]:
        return [Translation(line.lower().replace(' - ', ' -- '), 0.0, 0.0, 0) for line in lines]

    mark = Literals(Ascii(), 'en', DecodingConfig()).mark
    lines = ['A dark - very dark', 'Price: 25 km', 'a - b -- c', 'A b', '- a – b 5']
    texts = [done.text for done in translate_aside(translate, lines, mark=mark)]
    assert texts == ['A dark - very dark', 'Price: 25 km', 'a -- b -- c', 'a b', '- a – b 5']  # 'A b' needs nothing


def test_tags_in_plain_text_stay_around_their_words() -> None:
    def german(lines: list[str], **_: object) -> list[Translation]:
        asked.extend(lines)
        words = [tuple((i, i) for i, _ in enumerate(line.split())) for line in lines]
        texts = [re.sub('TOM|LONDON', lambda name: name[0].title(), line.upper()) for line in lines]
        return [Translation(text, 0.0, 0.0, 0, alignment=own) for text, own in zip(texts, words, strict=True)]

    asked = []
    mark = Literals(Ascii(), 'en', DecodingConfig()).mark
    around = {
        'a <b class="x">big</b> car<br>': 'A <b class="x">BIG</b> CAR<br>',
        '<td>a</td><td>b</td>': '<td>A</td> <td>B</td>',
        'a<BR>b': 'A<BR> B',
        'a <a href=x/>b</A>': 'A <a href=x/>B</A>',
        '<i title="a > b">c</i>': '<i title="a > b">C</i>',
        'a [b c](d/e_(f) "g"), ![h](i.png)': 'A [B C](d/e_(f) "g"), ![H](i.png)',
        '**a** *b* c ~~d~~: **[e](f)**': '**A** *B* C ~~D~~: **[E](f)**',
    }
    names = {
        'Press <Enter>': 'PRESS <Enter>',
        'A <b> begins, a </b> ends': 'A <b> BEGINS, A </b> ENDS',
        'a <code>b c</code>': 'A <code>b c</code>',
        'say "<b>", "</b>"': 'SAY "<b>", "</b>"',
        'a * b * c, d*e*f, `[g](h) *i* j` *k': 'A * B * C, D*E*F, `[g](h) *i* j` *K',
    }
    texts = [done.text for done in translate_aside(german, [*around, *names], mark=mark)]
    assert texts == [*around.values(), *names.values()]
    assert asked[: len(around)] == ['a big car', 'a b', 'a b', 'a b', 'c', 'a b c, h', 'a b c d: e']
    opening, *_ = mark('<a href="a/b">b</a>', Glossary({'b': ['c']})).spans
    assert opening.raw == '<a href="a/b">'
    own = Span(3, 3, 'open', '<b>', 'b')  # of a document, in whose text others are words
    (first, _, last) = mark(Marked('<b>x</b>', (own,), escape=html.escape)).spans
    assert (first.kind, first.raw, last.raw) == ('literal', '&lt;b&gt;', '&lt;/b&gt;')


class WithoutSign(Ascii):
    def has_piece_for(self, character: str) -> bool:
        return character.isalnum()


def test_brackets_and_quotation_marks_without_a_piece_are_put_around_what_they_were_around() -> None:
    def german(lines: list[str], **_: object) -> list[Translation]:
        asked.extend(lines)
        words = [tuple((i, i) for i, _ in enumerate(line.split())) for line in lines]
        return [Translation(line.title(), 0.0, 0.0, 0, alignment=own) for line, own in zip(lines, words, strict=True)]

    asked = []
    literals = Literals(WithoutSign(), 'en', DecodingConfig(target_language='de'))
    expected = {
        'my dog (a cat (see it)) ran': [', see it,', ', a cat,', 'my dog ran'],
        'one dog (Cat), two': ['Cat', 'one dog, two'],
        '(it ran.)': ['it ran.'],
        'the law (EU) by f(x), book(s) (2)': ['the law by Tom, London (2)'],
        'say “a cat,” or "see it"': ['say a cat, or see it'],
        "the boys' dog isn't 'it'": ["the boys' dog isn't it"],
    }
    glossary = Glossary({'cat': ['Katze']})
    texts = []
    for line, shown in expected.items():
        asked.clear()
        mark = partial(literals.mark, glossary=glossary)
        (done,) = translate_aside(german, [line], mark=mark)
        texts.append(done.text)
        assert asked[: len(shown)] == shown
    assert texts == [
        'My Dog (A Cat (See It)) Ran',
        'One Dog (Cat), Two',
        '(It Ran.)',
        'The Law (EU) By f(x), book(s) (2)',
        'Say „A Cat,“ Or „See It“',
        "The Boys' Dog Isn'T 'It'",
    ]
    knowing = Literals(Ascii(), 'en', DecodingConfig(target_language='de'))
    assert knowing.mark('a (b c) "d"') == 'a (b c) "d"'
    line = 'a (bc) [*de*](f) "gh"'
    for wish in ({'prefixes': ['A']}, {'required': [['B']]}):  # they fit the whole line
        asked.clear()
        translate_aside(german, [line], mark=literals.mark, **wish)
        assert asked == ['a (bc) de(f) "gh"'], asked
    for whole in ('<code>*ab* c</code>', '<a title="*ab cd*">ef</a>'):
        (done,) = translate_aside(german, [f'one {whole}'], mark=literals.mark)
        assert done.text.lower() == f'one {whole}'
    (part,) = [part for part in split_html('<p>(It&#39;s) (and red)') if isinstance(part, Marked)]
    (done,) = translate_aside(german, [part], mark=literals.mark)
    assert done.text == "(It'S) (And Red)"


def test_a_sign_that_the_vocabulary_lacks_is_read_as_and() -> None:
    asked = []

    def german(lines: list[str], **_: object) -> list[Translation]:
        asked.extend(lines)
        links = tuple((i, i) for i in range(5))
        return [Translation(line.replace(' and ', ' und '), 0.0, 0.0, 0, alignment=links) for line in lines]

    mark = Literals(WithoutSign(), 'en', DecodingConfig(target_language='de')).mark
    assert mark('>>deu<< five') == '>>deu<< five'  # a tag of the model
    assert [span.raw for span in mark('>>ita<< five').spans] == ['>>', '<<']
    texts = [done.text for done in translate_aside(german, ['Tom & Ann', 'Tom and Ann & Bo'], mark=mark)]
    assert asked[:2] == ['Tom and Ann', 'Tom and Ann Bo']
    assert texts == ['Tom & Ann', 'Tom und Ann & Bo']


def test_words_are_counted_with_the_literals_whole() -> None:
    def backwards(lines: list[str], **_: object) -> list[Translation]:
        words = lines[0].split()[::-1]
        links = tuple((len(words) - 1 - i, i) for i in range(len(words)))
        quality = tuple(i / 10 for i in range(len(words)))
        return [Translation(' '.join(words), 0.0, 0.0, 0, alignment=links, word_quality=quality)]

    mark = Literals(Ascii(), 'en', DecodingConfig()).mark
    line = 'Pay DE89 3704 0044 0532 0130 00 \N{PARTY POPPER} now to Anna'
    (translation,) = translate_aside(backwards, [line], mark=mark, alignment=True)
    words = translation.text.split()
    said = {line.split()[source]: words[target] for source, target in translation.alignment}
    assert said == {word: word for word in line.split() if word.isascii()}
    assert translation.alignment == tuple(sorted(translation.alignment, key=lambda link: link[1]))
    rated = dict(zip(words, translation.word_quality, strict=True))
    iban = {word: 0.3 for word in line.split()[1:7]}
    assert rated == iban | {'Anna': 0.0, 'to': 0.1, 'now': 0.2, '\N{PARTY POPPER}': 1.0, 'Pay': 0.4}
    (alone,) = translate_aside(backwards, ['12 --- 13'], mark=mark, alignment=True)
    assert alone.alignment == ((0, 0), (1, 1), (2, 2))


def test_a_heading_is_translated_as_a_sentence() -> None:
    lines = [part for part in split_html('<h1>My <b>house</b></h1><p>It is.<p>Tom') if isinstance(part, Marked)]
    asked = []

    def translate(lines: list[str], **_: object) -> list[Translation]:
        asked.extend(lines)
        return [Translation(f'{line[:-1]}!', -1.0, -1.0, 1, alignment=()) for line in lines]

    texts = [translation.text for translation in translate_aside(translate, lines, adds_stop=True)]
    assert asked == ['My house.', 'It is.', 'Tom.']
    assert [re.sub('<.*?>', '', text) for text in texts] == ['My house', 'It is!', 'Tom']


@pytest.mark.parametrize(
    ('text', 'literals'),
    [
        ('See https://a.b/c?d=1&e, a.b@c.de; www.x.org/y.', 'https://a.b/c?d=1&e, a.b@c.de, www.x.org/y'),
        ('On example.org/a and at 3.5 km or 20% or $5: 5 km/h.', 'example.org/a, 3.5 km, 20%, $5, 5 km/h'),
        ('{0:.2f}, {{ x }} or ${y} and %(n)s of %1$d, 100%sure', '{0:.2f}, {{ x }}, ${y}, %(n)s, %1$d, 100'),
        ('Open ~/a/b.txt and C:\\x\\y, or report_1.pdf, and/or he/she.', '~/a/b.txt, C:\\x\\y, report_1.pdf'),
        ('Pay 3,250.50 EUR by 14:30 on 2026-11-27, -5 to 10–12.', '3,250.50 EUR, 14:30, 2026-11-27, -5, 10–12'),
        ('Use v2.3.1 or ABC-1234 of DE89 3704 0044 0532 0130 00.', 'v2.3.1, ABC-1234, DE89 3704 0044 0532 0130 00'),
        ('Open http://a.b/?c=%2Fd&e=%20f to see my%20file.pdf for %d.', 'http://a.b/?c=%2Fd&e=%20f, my%20file.pdf, %d'),
        (
            'Go <a href="b?c=%2Fd">5 &lt; 6&nbsp;km &#38; &copy;</a>',
            '<a href="b?c=%2Fd">, 5, &lt;, 6, &nbsp;, &#38;, &copy;, </a>',
        ),
        ('Hello [X6X], see [X12X], [[go_on]] and [XX].', '[X6X], [X12X], [[go_on]]'),
        ('Call +49 30 1234567, @tom or #go; the 3rd 5-year-old in 1999.', '+49 30 1234567, @tom, #go, 3, 5, 1999'),
        ('1. Say Привет мир → now 😀😀!', '1., Привет мир, →, 😀😀'),
        (
            'Use C++ and AT&T :-) on 3. 10. 1990 for 5,- by § 5 at 5 p.m. sharp',
            'C++, AT&T, :-), 3. 10. 1990, 5,-, § 5, 5 p.m.',
        ),
        ('Press Ctrl+Shift+S, R&D: a=b, H~2~O.', 'Ctrl+Shift+S, R&D, a=b, H~2~O'),
        ('Call ls -la with -v. -Yes, by 9 a.m.–5 p.m. there', '-la, -v, 9 a.m., 5 p.m.'),
        ('§ 14 Abs. 2 Satz 1 BGB, Art. 6 lit. b, § 5 STATT', '§ 14 Abs. 2 Satz 1 BGB, Art. 6 lit. b, § 5'),
        ('by § 8 Abs. 1 i. V. m. § 2 ff. BGB', '§ 8 Abs. 1 i. V. m. § 2 ff. BGB'),
        ('on 24.12. we go by 5 p.m.?', '24.12., 5 p.m.'),
        ('> > ...so 1)', '> >, 1'),
        ('...so it is', '...'),
        ('If E = m · c² and x2 + 3 ≥ 5 m/s, he is = I.', 'E = m · c², x2 + 3 ≥ 5 m/s'),
        ('BIC: DEUTDEFF500, ELEVATOR to A, B', 'DEUTDEFF500'),
        ('  $ pip install a', '  $ pip install a'),
        ('Press Ctrl + Alt + T in 5\' 30".', 'Ctrl + Alt + T, 5\' 30"'),
        ('z. B. Tom', ''),
        (' -- 12! ', '-- 12!'),
        ('Use Acme 3000, please: I am, e.g., here. And so on', 'Acme 3000'),
        ("Dear Mr. Müller, Mrs. A. Smith's and Ms Eva Meier-Lange", 'Müller, A. Smith, Eva Meier-Lange'),
        ('Wenn Frau O’Hara Zeit hat, Herrn von der Au, Herr Dr. Weber', 'O’Hara, von der Au, Weber'),
        ('Peter Müller, John B. Smith and Hans-Uwe Klein-Wolf meet Jan Peter Wolf', 'Müller, Smith, Klein-Wolf, Wolf'),
        ("Anna Baker's car, Familie Kochs Haus; Anna Table, Young Anna, Anna, Müller, Anna's Koch", 'Baker, Kochs'),
        ('Mr President, Frau Kollegin, Mr. and the Herr, die Frau geht', ''),
        ('I saw Mr. Smith Monday. Herr Kommissionspräsident, seiner jungen Frau Blumen, die Frau von Peter', 'Smith'),
    ],
)
def test_literals_are_what_is_no_language(text: str, literals: str) -> None:
    line = with_literals(Marked(text), ['Acme 3000'])
    marked = Literals(Ascii(), 'en', DecodingConfig()).mark(line)
    assert ', '.join(span.raw for span in getattr(marked, 'spans', ())) == literals


@pytest.mark.slow
def test_a_real_search_contains_each_literal_once_and_other_lines_are_as_without(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=4)
    texts = ['a b {x} c {y}', 'd e', '{x}', 'f <b>g h</b> a']
    lines = [part for text in texts for part in message_parts(text) if isinstance(part, Marked)]
    found = translator(lines)
    assert found[1].tokens == translator('d e').tokens
    assert [found[0].text.count(literal) for literal in ('{x}', '{y}')] == [1, 1]
    assert found[2].text == '{x}'
    assert re.search('<b>.*</b>', found[3].text)
    plain = translator('f g h a')
    assert TAG.sub('', found[3].text) == plain.text
    assert found[3].tokens == plain.tokens


@pytest.mark.parametrize(
    'text',
    [
        f'<a {" class=a" * 2480}>x</a>',
        f'<a{"a" * 20_000}',
        '<b>' * 2800 + 'x' + '</b>' * 2800,
        'a ' + '5% ' * 6600,
        f'a %{"0" * 20_000}',
    ],
)
def test_time_grows_no_faster_than_the_text(text: str) -> None:
    began = time.process_time()
    assert ''.join(part if isinstance(part, str) else part.raw for part in split_html(text)) == text
    assert time.process_time() - began < 0.6  # 0.9 to 14 s if each place is looked at from every other


@pytest.mark.parametrize('end', ['', 'x' + '}}' * 1000])
def test_each_choice_is_looked_through_once(end: str) -> None:
    text = '{n, plural, other {' * 1000 + end
    began = time.process_time()
    assert ''.join(part if isinstance(part, str) else part.raw for part in message_parts(text, 'message')) == text
    assert time.process_time() - began < 0.6
