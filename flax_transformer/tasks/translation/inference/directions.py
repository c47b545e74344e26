"""The pairs of languages that a run has learned, and which of them is asked for."""

from collections.abc import Sequence

from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.text.languages import UNDETERMINED, is_named, known_language
from flax_transformer.text.tokenizer import Tokenizer

Pairs = Sequence[tuple[str, str]]


def pairs_of(data: DataConfig, tokenizer: Tokenizer) -> Pairs:
    """Source and target of each corpus, the usual pair first; () if sources and targets may name any language."""
    if hasattr(tokenizer, 'source_language') or data.source_language == UNDETERMINED:
        return ()
    if tokenizer.languages and not data.language_tags:  # Marian's, imported
        return [(data.source_language, tag) for tag in tokenizer.languages]
    usual = data.source_language, data.target_language
    learned = dict.fromkeys(corpus.languages for corpus in data.corpora)
    return sorted(learned, key=lambda pair: pair != usual)


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
