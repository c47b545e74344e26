"""Text to ids for classifiers: words, or SentencePiece's pieces."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.tasks.classification.config import VocabularyConfig
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, kind_of

PAD_ID, UNK_ID = 0, 1
_FIRST_WORD = 2  # ids below are pad's and unk's
_WORDS_FILE, _LOWER_CASE = 'words.txt', 'lower_case.json'


class Vocabulary:
    """The words, or pieces, that a classifier knows; `encode` gives the ids of texts."""

    def __init__(self, source: Sequence[str] | SentencePieceTokenizer, *, lower_case: bool) -> None:
        self._source, self._lower_case = source, lower_case
        if not isinstance(source, SentencePieceTokenizer):
            self._ids = {word: number for number, word in enumerate(source, start=_FIRST_WORD)}
            self._longest = 1 + max((word.count(' ') for word in source), default=0)

    @classmethod
    def learn(cls, texts: Iterable[str], config: VocabularyConfig, size: int) -> 'Vocabulary':
        """The vocabulary of texts: the most frequent words and n-grams, at most `size` with pad and unk; or pieces."""
        texts = [text.lower() if config.lower_case else text for text in texts]
        if config.algorithm != 'words':
            made = SentencePieceTokenizer.train(
                texts, vocab_size=size, algorithm=config.algorithm, pad_id=PAD_ID, unk_id=UNK_ID, eos_id=2
            )
            return cls(made, lower_case=config.lower_case)
        counts = Counter(word for text in texts for word in _ngrams(text.split(), config.ngrams))
        words = sorted(counts, key=lambda word: (-counts[word], word))
        words = [word for word in words if counts[word] >= config.min_count][: size - _FIRST_WORD]
        return cls(words, lower_case=config.lower_case)

    @property
    def size(self) -> int:
        source = self._source
        return source.vocab_size if isinstance(source, SentencePieceTokenizer) else len(source) + _FIRST_WORD

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides the ids."""
        source = self._source
        content = source.digest if isinstance(source, SentencePieceTokenizer) else '\n'.join(source)
        return hashlib.sha256(f'{self._lower_case}\n{content}'.encode()).hexdigest()

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text; none for one without a word. An n-gram that is not in the vocabulary has none."""
        texts = [text.lower() if self._lower_case else text for text in texts]
        if isinstance(self._source, SentencePieceTokenizer):
            ids = self._source.encode(texts)
            return [each[:-1] if text.strip() else [] for each, text in zip(ids, texts, strict=True)]  # without EOS
        ids = (
            (self._ids.get(word) or (None if ' ' in word else UNK_ID) for word in self._split(text)) for text in texts
        )
        return [[i for i in text if i is not None] for text in ids]

    def _split(self, text: str) -> list[str]:
        return _ngrams(text.split(), self._longest)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words or pieces of ids as a classifier sees them: all that it does not know is `<unk>`."""
        source = self._source
        if isinstance(source, SentencePieceTokenizer):
            return [source.piece(i) for i in ids]
        return [('<pad>', '<unk>')[i] if i < _FIRST_WORD else source[i - _FIRST_WORD] for i in ids]

    def save(self, folder: Path) -> None:
        """Writes the vocabulary into a folder, its description last."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _LOWER_CASE, json.dumps(self._lower_case) + '\n')
        if isinstance(self._source, SentencePieceTokenizer):
            self._source.save(folder)
            return
        write_whole(folder / _WORDS_FILE, ''.join(f'{word}\n' for word in self._source))
        description = {'kind': 'words', 'vocab_size': self.size, 'sha256': self.digest}
        write_whole(folder / DESCRIPTION_FILE, json.dumps(description, indent=2) + '\n')


def _ngrams(words: list[str], longest: int) -> list[str]:
    """The words, each followed by the n-grams that end with it: a, b, 'a b', c, 'b c', 'a b c' for longest = 3."""
    if longest == 1:
        return words
    ends = range(1, len(words) + 1)
    return [' '.join(words[end - n : end]) for end in ends for n in range(1, min(longest, end) + 1)]


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary that `save` wrote. Raises UserError if a file is missing or damaged."""
    kind = kind_of(folder)
    try:
        lower_case = parse_json(read_limited(folder / _LOWER_CASE)) is True
        if kind != 'words':
            return Vocabulary(SentencePieceTokenizer.load(folder), lower_case=lower_case)
        words = read_limited(folder / _WORDS_FILE, most=1 << 30).decode('utf-8').split('\n')[:-1]
        expected = parse_json(read_limited(folder / DESCRIPTION_FILE)).get('sha256')
    except FileNotFoundError as error:
        raise UserError(f'{error.filename} is missing: a run directory keeps its vocabulary there') from None
    except UserError:
        raise
    except (ValueError, AttributeError):
        expected = None
    if expected is not None:
        vocabulary = Vocabulary(words, lower_case=lower_case)
        if vocabulary.digest == expected:
            return vocabulary
    raise UserError(f'{folder} holds a damaged vocabulary; copy it from the run again')
