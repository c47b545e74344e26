"""Calibrates a translator on pairs of sentences, and measures what its qualities are worth."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .inference.quality import Calibration
from .inference.result import Translation
from .inference.translator import Translator


def calibrate(
    translator: Translator,
    sets: Sequence[tuple[dict[str, str | None], Sequence[str], Sequence[str]]],
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """A calibration fitted to sets: decoding's languages, sources, references. Raises UserError for too few."""
    translations = []
    lengths = []
    references = []
    for languages, sources, targets in sets:
        named = {name: language for name, language in languages.items() if language}
        into = translator.with_decoding(replace(translator.decoding, **named, literals='ignored'))
        translations += into(sources, progress=progress)
        lengths += map(len, into.tokenizer.encode([*sources], target_language=into.decoding.target_language))
        references += targets
    return Calibration.fitted(translations, lengths, references)


def correlations(translations: Sequence[Translation], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Pearson's and Spearman's correlation of quality with sentence chrF, and those of the mean log-probability."""
    from sacrebleu.metrics import CHRF
    from scipy import stats

    metric = CHRF()
    kept = [(t, texts) for t, *texts in zip(translations, *references, strict=True) if t.quality is not None]
    chrf = [metric.sentence_score(t.text, [*filter(None, texts)]).score for t, texts in kept]
    columns = {'quality': [t.quality for t, _ in kept], 'log_prob': [t.log_prob / t.num_tokens for t, _ in kept]}
    if any(len({*values}) < 2 for values in (chrf, *columns.values())):
        return {}  # nothing to correlate
    measures = {'pearson': stats.pearsonr, 'spearman': stats.spearmanr}
    return {
        f'{how}_{name}': float(measure(values, chrf).statistic)
        for name, values in columns.items()
        for how, measure in measures.items()
    }
