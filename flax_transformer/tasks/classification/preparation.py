"""Preparation of a training run: the labels, the vocabulary, the texts as ids."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.vector_files import PretrainedRows, pretrained_rows, with_pretrained
from flax_transformer.engine.devices.multihost import say
from flax_transformer.engine.runs.finished import steps_of

from .batches import EncodedTexts
from .config import ClassificationConfig
from .corpus_checks import CORPORA, audit, read_corpora
from .model import init_params
from .reading import Examples
from .run import Labels, LoadedRun, Run
from .vocabulary import PAD_ID, UNK_ID, Vocabulary, padded


class Prepared(NamedTuple):
    vocabulary: Vocabulary
    labels: Labels
    train: EncodedTexts
    validation: EncodedTexts | None
    pretrained: PretrainedRows | None = None  # initial embeddings of a new run


def prepare_run(
    config: ClassificationConfig, run: Run, start: LoadedRun | None = None, *, processes: int = 1
) -> Prepared:
    """Raises UserError for anything the user can fix."""
    corpora = read_corpora(config.data, CORPORA[:2] if run.is_prepared() else CORPORA)
    examples = corpora['train']
    if run.is_prepared():
        vocabulary = run.read_tokenizer()
        labels = run.read_labels()
    else:
        audit(corpora, config).announce(say)
        labels = labels_of(examples, config)
        if start is None:
            vocabulary = Vocabulary.learn(examples.texts, config.tokenizer, config.model.vocab_size)
        else:
            vocabulary = start.vocabulary
            if start.labels.names != labels.names:
                raise UserError(
                    f'the run to start from has the labels {", ".join(start.labels.names)}; the training data has '
                    f'{", ".join(labels.names)}: expected the same'
                )
    vocabulary.check_fits(config.model.vocab_size)
    texts = {name: encode(corpora[name], vocabulary, labels, config, name) for name in CORPORA[:2] if name in corpora}
    pretrained = None
    if config.model.embedding_from and start is None and not steps_of(run.checkpoints):
        pretrained = _pretrained(config, vocabulary)
    return Prepared(vocabulary, labels, texts['train'], texts.get('validation'), pretrained)


def keep(run: Run, config: ClassificationConfig, prepared: Prepared) -> None:
    if not run.is_prepared():
        run.write_tokenizer(prepared.vocabulary)
        run.write_labels(prepared.labels)


def initial_params(config: ClassificationConfig, prepared: Prepared) -> Any:
    """The parameters that training starts from; None where all are random."""
    if config.training.start == 'random' and prepared.pretrained is None:
        return None
    params = init_params(config.model, jax.random.key(config.seed))
    if prepared.pretrained is not None:
        embedding = params['encoder']['embedding']
        embedding['table'] = with_pretrained(embedding['table'], prepared.pretrained)
    if config.training.start == 'naive_bayes':
        params = with_naive_bayes(params, prepared.train, config.model.encoder)
    return params


def _pretrained(config: ClassificationConfig, vocabulary: Vocabulary) -> PretrainedRows:
    special = (PAD_ID, UNK_ID)
    tokens = [None if i in special else token for i, token in enumerate(vocabulary.tokens(range(vocabulary.size)))]
    return pretrained_rows(config.model.embedding_from, config.data.root, tokens, config.model.d_model, say=say)


def labels_of(examples: Examples, config: ClassificationConfig) -> Labels:
    """Raises UserError unless there are model.num_classes labels."""
    counts = Counter(examples.labels)
    names = sorted(counts)
    if len(names) != config.model.num_classes:
        shown = ', '.join(names[:10]) + (', ...' if len(names) > 10 else '')
        raise UserError(
            f'{config.data.train} has {len(names)} labels ({shown}), but model.num_classes='
            f'{config.model.num_classes}; set --model.num-classes {len(names)}'
        )
    return Labels(tuple(names), tuple(counts[name] for name in names))


def encode(
    examples: Examples, vocabulary: Vocabulary, labels: Labels, config: ClassificationConfig, name: str
) -> EncodedTexts:
    """The examples that are not empty. Raises UserError for a label that training does not know."""
    numbers = {name: number for number, name in enumerate(labels.names)}
    for label, place in zip(examples.labels, examples.places, strict=True):
        if label not in numbers:
            raise UserError(
                f'{place}: the label {label!r} is not in the training data; expected one of '
                f'{", ".join(labels.names)}.{nearest(label, labels.names)}'
            )

    ids = vocabulary.encode(examples.texts)
    chosen = [i for i, text in enumerate(ids) if text]
    slots = config.data.max_length
    count = len(examples.texts)
    too_long = sum(len(text) > slots for text in ids)

    source = getattr(config.data, name) or f'{config.data.train}, held out'
    say(f'{source}: {len(chosen):,} of {count:,} texts')
    if len(chosen) < count:
        say(f'  left out: {count - len(chosen):,} texts without a word')
    if too_long:
        say(f'  cut: {too_long:,} texts of more than data.max_length={slots} tokens')
    if not chosen:
        raise UserError(f'data.{name}: {source} has no text; expected some')

    known = np.array([numbers[examples.labels[i]] for i in chosen], np.int32)
    return EncodedTexts(
        padded([ids[i] for i in chosen], slots),
        known,
        class_weights(config.training.class_weights, labels)[known],
        [examples.places[i] for i in chosen],
    )


def class_weights(entries: Sequence[str], labels: Labels) -> np.ndarray:
    """The weight [C] float32 of each label's examples. Raises UserError for an unknown label."""
    if tuple(entries) == ('balanced',):
        return (np.mean(labels.counts) / np.array(labels.counts)).astype(np.float32)
    weights = np.ones(len(labels.names), np.float32)
    for entry in entries:
        label, _, weight = entry.rpartition('=')
        if label not in labels.names:
            raise UserError(
                f'training.class_weights: no label {label!r} in the training data; expected one of '
                f'{", ".join(labels.names)}.{nearest(label, labels.names)}'
            )
        weights[labels.names.index(label)] = float(weight)
    return weights


# Scales a mean of log-ratios to logits; naive Bayes itself would multiply it by the number of tokens.
CONFIDENCE = 8.0


def log_ratios(texts: EncodedTexts, vocab_size: int, num_classes: int) -> np.ndarray:
    """[V, C] float32: log p(token | label) minus its mean over the labels; 0 for a token that is in no text.

    A token counts once a text; add-one smoothed.
    """
    counts = np.zeros((num_classes, vocab_size))
    for row, label in zip(texts.tokens, texts.labels, strict=True):
        counts[label, np.unique(row)] += 1
    is_known = counts.sum(axis=0) > 0
    is_known[PAD_ID] = False
    logs = np.log(counts + 1) - np.log((counts + 1)[:, is_known].sum(axis=1, keepdims=True))
    return np.where(is_known, logs - logs.mean(axis=0), 0).T.astype(np.float32)


def with_naive_bayes(params: Any, texts: EncodedTexts, encoder: str) -> Any:
    """The log-ratios become the first values of each embedding, and the average a naive Bayes classifier."""
    params = jax.tree.map(np.array, jax.device_get(params))
    table = params['encoder']['embedding']['table']
    output = params['output']['kernel']
    num_classes = output.shape[1]
    table[:, :num_classes] = log_ratios(texts, len(table), num_classes)
    if encoder == 'average':
        output[:num_classes] = CONFIDENCE * np.eye(num_classes)
    return params
