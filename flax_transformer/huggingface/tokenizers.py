"""The tokenizers of Hugging Face's models, which give the ids of those in transformers.

Marian has two SentencePiece models and a vocabulary that maps pieces to ids: special pieces spelled out in a line count
as such, and a line may begin with its target language as `>>fr<<`.

NLLB-200, M2M-100 and mBART-50 have one SentencePiece model, fairseq's ids and a tag for each language: sources are
`[language] text </s>`, or `text </s> [language]` as in older versions of NLLB, and targets begin with their language.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import sentencepiece

from flax_transformer.common.errors import NoLanguages, UserError, refuse_faults
from flax_transformer.common.files import naming_damage, read_limited
from flax_transformer.text.languages import UNDETERMINED, known_language
from flax_transformer.text.sentencepiece_model import open_model, read_model
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, Portable, Tokenizer, write_files
from flax_transformer.text.vocabulary_change import learn_pieces, used_pieces, with_pieces

from .settings import read_object, unexpected
from .tokenizer_json import LARGEST, read_sentencepiece

SETTINGS_FILE = 'tokenizer_config.json'
VOCABULARY_FILE = 'vocab.json'
# Marian's.
SOURCE_FILE = 'source.spm'
TARGET_FILE = 'target.spm'
TARGET_VOCABULARY_FILE = 'target_vocab.json'
_SPECIALS = (('pad', '<pad>'), ('eos', '</s>'), ('unk', '<unk>'))
_CLEANED = (' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", " 's", " 've", " 're")  # transformers' order
# Fairseq's.
MODEL_FILE = 'sentencepiece.bpe.model'
# The languages of a tokenizer, in the order of their ids.
LANGUAGES: dict[str, list[str]] = json.loads(Path(__file__).with_name('languages.json').read_text())
_JSON_FILE = 'tokenizer.json'
_FIRST = ('<s>', '<pad>', '</s>', '<unk>')  # ids 0 to 3
_MADE_UP = 8  # M2M-100 has so many words after the languages
# Files of transformers' tokenizers that are handed on unread; and their names in a run, which has a tokenizer.json.
_HANDED_ON = {_JSON_FILE: 'fast_tokenizer.json', 'special_tokens_map.json': 'special_tokens_map.json'}


class MarianTokenizer(Tokenizer):
    tags_to_ban = ()  # an imported model bans what its own settings ban

    def __init__(
        self,
        source: bytes,
        target: bytes,
        vocabulary: dict[str, int],
        target_vocabulary: dict[str, int] | None,
        settings: dict[str, Any],
    ) -> None:
        """Takes SentencePiece models, and ids by piece, for both sides unless there is a target_vocabulary."""
        self.settings = settings
        self._models = source, target
        self._source = sentencepiece.SentencePieceProcessor(model_proto=source)
        self._target = sentencepiece.SentencePieceProcessor(model_proto=target)
        self._vocabulary = vocabulary
        self._target_vocabulary = vocabulary if target_vocabulary is None else target_vocabulary
        self._pieces = {id_: piece for piece, id_ in self._target_vocabulary.items()}
        self._source_pieces = {id_: piece for piece, id_ in vocabulary.items()}
        self._specials = [_content(settings.get(f'{name}_token', default)) for name, default in _SPECIALS]
        for special in self._specials:
            if special not in vocabulary or special not in self._target_vocabulary:
                raise UserError(f'{VOCABULARY_FILE} has no {special!r}, a special piece of {SETTINGS_FILE}')
        pad, self._eos, self._unk = self._specials
        self.pad_id = vocabulary[pad]
        self.eos_id = vocabulary[self._eos]
        self.unk_id = self._target_vocabulary[self._unk]
        self.vocab_size = max(vocabulary.values()) + 1
        self.target_vocab_size = max(self._pieces) + 1
        # Longest first, the order in which Hugging Face's trie matches them.
        self._is_special = re.compile('|'.join(re.escape(s) for s in sorted(self._specials, key=len, reverse=True)))

    @classmethod
    def load(cls, folder: Path) -> 'MarianTokenizer':
        """The tokenizer in a folder that `save_pretrained` or `save` wrote."""
        needed = (SOURCE_FILE, TARGET_FILE, VOCABULARY_FILE)
        missing = [name for name in needed if not (folder / name).is_file()]
        if missing:
            raise UserError(f'{folder} has no {", ".join(missing)}; expected the files of a Marian tokenizer')
        settings = read_object(folder / SETTINGS_FILE) if (folder / SETTINGS_FILE).is_file() else {}
        _check_settings(folder / SETTINGS_FILE, settings)
        vocabulary = read_vocabulary(folder / VOCABULARY_FILE)
        target_vocabulary = None
        if settings.get('separate_vocabs'):
            target_vocabulary = read_vocabulary(folder / TARGET_VOCABULARY_FILE)
        vocabularies = {SOURCE_FILE: vocabulary, TARGET_FILE: target_vocabulary or vocabulary}
        models = [_read_model(folder / name, ids) for name, ids in vocabularies.items()]
        return cls(*models, vocabulary, target_vocabulary, settings)

    def save(self, folder: Path) -> None:
        self.write(folder)
        write_files(folder, {DESCRIPTION_FILE: {'kind': 'marian', 'vocab_size': self.vocab_size}})

    def write(self, folder: Path) -> None:
        files = dict(zip((SOURCE_FILE, TARGET_FILE), self._models, strict=True))
        files |= {VOCABULARY_FILE: self._vocabulary, SETTINGS_FILE: self.settings}
        if self._target_vocabulary is not self._vocabulary:
            files[TARGET_VOCABULARY_FILE] = self._target_vocabulary
        write_files(folder, files)

    def portable(self) -> Portable:
        """The tokenizer for other programs: special pieces in a line are text, and spaces stay as they are."""
        ids = {piece: id_ for piece, id_ in self._vocabulary.items() if piece not in self._specials}
        pieces = (self._pieces.get(id_, '') for id_ in range(self.target_vocab_size))
        return Portable(*self._models, ids, ['' if piece in self._specials else piece for piece in pieces])

    @cached_property
    def languages(self) -> dict[str, int]:
        tags = {piece: id_ for piece, id_ in self._vocabulary.items() if re.fullmatch('>>.+<<', piece)}
        return {piece[2:-2]: id_ for piece, id_ in tags.items()}

    def piece(self, token_id: int) -> str:
        return self._pieces.get(int(token_id), self._unk)

    def source_piece(self, token_id: int) -> str:
        return self._source_pieces.get(int(token_id), self._unk)

    def default_language(self, language: str) -> str | None:
        return None  # a line may begin with its own tag

    @cached_property
    def digest(self) -> str:
        parts = [*self._models, *(json.dumps(v).encode() for v in (self._vocabulary, self._target_vocabulary))]
        return hashlib.sha256(b''.join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def fewer(self, lines: Sequence[str], languages: Sequence[str]) -> Self:
        if self._target_vocabulary is not self._vocabulary:
            raise UserError('trim: not for a Marian model whose source and target have a vocabulary each')
        texts = [text for line in lines for text, is_piece in self._parse(line) if not is_piece]
        cut = [with_pieces(model, used_pieces(model, texts)) for model in self._models]
        kept = {*self._specials, *(f'>>{code}<<' for code in languages)}.union(*(pieces for _, pieces in cut))
        pieces = (piece for _, piece in sorted(self._source_pieces.items()) if piece in kept)
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
        return type(self)(*(model for model, _ in cut), vocabulary, None, self.settings)

    def has_piece_for(self, character: str) -> bool:
        return self._vocabulary[self._unk] not in self.encode([character])[0]

    def tag_id(self, language: str | None) -> int | None:
        if language is None or language in self.languages:
            return self.languages.get(language)
        if not self.languages:
            raise NoLanguages(f'target_language={language!r}: this model has no language tags')
        return self.languages[known_language('target_language', language, self.languages)]

    def encode(self, lines: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        tag = self.tag_id(target_language)
        ids = self._encode(lines, self._source, self._vocabulary)
        return ids if tag is None else [[tag, *line] for line in ids]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        return self._encode(lines, self._target, self._target_vocabulary)

    def _encode(
        self, lines: Sequence[str], processor: sentencepiece.SentencePieceProcessor, vocabulary: dict[str, int]
    ) -> list[list[int]]:
        parsed = [list(self._parse(line.encode('utf-8', 'replace').decode('utf-8'))) for line in lines]
        texts = [text for line in parsed for text, is_piece in line if not is_piece]
        encoded = iter(processor.encode(texts, out_type=str))
        unk_id = vocabulary[self._unk]
        ids = []
        for line in parsed:
            pieces = [piece for text, is_piece in line for piece in ([text] if is_piece else next(encoded))]
            ids.append([*(vocabulary.get(piece, unk_id) for piece in pieces), vocabulary[self._eos]])
        return ids

    def _parse(self, line: str) -> Iterable[tuple[str, bool]]:
        """The pieces that are spelled out in a line (True), and the text between them."""
        end = 0
        for match in [*self._is_special.finditer(line), None]:
            text = line[end : match.start() if match else None]
            if text.startswith('>>') and (close := text.find('<<')) != -1:
                yield text[: close + 2], True
                text = text[close + 2 :]
                yield text, False
            elif text:
                yield text, False
            if match:
                yield match[0], True
                end = match.end()

    def decode(self, ids: Sequence[int]) -> str:
        """One line of text, without special pieces, and without space at its ends.

        With `clean_up_tokenization_spaces`, English punctuation and contractions lose the space before them.
        """
        pieces = (self.piece(id_) for id_ in ids)
        text = _one_line(self._target.decode_pieces([piece for piece in pieces if piece not in self._specials]))
        if self.settings.get('clean_up_tokenization_spaces'):
            for spaced in _CLEANED:
                text = text.replace(spaced, spaced.strip())
        return text


class FairseqTokenizer(Tokenizer):
    """The tokenizers that transformers calls NllbTokenizer, M2M100Tokenizer and MBart50Tokenizer."""

    pad_id = 1
    eos_id = 2
    unk_id = 3
    tags_to_ban = ()  # an imported model bans what its own settings ban

    def __init__(
        self,
        model: bytes,
        vocabulary: dict[str, int] | None,
        settings: dict[str, Any],
        rows: int,
        handed_on: dict[str, bytes] | None = None,
    ) -> None:
        """Sources are in the settings' `src_lang`, or in English.

        Args:
          vocabulary: id by piece, of M2M-100; None: SentencePiece's ids + 1.
          rows: ids that the model has rows for; the last of them may have no piece.
          handed_on: transformers' files by name, written back unread.
        """
        self.settings = settings
        self._handed_on = handed_on or {}
        self.vocab_size = self.target_vocab_size = rows
        self._model = model
        self._vocabulary = vocabulary
        self._processor = processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
        ids = vocabulary
        if ids is None:
            ids = {piece: i for i, piece in enumerate([*_FIRST, *pieces[3:]])}
        self._ids = np.array([ids.get(piece, self.unk_id) for piece in pieces], np.int32)
        self._ids[processor.unk_id()] = self.unk_id
        self._pieces = {id_: piece for piece, id_ in ids.items()}
        self.languages = _languages(settings, len(ids))
        self._pieces |= {id_: code for code, id_ in self.languages.items()}
        self._text_ids = {id_: i for i, id_ in enumerate(self._ids.tolist()) if id_ > self.unk_id}
        self.source_language = known_language('src_lang', str(settings.get('src_lang') or 'en'), self.languages)

    @classmethod
    def load(cls, folder: Path, rows: int | None = None, kind: str = '') -> 'FairseqTokenizer':
        """The tokenizer in a folder that `save_pretrained` (with the model's `rows`) or `save` wrote.

        `kind` is its class in transformers, if tokenizer_config.json does not say.
        """
        settings = read_object(folder / SETTINGS_FILE)
        kind = str(settings.get('tokenizer_class', kind)).removesuffix('Fast')
        has_vocabulary = kind == 'M2M100Tokenizer'
        needed = [MODEL_FILE, VOCABULARY_FILE] if has_vocabulary else [MODEL_FILE]
        if rows and not has_vocabulary and not (folder / MODEL_FILE).is_file() and (folder / _JSON_FILE).is_file():
            needed = []  # transformers 5 saves no SentencePiece model
        faults = [f'{name} is missing' for name in needed if not (folder / name).is_file()]
        if kind not in LANGUAGES:
            faults.append(f'tokenizer_class={kind!r}: expected one of {", ".join(LANGUAGES)}')
        expected = {'sp_model_kwargs': [{}]}
        if has_vocabulary:
            expected |= {'language_codes': ['m2m100'], 'num_madeup_words': [_MADE_UP]}
        faults += unexpected(settings, expected)
        refuse_faults(f'{folder}: the tokenizer cannot be read:', faults)

        homes = {name: folder / (name if rows else own) for name, own in _HANDED_ON.items()}
        handed_on = {name: read_limited(home, LARGEST) for name, home in homes.items() if home.is_file()}
        rows = rows or read_object(folder / DESCRIPTION_FILE).get('vocab_size')
        if type(rows) is not int:
            raise UserError(f'{folder / DESCRIPTION_FILE} is damaged: vocab_size={rows!r}, expected a number')
        file = folder / (needed or [_JSON_FILE])[0]
        with naming_damage(file, 'copy it again'):
            if needed:
                model = read_model(file)
            else:
                model, settings['added_tokens_decoder'] = read_sentencepiece(file, first=(3, 0, 2))
            open_model(model)
        vocabulary = read_vocabulary(folder / VOCABULARY_FILE) if has_vocabulary else None
        if vocabulary is not None and [vocabulary.get(piece) for piece in _FIRST] != [0, 1, 2, 3]:
            raise UserError(f'{folder / VOCABULARY_FILE}: expected {", ".join(_FIRST)} as the ids 0 to 3')

        with naming_damage(folder / SETTINGS_FILE, 'copy it again'):
            tokenizer = cls(model, vocabulary, settings | {'tokenizer_class': kind}, rows, handed_on)
            last = max(tokenizer.languages.values())
            if min(tokenizer.languages.values()) <= cls.unk_id:
                raise ValueError('a language has the id of another token')
        if last >= rows:
            raise UserError(f'{folder}: the tokenizer has ids up to {last}, and the model {rows} rows')
        return tokenizer

    def save(self, folder: Path) -> None:
        handed_on = {_HANDED_ON[name]: content for name, content in self._handed_on.items()}
        description = {'kind': 'fairseq', 'vocab_size': self.vocab_size}
        write_files(folder, self._files | handed_on | {DESCRIPTION_FILE: description})

    def write(self, folder: Path) -> None:
        write_files(folder, self._files | self._handed_on)

    @property
    def _files(self) -> dict[str, Any]:
        files = {MODEL_FILE: self._model, SETTINGS_FILE: self._own_settings}
        return files if self._vocabulary is None else files | {VOCABULARY_FILE: self._vocabulary}

    @property
    def _own_settings(self) -> dict[str, Any]:
        return self.settings | {'src_lang': self.source_language}

    @cached_property
    def digest(self) -> str:
        parts = json.dumps([self._vocabulary, self._own_settings, self.vocab_size], sort_keys=True)
        return hashlib.sha256(self._model + parts.encode()).hexdigest()

    def reading(self, language: str) -> 'FairseqTokenizer':
        other = copy.copy(self)
        other.__dict__.pop('digest', None)
        other.source_language = known_language('source_language', language, self.languages)
        return other

    def tag_id(self, language: str | None) -> int | None:
        self.first_id(language)
        return None

    def first_id(self, language: str | None) -> int | None:
        if language is None:
            known = ', '.join(self.languages)
            raise UserError(
                f'target_language=None: give --to and one of {known}; to train, also set data.language_tags'
            )
        return self.languages[known_language('target_language', language, self.languages)]

    def default_language(self, language: str) -> str | None:
        return None if language == UNDETERMINED else language

    def portable(self) -> Portable:
        raise UserError('a tokenizer whose targets begin with the tag of their language is not portable')

    def piece(self, token_id: int) -> str:
        return self._pieces.get(int(token_id), _FIRST[self.unk_id])

    source_piece = piece

    def fewer(self, lines: Sequence[str], languages: Sequence[str]) -> Self:
        changed = with_pieces(self._model, used_pieces(self._model, lines))
        return self._with(*changed, [code for code in self.languages if code in languages])

    def more(self, language: str, lines: Sequence[str], count: int) -> tuple[Self, dict[str, Any]]:
        new = {piece.piece: piece for piece in learn_pieces(self._model, lines, count)}
        changed = with_pieces(self._model, range(len(self._ids)), new.values())
        codes = [*self.languages, language]
        return self._with(*changed, codes, new), {piece: parts for piece, _, parts in new.values()}

    def _with(self, model: bytes, pieces: list[str], codes: list[str], new: Iterable[str] = ()) -> Self:
        """With another SentencePiece model and these languages."""
        pieces = [*_FIRST, *pieces[3:]]
        vocabulary = None
        if self._vocabulary is not None:
            pieces = [*_FIRST, *(piece for piece in pieces[4:] if piece in self._vocabulary or piece in new)]
            vocabulary = {piece: i for i, piece in enumerate(pieces)}
        tokens = enumerate(codes, start=len(pieces))
        settings = {name: value for name, value in self.settings.items() if not name.endswith('_special_tokens')}
        settings['added_tokens_decoder'] = {str(id_): {'content': text, 'special': True} for id_, text in tokens}
        settings['src_lang'] = self.source_language if self.source_language in codes else codes[0]
        return type(self)(model, vocabulary, settings, len(pieces) + len(codes))

    def has_piece_for(self, character: str) -> bool:
        return self.unk_id not in self._encode([character])[0]

    def encode(self, lines: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        tag = self.languages[self.source_language]
        if self.settings.get('legacy_behaviour'):
            return [[*ids, self.eos_id, tag] for ids in self._encode(lines)]
        return [[tag, *ids, self.eos_id] for ids in self._encode(lines)]

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*ids, self.eos_id] for ids in self._encode(lines)]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        texts = [line.encode('utf-8', 'replace').decode('utf-8') for line in lines]
        return [self._ids[ids].tolist() for ids in self._processor.encode(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        known = [self._text_ids[id_] for id_ in map(int, ids) if id_ in self._text_ids]
        return _one_line(self._processor.decode(known))


def _languages(settings: dict[str, Any], first_id: int) -> dict[str, int]:
    """The ids of languages, which transformers lists among the added tokens, or else follow the pieces in order."""
    added = {_content(token).strip('_'): int(id_) for id_, token in settings.get('added_tokens_decoder', {}).items()}
    codes = LANGUAGES[settings['tokenizer_class']]
    numbered = {} if added.keys() & {*codes} else {code: first_id + i for i, code in enumerate(codes)}
    return numbered | {code: id_ for code, id_ in added.items() if not code.startswith('<')}


def _one_line(text: str) -> str:
    return text.replace('\u2581', ' ').replace('\n', ' ').strip()


def _content(token: Any) -> str:
    text = token['content'] if isinstance(token, dict) else token
    if not isinstance(text, str):
        raise ValueError(f'a special token is a {type(text).__name__}, expected text')
    return text


def read_vocabulary(file: Path) -> dict[str, int]:
    ids = read_object(file)
    numbers = list(ids.values())
    are_ids = all(type(number) is int and number >= 0 for number in numbers)
    if not numbers or not are_ids or len(set(numbers)) < len(numbers):
        raise UserError(f'{file}: expected a different id, at least 0, for each piece')
    try:
        ''.join(ids).encode()
    except UnicodeEncodeError as error:  # a lone half of a character, which JSON can write as \ud800
        raise UserError(f'{file}: got a piece that is no text ({error.reason}); copy the file again') from None
    return ids


def _check_settings(file: Path, settings: dict[str, Any]) -> None:
    known = {_content(settings.get(f'{name}_token', default)) for name, default in _SPECIALS}
    added = list((settings.get('added_tokens_decoder') or {}).values())
    strange = [entry for entry in added if any(entry.get(s) for s in ('lstrip', 'rstrip', 'single_word'))]
    for name in ('additional_special_tokens', 'extra_special_tokens'):
        added += settings.get(name) or []
    strange += [token for token in map(_content, added) if token not in known]
    faults = [f'added token {token!r}' for token in strange]
    faults += unexpected(settings, {'sp_model_kwargs': [{}], 'tokenizer_class': ['MarianTokenizer']})
    if faults:
        raise UserError(f'{file}: not supported: {"; ".join(faults)}')


def _read_model(file: Path, ids: dict[str, int]) -> bytes:
    with naming_damage(file, 'copy it again'):
        model = read_model(file)
        processor = open_model(model)
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size()) if not processor.is_control(i)]
    there = sum(piece in ids for piece in pieces)
    if there < len(pieces) / 2:
        raise UserError(
            f'{VOCABULARY_FILE} disagrees with {file.name}: it has {there} of its {len(pieces)} pieces; copy the files '
            f'of {file.parent} again'
        )
    return model
