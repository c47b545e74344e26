"""The pairs of languages that a run has learned, and which of them is asked for."""

from collections.abc import Sequence

from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.text.languages import UNDETERMINED, is_named, known_language, two_letters
from flax_transformer.text.tokenizer import Tokenizer

Pairs = Sequence[tuple[str, str]]
_SURE = 0.95  # confidence in the language of a few words; names look like this or that


def pairs_of(data: DataConfig, tokenizer: Tokenizer) -> Pairs:
    """Source and target of each corpus, the usual pair first; () if sources and targets may name any language."""
    if hasattr(tokenizer, 'source_language') or data.source_language == UNDETERMINED:
        return ()
    if tokenizer.languages and not data.language_tags:  # Marian's, imported
        return [(data.source_language, tag) for tag in tokenizer.languages]
    usual = data.source_language, data.target_language
    learned = dict.fromkeys(corpus.languages for corpus in data.corpora)
    return sorted(learned, key=lambda pair: pair != usual)


def goes_both_ways(pairs: Pairs) -> bool:
    """Whether the pairs are two languages, translated both ways."""
    return len(pairs) == 2 and tuple(pairs[0]) == tuple(pairs[1][::-1]) and all(map(is_named, pairs[0]))


def pair_for(text: str, pairs: Pairs) -> tuple[str, str] | None:
    """The pair of two languages to translate a text by; None if it is not surely in one of them."""
    from flax_transformer.data.audit.language import CERTAIN, FEWEST_LETTERS, identifier_of  # slow to import

    language, confidence = identifier_of(pairs[0]).classify(text)
    fitting = [pair for pair in pairs if two_letters(pair[0]) == language]
    least = CERTAIN if sum(map(str.isalpha, text)) >= FEWEST_LETTERS else _SURE
    return fitting[0] if fitting and confidence > least else None


def direction(pairs: Pairs, source: str | None, target: str | None) -> tuple[str | None, str | None]:
    """The source and target that are meant; a language that is not asked for follows from the other one.

    Two languages that were not learned as a pair are allowed. Raises UserError for one that was not learned at all.
    """
    if not pairs or (source is None and target is None):
        return source, target
    sources, targets = map(dict.fromkeys, zip(*pairs, strict=True))
    # Corpora may name their sides otherwise, such as `src`; then any language may say what the sources are in.
    if source is not None and any(is_named(code) for code in sources):
        source = known_language('source_language', source, sources)
    if target is not None:
        target = known_language('target_language', target, targets)
    fitting = [pair for pair in pairs if source in (None, pair[0]) and target in (None, pair[1])]
    return fitting[0] if fitting else (source, target or pairs[0][1])
