"""Translation with tags and literals put aside, and put back where word alignment says."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

from .literals import DASH, PENDING
from .marked import Marked, Span, edited, outside_of_spans, without_commas
from .placing import tags_in_place
from .plain_tags import BLOCK
from .result import Translation, unchanged
from .terms import Demand

# Models copy these, which they see in place of literals: of 120 numbers and 100 names, each in 16 sentences of both
# languages, `everyday` copied these into all translations, or (Boston) all but one.
_NUMBERS = ['94', '76', '73', '48', '37', '92', '71', '46', '34', '91', '77', '43', '38', '93', '74', '42', '36', '47']
_PERSONS = {'Jackson', 'Taylor'}  # after Mr or Frau, where Tom changes what stands around it
_NAMES = ['Tom', 'London', 'Chicago', 'Boston', *sorted(_PERSONS)]
_SMALL = re.compile(r'\d{1,4}')  # stands for itself: what depends on a number agrees
_LATIN = 'A-Za-z0-9À-ɏ'
_MOST_GLUED = 99  # letters
_BRACKETS = ('()', '[]', '""', '„“', '“”', '«»', '»«')


def translate_aside(
    translate: Callable[..., list[Translation]],
    lines: Sequence[str | bytes | Marked],
    *,
    mark: Callable[[Any], str | bytes | Marked] | None = None,
    alignment: bool = False,
    adds_stop: bool = False,
    can_align: bool = True,
    **options: Any,
) -> list[Translation]:
    """What `translate(lines, **options)` makes of the lines; `text` of a marked one has every span once, well nested.

    `mark` gives a line its literals; `encloses=False` says that a prefix or required phrases fit the whole line. The
    model sees a text without its tags, and with a stand-in for each literal. If
    the translation does not have each stand-in once, the text is translated with others, then without. `translate` gets
    `alignment` for each line. With `adds_stop`, a text of a document that is no sentence, as a heading, is translated
    as one.
    """
    if mark is not None:
        wishes = zip(*(options.get(name) or [None] * len(lines) for name in ('prefixes', 'required')), strict=True)
        lines = [mark(line, encloses=not any(own)) for line, own in zip(lines, wishes, strict=True)]
    owners = [i for i, line in enumerate(lines) if isinstance(line, Marked) for _ in _inner(line)]
    inner = [part for line in lines if isinstance(line, Marked) for part in _inner(line)]
    insides: list[Translation] = []
    if inner:
        own = dict.fromkeys(('prefixes', 'required', 'progress'))  # the lines' own
        same = {'mark': mark, 'can_align': can_align, 'adds_stop': adds_stop}
        insides = translate_aside(translate, inner, **same, **(options | own))
        texts = iter([without_commas(part, one.text) for part, one in zip(inner, insides, strict=True)])
        lines = [_with_inner(line, texts) if isinstance(line, Marked) else line for line in lines]
    todo = [i for i, line in enumerate(lines) if isinstance(line, Marked)]
    texts: dict[int, _Aside] = {}
    translations: list[Translation] | None = None
    numbers: Sequence[int] = range(len(lines))
    for stand_ins in ((_NUMBERS, _NAMES), (_NUMBERS[::-1], []), ([], [])):
        texts |= {i: _Aside(lines[i], *stand_ins, adds_stop) for i in todo}
        asked = [texts[i].asked if i in texts else lines[i] for i in numbers]
        wishes = {name: _chosen(options.get(name), numbers, texts) for name in ('prefixes', 'required')}
        links = [alignment or (can_align and i in texts and texts[i].needs_links) for i in numbers]
        done = translate(asked, alignment=links, **options | wishes)
        if translations is None:
            translations = done
        for i, translation in zip(numbers, done, strict=True):
            translations[i] = translation
        todo = numbers = [i for i in todo if not texts[i].is_in(translations[i])]
        if not todo:
            break
        options['progress'] = None  # they are counted already
    for i, text in texts.items():
        translations[i] = text.restored(translations[i], keep_links=alignment)
    for i, one in zip(owners, insides, strict=True):
        translations[i] = _with_faults(translations[i], one)
    return translations


def _with_faults(translation: Translation, inside: Translation) -> Translation:
    """With the faults of a text inside, and its quality if that is lower."""
    qualities = [one.quality for one in (translation, inside) if one.quality is not None]
    return replace(
        translation,
        truncated=translation.truncated or inside.truncated,
        repetition=translation.repetition or inside.repetition,
        missing=(*translation.missing, *inside.missing),
        quality=min(qualities, default=None),
    )


def _inner(line: Marked) -> list[Marked]:
    return [part for span in line.spans for part in span.parts if isinstance(part, Marked)]


def _with_inner(line: Marked, texts: Iterator[str]) -> Marked:
    """The line with translations in place of the texts in its spans."""
    spans = []
    edits = []
    end = 0
    is_found = True
    for span in line.spans:
        if span.parts:
            new = ''.join(next(texts) if isinstance(part, Marked) else part for part in span.parts)
            start = line.raw.find(span.raw, end)
            is_found = is_found and start >= 0
            end = max(start, 0) + len(span.raw)
            edits.append((start, end, new))
            span = span._replace(raw=new, parts=())
        spans.append(span)
    if not line.raw:
        return line._replace(spans=tuple(spans))
    if is_found:
        raw = edited(line.raw, edits)
    else:  # the document writes what is in a span in another way
        raw = edited(line.text, [(span.start, span.end, span.raw) for span in spans], line.escape)
    return line._replace(spans=tuple(spans), raw=raw)


def _joined(line: Marked) -> Marked:
    """The line with one literal for several without a blank between, and for the letters that touch it."""
    spans: list[Span] = []
    for number, span in enumerate(line.spans):
        if span.kind != 'literal' or span.name == 'sign':
            spans.append(_with_brackets(line, number) if span.name == 'sign' else span)
            continue
        is_alone = span.name == 'number' or not span.raw.strip('{}') or line.text.startswith('<', span.start)
        glued = '' if is_alone else _LATIN  # 5th, {{x}} and <x> are translated
        last = spans[-1] if spans else Span(0, 0, 'void', '')
        following = line.spans[number + 1].start if number + 1 < len(line.spans) else len(line.text)
        before = line.text[last.end : span.start]
        letters = re.search(f'[{glued}]*$', before[-_MOST_GLUED:])[0] if glued else ''
        after = re.match(f'[{glued}]*', line.text[span.end : following])[0] if glued else ''
        raw = line.escape(letters) + span.raw + line.escape(after)
        span = span._replace(start=span.start - len(letters), end=span.end + len(after), raw=raw)
        signs = before.removesuffix(letters)
        if last.kind == 'literal' and last.name != 'sign' and re.fullmatch(r'[^\w\s]{,3}', signs):
            span = span._replace(start=last.start, raw=last.raw + line.escape(signs) + span.raw)
            spans.pop()
        spans.append(span)
    return line._replace(spans=tuple(spans))


def _with_brackets(line: Marked, number: int) -> Span:
    """A sign, with all brackets and quotation marks right around it, which would be left without it."""
    span = line.spans[number]
    first = line.spans[number - 1].end if number else 0
    last = line.spans[number + 1].start if number + 1 < len(line.spans) else len(line.text)
    start, end = span.start, span.end
    while first < start and end < last and line.text[start - 1] + line.text[end] in _BRACKETS:
        start, end = start - 1, end + 1
    raw = line.escape(line.text[start : span.start]) + span.raw + line.escape(line.text[span.end : end])
    return span._replace(start=start, end=end, raw=raw)


def _chosen(wishes: Sequence[Any] | None, numbers: Sequence[int], texts: Mapping[int, '_Aside']) -> list[Any] | None:
    """What is asked of these lines, with stand-ins for their literals."""
    if wishes is None:
        return None
    return [texts[i].exchanged(wishes[i]) if i in texts else wishes[i] for i in numbers]


class _Move(NamedTuple):
    """Where the model's text goes on elsewhere: in the line that it is of, or in the text that is written."""

    start: int
    there: int
    literal: Span | None = None  # what is there, where the model's text has a stand-in


class _Aside:
    """A text as the model gets it, and what is put back."""

    def __init__(self, line: Marked, numbers: Sequence[str], names: Sequence[str], adds_stop: bool) -> None:
        line = _joined(line)
        self.tags: list[Span] = []
        self._literals: dict[str, Span] = {}  # keys are their stand-ins
        self._moves: list[_Move] = []  # what is where in the line's text
        self._text = ''
        self._line = line
        self._digits = Counter(re.findall(r'\d+', line.text))
        done = 0
        free = [stand_in for stand_in in (*names, *numbers) if not _occurrences(stand_in, line.text)]
        for span in line.spans:
            self._moves.append(_Move(len(self._text), done))
            self._text += line.text[done : span.start]
            here = span._replace(start=len(self._text), end=len(self._text))
            done = span.end
            stand_in = self._stand_in(span, free, is_first=bool(names))
            if stand_in:
                self._literals[stand_in] = here
                self._moves.append(_Move(len(self._text), span.start, here))
                self._text += span.name.split()[0] if ' ' in span.name else stand_in
            else:
                if span.start < span.end and BLOCK.match(span.raw):
                    self._text += ' '  # the words around a tag of plain text are two
                self.tags.append(here)
        self._moves.append(_Move(len(self._text), done))
        self._text += line.text[done:]
        # A tag may stand between spaces.
        self.asked = re.sub('  +', ' ', self._text).strip() if self.tags else self._text
        if line.spans and not any(map(str.isalpha, outside_of_spans(line))):
            self.asked = ''  # nothing to translate
        elif adds_stop and line.raw and '' < self.asked[-1:] < '\u0590' and self.asked[-1].isalnum():
            self.asked += '.'  # models of sentences go on until they have one

    def _stand_in(self, span: Span, free: list[str], *, is_first: bool) -> str:
        if span.kind != 'literal' or span.name == 'sign':
            return ''
        text = self._line.text[span.start : span.end]
        if ' ' in span.name:  # & as the word for it, and that word's translation
            seen, word = span.name.split()
            is_free = is_first and word not in self._literals and not _occurrences(seen, self._line.text)
            return word if is_free else ''
        if is_first and _SMALL.fullmatch(text) and self._digits[text] == 1:
            return text
        fit = [stand_in for stand_in in free if stand_in.isdigit() or span.name != 'number']
        if span.name == 'person':
            fit.sort(key=_PERSONS.__contains__, reverse=True)
        if fit:
            free.remove(fit[0])
        return fit[0] if fit else ''

    @property
    def needs_links(self) -> bool:
        """Whether alignment says where something goes: not at the ends of the text."""
        return bool(self.asked) and any(
            self._text[: tag.start].strip() and self._text[tag.start :].strip() for tag in self.tags
        )

    def exchanged(self, wish: Any) -> Any:
        """A prefix or required phrases, with stand-ins for literals."""
        if isinstance(wish, Demand):
            return Demand(self.exchanged(wish.alternatives), self._span_of(wish.span))
        if not isinstance(wish, str):
            return wish and type(wish)(map(self.exchanged, wish))
        for tag in self.tags:
            if tag.raw.startswith('<'):  # the model gets none
                wish = wish.replace(tag.raw, '')
        stand_ins = {span.raw: stand_in for stand_in, span in self._literals.items()}
        raw = '|'.join(map(re.escape, sorted(stand_ins, key=len, reverse=True)))
        whole = rf'(?<![{_LATIN}])(?:{raw})(?![{_LATIN}])'  # not the 5 of 25
        return re.sub(whole, lambda match: stand_ins[match[0]], wish) if raw else wish

    def _span_of(self, span: tuple[int, int] | None) -> tuple[int, int] | None:
        """Where the model gets the words of a span of the line; None: it does not."""
        if span is None:
            return None
        start, end = span
        move = self._moves[bisect_right(self._moves, start, key=itemgetter(1)) - 1]
        near = move.start + start - move.there  # but for spaces beside tags
        places = [match.start() for match in re.finditer(re.escape(self._line.text[start:end]), self.asked)]
        first = min(places, key=lambda place: abs(place - near), default=None)
        return None if first is None else (first, first + end - start)

    def is_in(self, translation: Translation) -> bool:
        """Whether a translation has each stand-in once, and makes no amount of it."""
        if not self.asked:
            return True
        return all(
            len(_occurrences(stand_in, translation.text)) == 1
            and (not _has_unit(stand_in, translation.text) or _has_unit(stand_in, self._text))
            for stand_in in self._literals
        )

    def restored(self, translation: Translation, *, keep_links: bool) -> Translation:
        """The translation with tags and literals in place; the line as it was if nothing changed."""
        line = self._line
        translation = _with_dashes(translation, line.text)
        if line.raw and (not self.asked or translation.text == self.asked):
            return replace(translation, text=line.raw, alignment=None, n_best=())
        is_plain = not line.spans and not line.raw and line.escape is str
        if is_plain and not (PENDING.search(line.text) or DASH.search(line.text)):
            return translation if keep_links else replace(translation, alignment=None)
        ranked = [other for other in translation.n_best if self.is_in(other)]
        if line.raw and any(tag.kind != 'literal' for tag in self.tags):
            ranked = []
        if not self.asked:
            text = edited(line.text, [(span.start, span.end, span.raw) for span in line.spans], line.escape)
            return replace(translation, text=text, alignment=unchanged(text, keep_links).alignment)
        text, moves = self._put_back(translation)
        return replace(
            translation,
            text=text,
            n_best=tuple(replace(other, text=self._text_of(other, translation, text)) for other in ranked),
            word_quality=self._quality_of_words(translation, text, moves),
            alignment=self._links(translation, text, moves) if keep_links else None,
        )

    def _text_of(self, other: Translation, best: Translation, text: str) -> str:
        """A hypothesis with tags and literals in place; `text` is that of the best one, which alone is aligned."""
        return text if other.token_ids == best.token_ids else self._put_back(other)[0]

    def _quality_of_words(
        self, translation: Translation, text: str, moves: Sequence['_Move']
    ) -> tuple[float, ...] | None:
        """The quality of the text's words: a literal has its stand-in's, a sign that the model did not see 1."""
        numbers = _moved_words(translation.text, moves, text, self._line.escape)
        if not translation.word_quality or len(translation.word_quality) != len(numbers):
            return None
        words = [1.0] * len(text.split())
        for number, quality in zip(numbers, translation.word_quality, strict=True):
            words[number] = min(words[number], quality)
        for move in moves:
            if move.literal:
                first = _word_at(text, move.there)
                size = len(move.literal.raw.split())
                words[first : first + size] = [words[first]] * size
        return tuple(words)

    def _links(
        self, translation: Translation, text: str, moves: Sequence['_Move']
    ) -> tuple[tuple[int, int], ...] | None:
        """The alignment by the words of the line and of the text."""
        if translation.alignment is None:
            return None
        sources = _moved_words(self._text, self._moves, self._line.text)
        targets = _moved_words(translation.text, moves, text, self._line.escape)
        known = [link for link in translation.alignment if link[0] < len(sources) and link[1] < len(targets)]
        links = {targets[target]: sources[source] for source, target in known}
        for move in moves:
            if move.literal:
                first = _word_at(text, move.there)
                source = sources[_word_at(self._text, move.literal.start)]
                links |= {first + number: source + number for number, _ in enumerate(move.literal.raw.split())}
        return tuple((source, target) for target, source in sorted(links.items()))

    def _put_back(self, translation: Translation) -> tuple[str, list['_Move']]:
        """The text with tags and literals in place, and where it has what."""
        line = self._line
        text = translation.text
        is_in_document = bool(line.raw)
        if is_in_document or PENDING.search(line.text):
            text = _without_added_stop(text, line.text)
        if translation.alignment is not None:
            links = {target: word for word, target in translation.alignment}
        else:
            count = len(text.split())
            share = len(self._text.split()) / max(count, 1)
            links = {i: int(i * share) for i in range(count)}
        written = []
        literals = {}
        for stand_in, span in self._literals.items():
            start, end = _occurrences(stand_in, text)[0].span()
            ordinal = re.match(r'(?:st|nd|rd|th)\b', text[end:])
            raw = span.raw
            if ordinal and raw.isdigit():  # 94th became 2nd
                raw += 'th' if raw[-2:-1] == '1' else {'1': 'st', '2': 'nd', '3': 'rd'}.get(raw[-1], 'th')
                end += 2
            raw = re.sub(r'\b([ap]\.m)$', r'\1.', raw)
            if text.startswith('.', end):
                raw = raw.removesuffix('.')  # 5 p.m. ends a sentence, too
            written.append((start, end, raw))
            literals[start] = span._replace(raw=raw)
            links[_word_at(text, start)] = _word_at(self._text, span.start)  # known for certain
        written = [*tags_in_place(self.tags, self._text, text, links), *written]
        is_small = text[:1].islower() and len(text[0].upper()) == 1
        if line.text[:1].isupper() and is_small and 0 not in literals:
            text = text[0].upper() + text[1:]
        out = ''
        at = 0
        moves = []
        for start, end, raw in sorted(written, key=itemgetter(0)):
            moves.append(_Move(at, len(out)))
            out += line.escape(text[at:start])
            if start < end and start in literals:
                moves.append(_Move(start, len(out), literals[start]))
            out += raw
            at = end
        moves.append(_Move(at, len(out)))
        return out + line.escape(text[at:]), moves


def _with_dashes(translation: Translation, source: str) -> Translation:
    """The translation with the source's dash where models that have seen -- write that."""
    dash = re.search(r'(?<=\s)[-–—](?=\s)', source) or DASH.search(source)
    if not dash or '--' in source or '--' not in translation.text:
        return translation
    others = tuple(replace(other, text=other.text.replace('--', dash[0])) for other in translation.n_best)
    return replace(translation, text=translation.text.replace('--', dash[0]), n_best=others)


def _moved_words(text: str, moves: Sequence[_Move], there: str, escape: Callable[[str], str] = str) -> list[int]:
    """The number of the word of the text there in which each word of the model's text begins."""
    begins = [word.start() for word in re.finditer(r'\S+', there)]
    numbers = []
    for word in re.finditer(r'\S+', text):
        move = moves[bisect_right(moves, word.start(), key=itemgetter(0)) - 1]
        passed = '' if move.literal else escape(text[move.start : word.start()])
        numbers.append(bisect_right(begins, move.there + len(passed)) - 1)
    return numbers


def _has_unit(stand_in: str, text: str) -> bool:
    return re.search(rf'[$€£¥]{stand_in}(?!\w)|(?<!\w){stand_in} ?[%€°]', text) is not None


def _occurrences(stand_in: str, text: str) -> list[re.Match[str]]:
    """The places of a stand-in in a text: as a number, perhaps of 14th; as a word, else between what is not Latin."""
    if stand_in.isdigit():
        return list(re.finditer(rf'(?<![\w.,:]){stand_in}(?![\d_]|[.,:]\d)', text))
    words = re.finditer(rf'(?<!\w){stand_in}(?!\w)', text, re.I)
    return list(words) or list(re.finditer(rf'(?<![{_LATIN}]){stand_in}(?![{_LATIN}])', text))


def _word_at(text: str, start: int) -> int:
    return len(f'{text[:start]}|'.split()) - 1


def _without_added_stop(text: str, source: str) -> str:
    """The text as its source begins and ends, if that is no sentence: a heading, a cell, a name."""
    if source.isalpha() and text.split()[:1] == [source]:
        return source  # 'Tom is.' for Tom
    if source[0].isupper() and len(text[:1].upper()) == 1:
        text = text[0].upper() + text[1:]
    mark = ''.join(PENDING.findall(source))
    added = re.search(r'(?<=[^\s.!?…,;:])[.!。](?=\W*$)(?<!\.\w\.)', text)
    if not added:
        return text + mark * text[-1:].isalnum()
    return text if re.search(r'[.!?…。！？]\W*$', source) else text[: added.start()] + mark + text[added.end() :]
