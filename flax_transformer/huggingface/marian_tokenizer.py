"""The tokenizer of Marian models, which gives the ids of that in transformers.

It has two SentencePiece models and a vocabulary that maps pieces to ids: special pieces spelled out in a line count as
such, and a line may begin with its target language as `>>fr<<`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import sentencepiece

from flax_transformer.common.errors import NoLanguages, UserError
from flax_transformer.common.files import naming_damage
from flax_transformer.text.languages import known_language
from flax_transformer.text.sentencepiece_model import open_model, read_model
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, Portable, Tokenizer, write_files
from flax_transformer.text.vocabulary_change import used_pieces, with_pieces

from .settings import read_object, unexpected
from .tokenizer_files import SETTINGS_FILE, VOCABULARY_FILE, content_of, one_line, read_vocabulary

SOURCE_FILE = 'source.spm'
TARGET_FILE = 'target.spm'
TARGET_VOCABULARY_FILE = 'target_vocab.json'
_SPECIALS = (('pad', '<pad>'), ('eos', '</s>'), ('unk', '<unk>'))
_CLEANED = (' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", " 's", " 've", " 're")  # transformers' order


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
        self._specials = [content_of(settings.get(f'{name}_token', default)) for name, default in _SPECIALS]
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
        text = one_line(self._target.decode_pieces([piece for piece in pieces if piece not in self._specials]))
        if self.settings.get('clean_up_tokenization_spaces'):
            for spaced in _CLEANED:
                text = text.replace(spaced, spaced.strip())
        return text


def _check_settings(file: Path, settings: dict[str, Any]) -> None:
    known = {content_of(settings.get(f'{name}_token', default)) for name, default in _SPECIALS}
    added = list((settings.get('added_tokens_decoder') or {}).values())
    strange = [entry for entry in added if any(entry.get(s) for s in ('lstrip', 'rstrip', 'single_word'))]
    for name in ('additional_special_tokens', 'extra_special_tokens'):
        added += settings.get(name) or []
    strange += [token for token in map(content_of, added) if token not in known]
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
