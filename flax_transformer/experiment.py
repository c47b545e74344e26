"""The whole way of a training run: config -> tokenizer -> batches -> steps -> checkpoints."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import grain
import numpy as np

from flax_transformer.checkpoints import Checkpoints
from flax_transformer.config import Config
from flax_transformer.config_json import changed_fields
from flax_transformer.data import PackedBatches, Pairs, TokenizedPairs, loss_batches, read_corpus, tokenize
from flax_transformer.data.packing import Plan
from flax_transformer.errors import UserError
from flax_transformer.loading import LoadedRun, load_run
from flax_transformer.reporting import Reporter
from flax_transformer.run_directory import RunDirectory
from flax_transformer.tokenizer import Tokenizer
from flax_transformer.train_state import TrainState, count_parameters, init_state
from flax_transformer.training import Trainer, fit
from flax_transformer.translator import Translator


def train(config: Config, workdir: Path | str, *, init_from: Path | str | None = None) -> RunDirectory:
    """Trains the config's model into the run directory `workdir`, or goes on where the run there stopped.

    A new run may start from the parameters and the tokenizer of another, `init_from`, of the same model.

    Everything that the user can have got wrong raises UserError before the first step, and before anything is
    written where the run is new.
    """
    run = RunDirectory(workdir)
    run.check(config)
    trainer = Trainer(config)
    pairs = _read(config.data.train, config)
    start = None if init_from is None else _start(config, init_from)
    if run.has_tokenizer():
        tokenizer = run.read_tokenizer()
    else:
        tokenizer = start.tokenizer if start else train_tokenizer(config, pairs)
    _check_tokenizer(config, tokenizer)
    tokenized = tokenize(pairs, tokenizer, config.data.source_length, config.data.target_length)
    _say_what_is_left(tokenized, len(pairs), config)
    validation = _read_validation(config, tokenizer)

    run.open(config)
    if not run.has_tokenizer():
        run.write_tokenizer(tokenizer)
    run.note_environment(str(trainer.devices))

    state = trainer.devices.replicate(init_state(config, trainer.tx, params=start.params if start else None))
    batches = iter(
        grain.experimental.ThreadPrefetchIterDataset(_training_batches(config, tokenized), prefetch_buffer_size=2)
    )
    fingerprint = _fingerprint(tokenized)
    checkpoints = Checkpoints(run.checkpoints, keep_last=config.training.keep_last)
    try:
        if checkpoints.latest() is not None:
            state, position = checkpoints.restore(state)
            if position['data'] != fingerprint:
                raise UserError(
                    f'{config.data.train} is not what {run.path} was trained on so far; give another --workdir'
                )
            batches.set_state(position['batches'])
        first_step = int(state.step)
        if first_step >= config.training.steps:
            _say(f'{run.path} is trained already, to step {first_step}; raise --training.steps to go on')
            return run
        _say(
            f'{count_parameters(state.params):,} parameters on {trainer.devices}; '
            + (f'going on from step {first_step}' if first_step else f'{config.training.steps} steps')
        )
        with Reporter(run.path, steps=config.training.steps, first_step=first_step) as reporter:
            evaluate = _evaluator(trainer, tokenizer, validation, reporter)
            fit(
                state,
                batches,
                trainer,
                save=lambda state, metrics: checkpoints.save(
                    state, {'batches': batches.get_state(), 'data': fingerprint}, metrics
                ),
                reporter=reporter,
                evaluate=evaluate,
            )
    finally:
        batches.close()
        checkpoints.close()
    return run


def _start(config: Config, init_from: Path | str) -> LoadedRun:
    """What a new run starts from. Raises UserError where it is another model than the config's, field by field."""
    start = load_run(init_from)
    other = start.config
    changed = changed_fields(replace(config, model=other.model, tokenizer=other.tokenizer), config)
    # These change neither the parameters nor what they mean.
    free = ('dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate', 'dtype')
    refused = [
        f'  {name}: {theirs!r} there, {ours!r} here'
        for name, (theirs, ours) in changed.items()
        if name.partition('.')[2] not in free
    ]
    if refused:
        raise UserError(
            f'{init_from} holds another model or vocabulary:\n'
            + '\n'.join(refused)
            + '\nTake its values: its parameters fit no other, and its tokenizer comes along'
        )
    return start


def train_tokenizer(config: Config, pairs: Pairs) -> Tokenizer:
    """A joint tokenizer of both sides of the pairs."""
    settings = config.tokenizer
    chosen = np.linspace(0, len(pairs) - 1, min(len(pairs), settings.max_sentences)).astype(int)
    return Tokenizer.train(
        [side[i] for side in (pairs.sources, pairs.targets) for i in chosen],
        vocab_size=config.model.vocab_size,
        algorithm=settings.algorithm,
        normalization=settings.normalization,
        byte_fallback=settings.byte_fallback,
        character_coverage=settings.character_coverage,
        pad_id=config.model.pad_id,
        eos_id=config.model.eos_id,
        unk_id=settings.unk_id,
    )


def _read(name: str, config: Config) -> Pairs:
    pairs = read_corpus(name, config.data)
    _say(f'{name}: {len(pairs):,} pairs {config.data.source_language}-{config.data.target_language}')
    return pairs


def _check_tokenizer(config: Config, tokenizer: Tokenizer) -> None:
    for name in ('vocab_size', 'pad_id', 'eos_id'):
        got, expected = getattr(tokenizer, name), getattr(config.model, name)
        if got != expected:
            raise UserError(f'model.{name}={expected}, but the tokenizer has {name} {got}; set --model.{name} {got}')
    got, expected = tokenizer.target_vocab_size, config.model.vocab_size_of_target
    if got != expected:
        raise UserError(f'model.target_vocab_size: {expected} pieces, but the tokenizer has {got} on the target side')


def _say_what_is_left(tokenized: TokenizedPairs, total: int, config: Config) -> None:
    slots = f'{config.data.source_length} source or {config.data.target_length} target tokens'
    if not len(tokenized):
        raise UserError(
            f'no pair of {config.data.train} is left to train on: {tokenized.num_blank} have a blank side, '
            f'{tokenized.num_too_long} are longer than {slots}; raise data.source_length and data.target_length'
        )
    _say(f'{len(tokenized):,} of {total:,} pairs are trained on, {tokenized.target.offsets[-1]:,} target tokens')
    if tokenized.num_blank:
        _say(f'left out: {tokenized.num_blank:,} pairs with a blank side')
    if tokenized.num_too_long:
        _say(f'left out: {tokenized.num_too_long:,} pairs of more than {slots}')


class Validation(NamedTuple):
    """The validation set, as text and as ids."""

    pairs: Pairs
    tokenized: TokenizedPairs


def _read_validation(config: Config, tokenizer: Tokenizer) -> Validation | None:
    """The validation set, checked: a fault in it must not wait for the first evaluation."""
    if not config.data.validation:
        return None
    pairs = _read(config.data.validation, config)
    tokenized = tokenize(pairs, tokenizer)
    if not len(tokenized):
        raise UserError(
            f'each of the {len(pairs)} pairs of {config.data.validation} has a blank side; mend it, or set '
            "--data.validation '' to train without validation"
        )
    loss_batches(tokenized, config)
    return Validation(pairs, tokenized)


def _training_batches(config: Config, tokenized: TokenizedPairs) -> PackedBatches:
    slots = {'source_slots': config.data.source_length, 'target_slots': config.data.target_length}
    plan = Plan(
        tokenized.source.lengths,
        tokenized.target.lengths,
        **slots,
        block_size=config.data.block_size,
        seed=config.seed,
    )
    return PackedBatches(tokenized, plan, num_rows=config.rows_per_step, **slots, pad_id=config.model.pad_id)


def _fingerprint(tokenized: TokenizedPairs) -> str:
    """Of the ids that are trained on: the data position means nothing on others."""
    digest = hashlib.sha256()
    for side in (tokenized.source, tokenized.target):
        digest.update(side.ids.tobytes())
        digest.update(side.offsets.tobytes())
    return digest.hexdigest()


def _evaluator(
    trainer: Trainer, tokenizer: Tokenizer, validation: Validation | None, reporter: Reporter
) -> Callable[[TrainState], dict[str, float]]:
    """A function that measures the loss of a state on the validation set, and shows a few translations."""
    if validation is None:
        return lambda state: {}
    config = trainer.config
    translator = Translator(config.model, None, tokenizer, config.decoding)
    sources = validation.pairs.sources[: config.training.sample_translations]

    def evaluate(state: TrainState) -> dict[str, float]:
        params: Any = state.params_to_keep
        batches = loss_batches(validation.tokenized, config, multiple_of=len(trainer.devices))
        metrics = trainer.evaluate(params, batches)
        translations = translator.with_params(trainer.devices.gather(params))(sources) if sources else []
        for source, target, translation in zip(sources, validation.pairs.targets, translations, strict=False):
            reporter.say(f'  source       {source}')
            reporter.say(f'  reference    {target}')
            reporter.say(f'  translation  {translation.text}')
        return metrics

    return evaluate


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
