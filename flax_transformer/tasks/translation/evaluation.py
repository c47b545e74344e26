"""How good a translator is: the scores of its translations, and the loss per target token."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.batches import loss_batches
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.engine.devices.devices import Devices
from flax_transformer.engine.step import eval_step
from flax_transformer.engine.trainer import add_up
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.inference.translator import Translation, Translator
from flax_transformer.tasks.translation.loss import loss_sums
from flax_transformer.tasks.translation.metrics import Scores, score
from flax_transformer.tasks.translation.model import make_model
from flax_transformer.tasks.translation.score_tokens import ScoreTokens, score_tokens
from flax_transformer.tasks.translation.task import per_token
from flax_transformer.text.tokenizer import Tokenizer


def evaluate_translation(
    translator: Translator,
    pairs: Pairs,
    *,
    more_references: Sequence[Sequence[str]] = (),
    tokens: ScoreTokens | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Scores, list[Translation]]:
    """The translator's translations of the sources, and their scores against all references.

    Args:
      more_references: besides those of the pairs.
      tokens: what BLEU counts; None: as sacreBLEU does in the translator's target language.
    """
    translations = translator(pairs.sources, progress=progress)
    truncated = sum(translation.truncated for translation in translations)
    references = [pairs.targets, *pairs.references, *more_references]
    texts = [translation.text for translation in translations]
    tokens = tokens or score_tokens(translator.target_language)
    scores = score(texts, references, sources=pairs.sources, num_truncated=truncated, tokens=tokens)
    return scores, translations


def evaluate_ensemble_loss(translator: Translator, pairs: Pairs) -> dict[str, float]:
    """Negative log-likelihood and perplexity of the models' mean, per target token with EOS.

    Pairs with a blank side are left out.
    """
    kept = [i for i in range(len(pairs)) if pairs.sources[i].strip() and pairs.targets[i].strip()]
    scored = translator.score([pairs.sources[i] for i in kept], [pairs.targets[i] for i in kept])
    tokens = sum(one.num_tokens for one in scored)
    nll = -sum(one.log_prob for one in scored) / max(tokens, 1)
    return {'nll': nll, 'perplexity': math.exp(nll), 'target_tokens': float(tokens)}


def evaluate_loss(config: Config, params: Any, tokenizer: Tokenizer, pairs: Pairs) -> dict[str, float]:
    """Smoothed loss, unsmoothed negative log-likelihood and perplexity, per target token with EOS.

    Only pairs with a blank side are left out. For a model with language tags, decoding.target_language is the target.
    """
    tokenized = tokenize(pairs, tokenizer, target_language=config.decoding.target_language)
    if not len(tokenized):
        raise UserError(f'each of the {len(pairs)} pairs has a blank side; expected at least one to evaluate on')
    devices = Devices(config.parallel)
    loss = partial(loss_sums, model=make_model(config.model), label_smoothing=config.training.label_smoothing)
    compiled = devices.compile(partial(eval_step, loss=loss))
    placed, key = devices.replicate(params), jax.random.key(0)
    batches = loss_batches(
        [tokenized], config.model, config.data, num_rows=config.rows_per_step, multiple_of=len(devices)
    )
    return per_token(add_up(compiled(placed, devices.split(batch), key) for batch in batches))
