"""Random segmentations from a SentencePiece model, the same for a seed in every process.

SentencePiece's own sampling differs between processes: a resumed run would see other segmentations than an
uninterrupted one. Pieces never span a space, so each word is sampled by itself.
"""

import heapq
import math
import random
import re
from functools import lru_cache

import sentencepiece

_SPACE = '\u2581'  # begins each word
_LONGEST_CACHED = 32  # characters; longer ones are not words


class Segmenter:
    """Samples segmentations from a processor's model."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        is_special = (processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused)
        normal = [i for i in range(processor.vocab_size()) if not any(is_one(i) for is_one in is_special)]
        self._ids = {processor.id_to_piece(i): i for i in normal}
        self._scores = {piece: processor.get_score(i) for piece, i in self._ids.items()}
        # BPE's scores are 0, -1, -2, ..., the order of the merges; unigram's are log-probabilities.
        self._is_bpe = all(score == int(score) for score in self._scores.values())
        self._longest = max(map(len, self._ids), default=1)
        self._unknown = min(self._scores.values(), default=0.0) - 10.0  # SentencePiece's penalty, log-probability
        words = not any(_SPACE in piece[1:] for piece in self._ids)
        self._words = re.compile(f'{_SPACE}[^{_SPACE}]*|[^{_SPACE}]+' if words else '.+', re.DOTALL)
        self._cached_ways = lru_cache(1 << 16)(self._ways)

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """Ids of one segmentation, without EOS.

        alpha: for BPE the rate of dropped merges (Provilkov et al. 2020, section 3.1), for unigram the power of the
        probabilities (Kudo 2018, section 3.2, with l = infinity).
        """
        drawn = random.Random(seed)
        ids: list[int] = []
        for word in self._words.findall(self._processor.normalize(line)):
            pieces = self._merged(word, alpha, drawn) if self._is_bpe else self._walked(word, alpha, drawn)
            for piece in pieces:
                ids += self._ids_of(piece, after=ids)
        return ids

    def _ids_of(self, piece: str, after: list[int]) -> list[int]:
        """The id of a piece; an unknown character gives its bytes, or one unk for all in a row."""
        if piece in self._ids:
            return [self._ids[piece]]
        first = self._processor.piece_to_id('<0x00>')
        if self._processor.is_byte(first):
            return [self._processor.piece_to_id(f'<0x{byte:02X}>') for byte in piece.encode()]
        unk = self._processor.unk_id()
        return [] if after and after[-1] == unk else [unk]

    def _merged(self, word: str, alpha: float, drawn: random.Random) -> list[str]:
        """BPE: the best adjacent pair is merged, again and again; each merge is dropped at a rate of alpha."""
        pieces: list[str | None] = list(word)
        before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
        agenda: list[tuple[float, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right < len(pieces) and (pair := pieces[left] + pieces[right]) in self._scores:
                heapq.heappush(agenda, (-self._scores[pair], left, pair))

        for left in range(len(word) - 1):
            consider(left, left + 1)
        while agenda:
            _, left, pair = heapq.heappop(agenda)
            right = after[left]
            if pieces[left] is None or right >= len(pieces) or pieces[left] + pieces[right] != pair:
                continue  # one of them has been merged already
            if drawn.random() < alpha:
                continue
            pieces[left], pieces[right] = pair, None
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [piece for piece in pieces if piece is not None]

    def _ways(self, word: str, alpha: float) -> list[list[tuple[int, float]]]:
        """For each end in the word (1, 2, ...), where the last piece can begin and how probable that is."""
        total = [0.0]  # log of the sum over all segmentations up to here
        ways = []
        for end in range(1, len(word) + 1):
            logs = []
            for begin in range(max(0, end - self._longest), end):
                score = self._scores.get(word[begin:end], self._unknown if end - begin == 1 else None)
                if score is not None:
                    logs.append((begin, total[begin] + alpha * score))
            most = max(log for _, log in logs)
            total.append(most + math.log(sum(math.exp(log - most) for _, log in logs)))
            ways.append([(begin, math.exp(log - total[end])) for begin, log in logs])
        return ways

    def _walked(self, word: str, alpha: float, drawn: random.Random) -> list[str]:
        """Unigram: pieces sampled from last to first, each by its share of the probability."""
        ways = (self._cached_ways if len(word) <= _LONGEST_CACHED else self._ways)(word, alpha)
        end, pieces = len(word), []
        while end:
            begins, shares = zip(*ways[end - 1], strict=True)
            (begin,) = drawn.choices(begins, shares)
            pieces.append(word[begin:end])
            end = begin
        return pieces[::-1]
