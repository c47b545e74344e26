"""How good a translator is: scores, the loss per target token, and whether the search or the model is at fault.

If the model scores the reference higher than what the search returned, the search missed it; else no search could have
helped. The reference is scored as the tokenizer spells it.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import aligned
from flax_transformer.data.bitext.batches import loss_batches
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.step import eval_step
from flax_transformer.engine.trainer import add_up
from flax_transformer.text.tokenizer import Tokenizer

from .config import Config
from .inference.translator import Translation, Translator
from .metrics import Scores, ScoreTokens, make_metrics, score, score_tokens
from .model import make_model
from .task import loss_sums, per_token

NEAR = 1e-5  # scores closer than this tie: two programs computed them, in float32


def evaluate_translation(
    translator: Translator,
    pairs: Pairs,
    *,
    tokens: ScoreTokens | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Scores, list[Translation]]:
    """The scores of the sources' translations against all references, and the translations.

    `tokens` are what BLEU counts; None: as sacreBLEU does in the translator's target language.
    """
    translations = translator(pairs.sources, progress=progress)
    scores = score(
        [translation.text for translation in translations],
        [pairs.targets, *pairs.references],
        sources=pairs.sources,
        num_truncated=sum(translation.truncated for translation in translations),
        tokens=tokens or score_tokens(translator.target_language),
    )
    return scores, translations


def compare_translators(translators: Mapping[str, Translator], pairs: Pairs) -> tuple[list[str], Scores]:
    """A table of translators, how far the last is from the first if there are several, and its scores."""
    rows = [['', 'BLEU', 'chrF', 'MB of weights', 'lines/s']]
    every = []
    for name, translator in translators.items():
        translator = translator.with_decoding(replace(translator.decoding, literals='ignored'))
        scores, _ = evaluate_translation(translator, pairs)
        every.append(scores)
        start = time.perf_counter()
        translator(pairs.sources)  # all is compiled
        rate = len(pairs) / (time.perf_counter() - start)
        megabytes = sum(leaf.nbytes for leaf in jax.tree.leaves(translator.weights)) / 1e6
        rows.append([name, f'{scores.bleu:.2f}', f'{scores.chrf:.2f}', f'{megabytes:,.1f}', f'{rate:,.1f}'])
    if len(every) > 1:
        gaps = scores.bleu - every[0].bleu, scores.chrf - every[0].chrf
        rows.append(['gap', *(f'{gap:+.2f}' for gap in gaps), '', ''])
    return aligned(rows), scores


def evaluate_ensemble_loss(translator: Translator, pairs: Pairs) -> dict[str, float]:
    """`evaluate_loss`, unsmoothed, under the mean of several models, but without targets' tags."""
    kept = [(s, t) for s, t in zip(pairs.sources, pairs.targets, strict=True) if s.strip() and t.strip()]
    scored = translator.score([source for source, _ in kept], [target for _, target in kept])
    num_given = 0 if translator.first_id is None else 1  # a target's tag is given, not predicted
    tokens = sum(target.num_tokens - num_given for target in scored)
    nll = -sum(target.log_prob for target in scored) / max(tokens, 1)
    return {'nll': nll, 'perplexity': math.exp(nll), 'target_tokens': float(tokens)}


def evaluate_loss(config: Config, params: Any, tokenizer: Tokenizer, pairs: Pairs) -> dict[str, float]:
    """Smoothed loss, unsmoothed negative log-likelihood and perplexity, per target token with EOS.

    Pairs with a blank side are left out.
    """
    tokenized = tokenize(pairs, tokenizer, target_language=config.decoding.target_language)
    if not len(tokenized):
        raise UserError(f'each of the {len(pairs)} pairs has a blank side; expected one without')

    devices = Devices(config.parallel)
    loss = partial(loss_sums, model=make_model(config.model), label_smoothing=config.training.label_smoothing)
    compiled = devices.compile(partial(eval_step, loss=loss))
    params = devices.put(params, devices.replicated)
    key = jax.random.key(0)
    rows = {'num_rows': config.rows_per_step, 'multiple_of': len(devices)}
    batches = loss_batches([tokenized], config.model, config.data, **rows)
    return per_token(add_up(compiled(params, devices.split(batch), key) for batch in batches))


@dataclass(frozen=True)
class Fault:
    """A line whose translation is not the reference."""

    source: str
    reference: str
    translation: str
    reference_score: float  # the model's, normalized as the search was
    translation_score: float
    is_of_search: bool


@dataclass(frozen=True)
class WidthReport:
    beam_width: int
    bleu: float
    length_ratio: float
    mean_score: float  # the translations'; a better search raises it
    num_right: int  # translations equal to the reference
    num_search_faults: int
    num_model_faults: int
    num_left_out: int  # lines that were split or are blank: nothing to compare
    faults: tuple[Fault, ...]
    bleu_signature: str = ''


def analyze(
    translator: Translator,
    pairs: Pairs,
    widths: Sequence[int] = (1, 2, 4, 8, 16),
    *,
    tokens: ScoreTokens | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[WidthReport]:
    """The faults at each beam width. Raises UserError for int8 weights."""
    if translator.decoding.weights == 'auto':
        translator = translator.with_decoding(replace(translator.decoding, weights='float32'))
    if translator.decoding.weights != 'float32':
        raise UserError(
            f"decoding.weights={translator.decoding.weights!r}: expected 'float32'; in int8 the scores that two "
            'programs give to one translation are too far apart'
        )
    bleu = make_metrics(tokens or score_tokens(translator.target_language))['bleu']
    references = translator.score(pairs.sources, pairs.targets)
    reports = []
    for width in widths:
        one = {'n_best': 1, 'groups': 1, 'mbr': 'none', 'search': 'beam', 'noisy_channel': (), 'literals': 'ignored'}
        decoding = replace(translator.decoding, beam_width=width, **one)
        translations = translator.with_decoding(decoding)(pairs.sources, progress=progress)
        reports.append(_report(width, pairs, translations, references, bleu))
    return reports


analyse = analyze


def _report(
    width: int, pairs: Pairs, translations: Sequence[Translation], references: Sequence[Translation], metric: Any
) -> WidthReport:
    faults = []
    num_right = 0
    for source, target, ours, theirs in zip(pairs.sources, pairs.targets, translations, references, strict=True):
        if ours.split or not source.strip():
            continue
        if ours.text == target:
            num_right += 1
        else:
            is_of_search = theirs.score > ours.score + NEAR
            faults.append(Fault(source, target, ours.text, theirs.score, ours.score, is_of_search))
    bleu = metric.corpus_score([t.text for t in translations], [pairs.targets])
    num_search_faults = sum(fault.is_of_search for fault in faults)
    return WidthReport(
        beam_width=width,
        bleu=bleu.score,
        bleu_signature=str(metric.get_signature()),
        length_ratio=bleu.sys_len / max(bleu.ref_len, 1),
        mean_score=sum(t.score for t in translations) / max(len(translations), 1),
        num_right=num_right,
        num_search_faults=num_search_faults,
        num_model_faults=len(faults) - num_search_faults,
        num_left_out=len(pairs) - num_right - len(faults),
        faults=tuple(faults),
    )


def recommendation(reports: Sequence[WidthReport]) -> str:
    """What to do about the faults of the width with the best BLEU, in sentences."""
    best = max(reports, key=lambda report: (round(report.bleu, 2), -report.beam_width))
    widest = max(reports, key=lambda report: report.beam_width)

    num_faults = best.num_search_faults + best.num_model_faults
    lines = [f'BLEU is best with beam width {best.beam_width}: {best.bleu:.2f}.']
    if not num_faults:
        return f'{lines[0]} There is no fault to fix.'

    share = best.num_search_faults / num_faults
    whose = f"There, {share:.1%} of {num_faults} faults are the search's: it missed a reference that scores better."
    lines.append(whose)
    if share >= 0.2 and best is widest:
        lines.append('Search wider: the beam loses what the model knows.')
    elif share >= 0.2:
        lines.append('A wider beam finds more, but a better score is not a better text: adjust the length penalty.')
    else:
        lines.append(
            'In the others the model prefers its own output: a wider beam cannot help; more data, a larger model or '
            'longer training can.'
        )

    if widest.bleu < best.bleu - 0.1 and widest.mean_score > best.mean_score:
        lines.append(
            f'With width {widest.beam_width} scores rise and BLEU falls to {widest.bleu:.2f} (length ratio '
            f'{widest.length_ratio:.3f}, from {best.length_ratio:.3f}): the model, not the search, is at fault there.'
        )
    return ' '.join(lines)


def table(reports: Sequence[WidthReport]) -> str:
    lines = ['beam    BLEU  length ratio  mean score   right  faults of the search  of the model']
    lines += [
        f'{report.beam_width:4}{report.bleu:8.2f}{report.length_ratio:14.3f}{report.mean_score:12.4f}'
        f'{report.num_right:8,}{report.num_search_faults:22,}{report.num_model_faults:14,}'
        for report in reports
    ]
    signatures = dict.fromkeys(report.bleu_signature for report in reports)
    return '\n'.join([*lines, *(f'  BLEU {signature}' for signature in signatures if signature)])
