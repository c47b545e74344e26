"""Scores that others believe: sacreBLEU with its signature, chrF, and the loss per target token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from flax_transformer.config import Config
from flax_transformer.data import Pairs, loss_batches, tokenize
from flax_transformer.errors import UserError
from flax_transformer.model import Transformer
from flax_transformer.parallel import Devices
from flax_transformer.tokenizer import Tokenizer
from flax_transformer.training import eval_step, loss_sums, mean_loss
from flax_transformer.translator import Translation, Translator


@dataclass(frozen=True)
class Scores:
    """How translations compare with their references, on detokenised text."""

    bleu: float  # sacreBLEU, 0 to 100; 0 where no line has the four words that it counts
    bleu_signature: str
    bleu_details: str  # n-gram precisions, brevity penalty, lengths
    chrf: float  # chrF2, 0 to 100
    chrf_signature: str
    exact: float  # share of lines equal to their reference, 0 to 1
    num_lines: int
    num_truncated: int
    has_four_words: bool  # whether any translation has 4-grams for BLEU to count

    def __str__(self) -> str:
        words = (
            '' if self.has_four_words else '\n  (no line has the four words that BLEU counts: look at the scores below)'
        )
        return (
            f'BLEU {self.bleu:.2f}  {self.bleu_details}{words}\n  {self.bleu_signature}\n'
            f'chrF {self.chrf:.2f}\n  {self.chrf_signature}\n'
            f'exactly as the reference: {self.exact:.1%} of {self.num_lines} lines; cut short: {self.num_truncated}'
        )


def score(translations: Sequence[str], references: Sequence[str], *, num_truncated: int = 0) -> Scores:
    """Scores of detokenised lines against one reference each. Raises ValueError for unequal numbers of lines."""
    from sacrebleu.metrics import BLEU, CHRF

    if len(translations) != len(references):
        raise ValueError(f'{len(translations)} translations, {len(references)} references; expected equal numbers')
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)])
    chrf_score = chrf.corpus_score(list(translations), [list(references)])
    same = sum(ours == theirs for ours, theirs in zip(translations, references, strict=True))
    return Scores(
        bleu=bleu_score.score,
        bleu_signature=str(bleu.get_signature()),
        bleu_details=bleu_score.format(score_only=False).partition('= ')[2].partition(' ')[2],
        chrf=chrf_score.score,
        chrf_signature=str(chrf.get_signature()),
        exact=same / max(len(references), 1),
        num_lines=len(references),
        num_truncated=num_truncated,
        has_four_words=bleu_score.totals[3] > 0,
    )


def evaluate_translation(
    translator: Translator, pairs: Pairs, *, progress: Callable[[int], None] | None = None
) -> tuple[Scores, list[Translation]]:
    """Scores of the translator's own translations of the sources against the targets, and those translations."""
    translations = translator(pairs.sources, progress=progress)
    truncated = sum(translation.truncated for translation in translations)
    return score([t.text for t in translations], pairs.targets, num_truncated=truncated), translations


def evaluate_loss(config: Config, params: Any, tokenizer: Tokenizer, pairs: Pairs) -> dict[str, float]:
    """Smoothed loss, unsmoothed negative log-likelihood and perplexity per target token, EOS counted; no pair left out
    but those with a blank side. The target language, of a model with tags, is decoding.target_language."""
    tokenized = tokenize(pairs, tokenizer, target_language=config.decoding.target_language)
    if not len(tokenized):
        raise UserError(f'each of the {len(pairs)} pairs has a blank side; expected at least one to evaluate on')
    devices = Devices(config.parallel)
    loss_fn = partial(loss_sums, model=Transformer(config.model), label_smoothing=config.training.label_smoothing)
    compiled = devices.compile(partial(eval_step, loss_fn=loss_fn))
    placed, key = devices.replicate(params), jax.random.key(0)
    batches = loss_batches([tokenized], config, multiple_of=len(devices))
    return mean_loss(compiled(placed, devices.split(batch), key) for batch in batches)
