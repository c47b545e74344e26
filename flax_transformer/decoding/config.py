"""How to search for translations."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from flax_transformer.common.errors import nearest
from flax_transformer.common.fields import check, check_positive, check_range, check_types


@dataclass(frozen=True)
class DecodingConfig:
    """How to search; the defaults are those of section 6.1 of the paper."""

    beam_width: int = 4  # hypotheses kept at each step; 1: greedy
    length_penalty: Literal['gnmt', 'power', 'none'] = 'gnmt'  # gnmt: ((5 + length) / 6)^alpha; power: length^alpha
    alpha: float = 0.6  # exponent of the length penalty; length includes EOS
    max_extra_tokens: int = 50  # a translation has at most its source's tokens + this many, EOS included
    max_source_tokens: int = 256  # a longer line is split and rejoined; best no longer than a row in training
    batch_tokens: int = 4096  # source slots of a batch; bounds memory; in float32 it does not change translations
    buckets: tuple[int, ...] = (16, 32, 64, 128, 256)  # source slots of a batch; fewer: fewer programs to compile
    # The matrices; int8 is faster on CPUs and slightly different. auto: int8 on CPUs with units for it, but so that no
    # batch changes a translation; else float32
    weights: Literal['float32', 'int8', 'auto'] = 'float32'
    target_language: str | None = None  # to translate into, if the model knows several; None: as it was trained
    source_language: str | None = None  # to translate from, likewise; of a pair, one follows from the other
    max_tokens: int | None = None  # instead of source + max_extra_tokens: one limit for every line, EOS included
    min_tokens: int = 1  # the least, EOS included
    force_eos: bool = False  # make the last token within the limit EOS, at no cost, as in Hugging Face
    ban_unk: bool = True  # never choose the unknown piece
    ban_pad: bool = True  # never choose padding
    renormalize: bool = False  # make probabilities sum to 1 again after bans
    banned_ids: tuple[int, ...] = ()  # more pieces that are never chosen, by id
    banned_texts: tuple[str, ...] = ()  # words or phrases never to produce, as the tokenizer spells them
    no_repeat_ngram: int = 0  # no sequence of this many tokens occurs twice; 0: off
    word_reward: float = 0.0  # nats added to the score for each token
    coverage_penalty: float = 0.0  # beta of Wu et al. 2016, eq. 14: penalizes unattended source; 0: off
    groups: int = 1  # diverse beam search (Vijayakumar et al. 2018): groups share beam_width equally
    diversity: float = 0.5  # nats subtracted from tokens that earlier groups have just chosen
    n_best: int = 1  # translations returned for each line, best first
    search: Literal['beam', 'sample'] = 'beam'  # sample: draw at random instead of searching for the best
    samples: int = 1  # draws for each line
    temperature: float = 1.0  # sampling: below 1 favors the most probable pieces
    top_k: int = 0  # sample among this many most probable pieces; 0: among all
    top_p: float = 1.0  # sample among the fewest pieces with this much total probability; 1: among all
    min_p: float = 0.0  # sample among pieces at least this much as probable as the most probable one; 0: among all
    seed: int = 0  # sampling: the same line and seed give the same draws in any batch
    mbr: Literal['none', 'bleu', 'chrf'] = 'none'  # choose the hypothesis most like the others (Kumar and Byrne 2004)
    # Target languages; the hypothesis that the model also translates back best is taken, if it can translate back.
    noisy_channel: tuple[str, ...] = ()
    # If the best translation repeats itself or copies its source, the next one that does not is taken.
    pass_over: Literal['nothing', 'loops', 'loops_and_copies'] = 'loops'
    ensemble: Literal['log_probability', 'probability'] = 'log_probability'  # mean of several models' predictions
    split_sentences: bool = False  # translate each line sentence by sentence, keeping white space
    # Numbers, addresses and what else is no language come out as they are; or so, but numbers with the target's
    # separators; or as the model translates them. `ignored` leaves capitals and unseen names to it, too.
    literals: Literal['kept', 'localized', 'translated', 'ignored'] = 'kept'

    def __post_init__(self) -> None:
        check_types(self)
        counts = ('beam_width', 'max_extra_tokens', 'batch_tokens', 'min_tokens', 'groups', 'n_best', 'samples')
        check_positive(self, *counts)
        names = ('no_repeat_ngram', 'top_k', 'seed', 'word_reward', 'coverage_penalty', 'diversity', 'alpha')
        check_range(self, *names, least=0)

        check(
            bool(self.buckets) and self.buckets[0] >= 1 and sorted({*self.buckets}) == [*self.buckets],
            f'buckets={self.buckets}: expected one or more numbers of slots, ascending',
        )
        check_range(self, 'max_source_tokens', least=8)
        check_range(self, 'max_tokens', least=1)
        check(all(i >= 0 for i in self.banned_ids), f'banned_ids={self.banned_ids}: expected ids of at least 0')

        # Less would overflow float32: log-probabilities are divided by it.
        check(self.temperature >= 1e-9, f"temperature={self.temperature}: expected at least 1e-9; or search='beam'")
        check_range(self, 'top_p', above=0, most=1)
        check_range(self, 'min_p', least=0, below=1)
        check(self.seed < 2**31, f'seed={self.seed}: expected at most {2**31 - 1}')

        check(
            self.beam_width % self.groups == 0, f'beam_width={self.beam_width} is not divisible by groups={self.groups}'
        )
        where = 'samples' if self.search == 'sample' else 'beam_width'
        check(
            self.n_best <= self.num_candidates,
            f'n_best={self.n_best}: expected at most {where}={self.num_candidates}; set {where} to {self.n_best} '
            f'(--decoding.{where.replace("_", "-")} {self.n_best})',
        )
        check(
            self.mbr == 'none' or self.num_candidates > 1,
            f'mbr={self.mbr!r} compares several translations: expected {where} of at least 2, got 1',
        )

    @property
    def num_candidates(self) -> int:
        """Hypotheses per sentence that a search returns."""
        return self.samples if self.search == 'sample' else self.beam_width


def override(decoding: DecodingConfig, fields: dict[str, Any]) -> DecodingConfig:
    """The settings with other values of some fields. Raises TypeError, with the nearest, for one that it lacks."""
    known = [field.name for field in dataclasses.fields(decoding)]
    for name in fields:
        if name not in known:
            raise TypeError(f'{name!r} is no field of DecodingConfig.{nearest(name, known)} It has {", ".join(known)}')
    return dataclasses.replace(decoding, **fields)
