"""The validation sets of a run, as text and as ids."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.sources import read_corpus
from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten, tokenize
from flax_transformer.tasks.translation.metrics import SPACED, ScoreTokens, score_tokens
from flax_transformer.text.tokenizer import Tokenizer


class ValidationSet(NamedTuple):
    """A validation set, as text and as ids."""

    name: str  # of its corpus in the mixture
    pairs: Pairs
    tokenized: TokenizedPairs
    target_language: str | None  # whose tag its sources begin with
    language: str | None = None  # of its targets
    tokens: ScoreTokens = SPACED  # what BLEU counts


def read_validation(
    data: DataConfig, corpus: CorpusConfig, tokenizer: Tokenizer, say: Callable[[str], None]
) -> ValidationSet:
    """The validation set of a corpus. Raises UserError if it has no pairs to evaluate on."""
    name, language = corpus.validation, data.tag_of(corpus)
    pairs = read_corpus(name, data, corpus.languages)
    say(f'{name}: {len(pairs):,} pairs {"-".join(corpus.languages)}')
    tokenized = tokenize(pairs, tokenizer, target_language=language)
    if not len(tokenized):
        raise UserError(
            f"each of the {len(pairs)} pairs of {name} has a blank side; repair it, or set --data.validation '' to "
            'train without validation'
        )
    tokens = score_tokens(corpus.target_language, data.bleu_tokenizer)
    return ValidationSet(corpus.name, pairs, tokenized, language, corpus.target_language, tokens)


def interleaved(sets: Sequence[ValidationSet], count: int) -> list[tuple[ValidationSet, int]]:
    """The first `count` sentences, taken from the sets in turn, each as its set and its index there."""
    longest = max((len(each.pairs) for each in sets), default=0)
    turns = [(each, i) for i in range(min(longest, count)) for each in sets if i < len(each.pairs)]
    return turns[:count]


def of_each_corpus(data: DataConfig, sets: Sequence[ValidationSet]) -> list[TokenizedPairs]:
    """The validation set of every corpus, empty if it has none, since the loss numbers corpora by their order."""
    known = {each.name: each.tokenized for each in sets}
    return [known.get(corpus.name, TokenizedPairs(flatten([]), flatten([]))) for corpus in data.corpora]
