"""Random segmentations from a SentencePiece model, the same for a seed in every process.

By SentencePiece's own sampling a resumed run would see other segmentations. Pieces never span a space, so each word is
sampled by itself; few words make up most of a text, so what becomes of a word is remembered.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain, count, pairwise

import numpy as np
import sentencepiece

_SPACE = '\u2581'  # begins each word
_LONGEST_CACHED = 32  # characters; longer ones are not words
_CACHED = 1 << 17  # segmentations, each in some 400 bytes


class Segmenter:
    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        special = (processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused)
        normal = [i for i in range(processor.vocab_size()) if not any(is_such(i) for is_such in special)]
        self._ids = {processor.id_to_piece(i): i for i in normal}
        self._scores = {piece: processor.get_score(i) for piece, i in self._ids.items()}
        # BPE's scores are 0, -1, -2, ..., the order of the merges; unigram's are log-probabilities.
        self._is_bpe = all(score == int(score) for score in self._scores.values())
        self._longest = max(map(len, self._ids), default=1)
        self._unknown = min(self._scores.values(), default=0.0) - 10.0  # SentencePiece's penalty, log-probability
        self._are_words_apart = not any(_SPACE in piece[1:] for piece in self._ids)
        self._unk = processor.unk_id()
        self._has_bytes = processor.is_byte(processor.piece_to_id('<0x00>'))
        best_first = sorted(self._ids, key=lambda piece: -self._scores[piece])
        self._ranks = {piece: rank for rank, piece in enumerate(best_first)}
        self._ids_by_rank = {rank: [self._ids[piece]] for piece, rank in self._ranks.items()}
        self._pairs = {
            (self._ranks[piece[:cut]], self._ranks[piece[cut:]]): rank
            for piece, rank in self._ranks.items()
            for cut in range(1, len(piece))
            if piece[:cut] in self._ranks and piece[cut:] in self._ranks
        }
        self._merge = lru_cache(_CACHED)(self._merged_word)
        self._cached_ways = lru_cache(_CACHED // 2)(self._ways)

    def sample(self, lines: Sequence[str], *, seeds: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """As `Tokenizer.sample_flat`, without EOS; for unigram with l = infinity (Kudo 2018, section 3.2).

        As in SentencePiece, BPE does not try a dropped merge again before a neighbor changes. Provilkov et al. 2020,
        algorithm 1, draw for all pairs anew before each merge, so that the same rate splits less.
        """
        words = [self._words_of(self._processor.normalize(line)) for line in lines]
        counts = np.fromiter(map(len, words), np.int64, len(words))
        ends = np.cumsum(counts)
        numbers = np.arange(counts.sum()) - np.repeat(ends - counts, counts)  # each word's number in its line
        keys = hashed(np.repeat(seeds, counts), numbers)
        sample = self._merged if self._is_bpe else self._walked
        sampled = sample(list(chain.from_iterable(words)), keys, alpha)
        lengths = np.fromiter(map(len, sampled), np.int64, len(sampled))
        ids = np.fromiter(chain.from_iterable(sampled), np.int32, int(lengths.sum()))

        lines_of = np.repeat(np.arange(len(words)), counts).repeat(lengths)
        # Unknown characters in a row, in several words too, become one unk.
        is_again = np.zeros(len(ids), bool)
        is_again[1:] = (ids[1:] == self._unk) & (ids[:-1] == self._unk) & (lines_of[1:] == lines_of[:-1])
        return ids[~is_again], np.bincount(lines_of[~is_again], minlength=len(words))

    def _words_of(self, line: str) -> list[str]:
        """Parts of a line that no piece spans."""
        if not self._are_words_apart:
            return [line] if line else []
        first, *others = line.split(_SPACE)
        words = [_SPACE + word for word in others]
        return [first, *words] if first else words

    def _merged(self, words: Sequence[str], keys: np.ndarray, alpha: float) -> list[tuple[int, ...]]:
        """BPE: the ids of each word. What is drawn is how many merges are kept until the next one is dropped."""
        most = 3 * max(map(len, words), default=0)  # n characters have n pairs at first, and 2 more after each merge
        kept = np.cumprod(np.full(most, 1 - alpha))  # the probabilities to keep 1, 2, ... merges
        dropped = [()] * len(words)  # the numbers of each word's dropped merges
        merged = [self._merge(word, ()) for word in words]

        left = np.arange(len(words))  # words of which another merge may be dropped
        begins = np.zeros(len(words), np.int64)
        for draw in count():
            next_dropped = begins + np.searchsorted(-kept, -uniform(hashed(keys[left], draw)))
            is_dropped = next_dropped < [merged[word][1] for word in left.tolist()]
            left = left[is_dropped]
            next_dropped = next_dropped[is_dropped]
            if not len(left):
                return [ids for ids, _ in merged]
            for word, merge in zip(left.tolist(), next_dropped.tolist(), strict=True):
                dropped[word] = (*dropped[word], merge)
                merged[word] = self._merge(words[word], dropped[word])
            begins = next_dropped + 1

    def _walked(self, words: Sequence[str], keys: np.ndarray, alpha: float) -> list[list[int]]:
        """Unigram: the ids of each word, its pieces sampled from last to first."""
        pieces: list[list[list[int]]] = [[] for _ in words]
        ways = [(self._cached_ways if len(word) <= _LONGEST_CACHED else self._ways)(word, alpha) for word in words]
        ends = np.fromiter(map(len, words), np.int64, len(words))
        left = np.arange(len(words))
        for draw in count():
            left = left[ends[left] > 0]
            if not len(left):
                return [list(chain.from_iterable(reversed(backward))) for backward in pieces]
            for word, share in zip(left.tolist(), uniform(hashed(keys[left], draw)).tolist(), strict=True):
                end = ends[word]
                begins, shares = ways[word][end - 1]
                ends[word] = begins[bisect(shares, share, hi=len(shares) - 1)]
                pieces[word].append(self._ids_of(words[word][ends[word] : end]))

    def _ids_of(self, piece: str) -> list[int]:
        if piece in self._ids:
            return [self._ids[piece]]
        if self._has_bytes:
            return [self._processor.piece_to_id(f'<0x{byte:02X}>') for byte in piece.encode()]
        return [self._unk]

    def _merged_word(self, word: str, dropped: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """BPE: a word's ids after all merges, best pair first, except those `dropped`; and how many merges came up."""
        pieces = [self._ranks.get(character, character) for character in word]
        merged = self._pairs.get
        none = len(self._ranks)
        pairs = [merged(pair, none) for pair in pairwise(pieces)]  # what each pair becomes
        considered = 0
        while pairs and (best := min(pairs)) < none:
            at = pairs.index(best)
            if considered in dropped:
                pairs[at] = none
            else:
                pieces[at : at + 2] = [best]
                del pairs[at]
                if at:
                    pairs[at - 1] = merged((pieces[at - 1], best), none)
                if at < len(pairs):
                    pairs[at] = merged((best, pieces[at + 1]), none)
            considered += 1

        ids = [i for piece in pieces for i in (self._ids_by_rank.get(piece) or self._ids_of(piece))]
        return tuple(ids), considered

    def _ways(self, word: str, alpha: float) -> list[tuple[list[int], list[float]]]:
        """For each end in the word (1, 2, ...): where its last piece can begin, and the cumulative probabilities."""
        total = [0.0]  # log of the sum over all segmentations up to here
        ways = []
        for end in range(1, len(word) + 1):
            begins = []
            logs = []
            for begin in range(max(0, end - self._longest), end):
                score = self._scores.get(word[begin:end], self._unknown if end - begin == 1 else None)
                if score is not None:
                    begins.append(begin)
                    logs.append(total[begin] + alpha * score)
            most = max(logs)
            total.append(most + math.log(sum(math.exp(log - most) for log in logs)))
            ways.append((begins, list(accumulate(math.exp(log - total[end]) for log in logs))))
        return ways


def hashed(*numbers: int | np.ndarray) -> np.ndarray:
    """64 bits [n] uint64 for each tuple of integers, arrays [n] or numbers common to all.

    Each number, modulo 2^64, goes through the finalizer of SplitMix64 (Steele et al. 2014), together with those before
    it. Not for secrets.
    """
    bits = np.zeros(1, np.uint64)  # an array, whose products overflow without a warning
    for number in numbers:
        bits = (bits ^ np.asarray(number).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ bits >> np.uint64(31)
    return bits


def uniform(bits: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1), multiples of 2^-53, from 64 bits each."""
    return (bits >> np.uint64(11)) * 2.0**-53
