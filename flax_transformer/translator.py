"""Lines of text in, translations out: the tokenizer, the jitted search, and the order kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flax_transformer.checkpoints import Checkpoints
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.decoding import Hypotheses
from flax_transformer.model import Transformer
from flax_transformer.run_directory import RunDirectory
from flax_transformer.search import output_slots, search
from flax_transformer.segments import is_blank, split_line
from flax_transformer.tokenizer import Tokenizer

_BUCKETS = (16, 32, 64, 128, 256)  # source slots; each is one compilation


@dataclass(frozen=True)
class Translation:
    """The best translation of one line."""

    text: str
    score: float  # log-probability / length penalty; of a split line the mean over its parts
    log_prob: float  # nats, summed over the tokens
    num_tokens: int  # EOS counted
    truncated: bool = False  # cut at its longest permitted length, before the model ended it
    split: bool = False  # the line was too long, and translated in parts


def translate_ids(
    params: Any,
    source: jax.Array,
    *,
    model: Transformer,
    decoding: DecodingConfig,
    banned: tuple[int, ...] = (),
) -> Hypotheses:
    """The best hypotheses of source ids [B, S], EOS last and pad_id behind: encoder and whole search, purely.

    Static shapes: L = S + max_extra_tokens output slots, or max_tokens. Each sentence ends, at the latest, its limit
    after its own source, so neither padding nor company changes its result. A row of padding alone yields
    nothing of use; its search is over after one token.
    """
    pad_id, eos_id = model.config.pad_id, model.config.eos_id
    variables = {'params': params}
    step = lambda tokens, state: model.apply(variables, tokens, state, method='decode')
    state = model.apply(variables, source, output_slots(decoding, source.shape[1]), method='start')
    return search(step, state, decoding, source, eos_id=eos_id, pad_id=pad_id, banned=banned)


class Translator:
    """`translator(lines)` translates lines of text. Compiles once for each length bucket and size of a batch."""

    def __init__(
        self, config: TransformerConfig, params: Any, tokenizer: Tokenizer, decoding: DecodingConfig | None = None
    ) -> None:
        self.model = Transformer(config)
        self.params = params
        self.tokenizer = tokenizer
        self.decoding = decoding or DecodingConfig()

    @classmethod
    def from_run(cls, path: Path | str, *, step: int | None = None, **decoding: Any) -> 'Translator':
        """The translator of a run directory: its best checkpoint by validation loss, or that of `step`, or the mean of
        the newest where training.average_last says so.

        `decoding` overrides fields of the run's DecodingConfig, such as beam_width=1.
        """
        run = RunDirectory(path)
        config = run.read_config()
        config = replace(config, decoding=replace(config.decoding, **decoding))
        shapes = jax.eval_shape(Transformer(config.model).init, jax.random.key(0), *[jnp.zeros((1, 1), jnp.int32)] * 2)
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes['params'])
        checkpoints = Checkpoints(run.checkpoints, read_only=True)
        if step is None and config.training.average_last > 1:
            params = checkpoints.restore_average(like, config.training.average_last)
        else:
            params, _ = checkpoints.restore_params(like, step)
        checkpoints.close()
        return cls(config.model, params, run.read_tokenizer(), config.decoding)

    @classmethod
    def from_marian(cls, folder: Path | str, **decoding: Any) -> 'Translator':
        """The translator of a Marian model in a folder as Hugging Face's save_pretrained writes it.

        `decoding` overrides fields of the search that the model's own settings ask for, such as beam_width=1.
        """
        from flax_transformer.interop.marian import read_marian

        marian = read_marian(folder)
        return cls(marian.config, marian.params, marian.tokenizer, replace(marian.decoding, **decoding))

    def with_params(self, params: Any) -> 'Translator':
        """The same translator, compilations included, with other parameters of the same shapes."""
        other = Translator(self.model.config, params, self.tokenizer, self.decoding)
        other.translate_ids = self.translate_ids
        return other

    @cached_property
    def translate_ids(self) -> Callable[[Any, jax.Array], Hypotheses]:
        """`translate_ids(params, source)`, jitted, with this translator's model and search."""
        banned = (self.tokenizer.unk_id,) if self.decoding.ban_unk else ()
        return jax.jit(partial(translate_ids, model=self.model, decoding=self.decoding, banned=banned))

    def __call__(self, lines: Sequence[str], *, progress: Callable[[int], None] | None = None) -> list[Translation]:
        """One translation for each line, in order; a blank one for a blank line, without asking the model.

        Args:
          lines: sentences, without line ends.
          progress: called with the number of sentences of each finished batch.
        """
        if isinstance(lines, str):
            raise TypeError('got one string, expected a list of lines: translator([line])')
        parts = [[] if is_blank(line) else self._parts(line) for line in lines]
        done = iter(self._translate_parts([part for line in parts for part in line], progress))
        return [_joined([next(done) for _ in line_parts]) for line_parts in parts]

    def _parts(self, line: str) -> list[list[int]]:
        """The ids of a line, or of its parts where it is longer than max_source_tokens."""
        count = lambda text: len(self.tokenizer.encode([text])[0])
        return self.tokenizer.encode(split_line(line, count, self.decoding.max_source_tokens))

    def _translate_parts(self, sources: list[list[int]], progress: Callable[[int], None] | None) -> list[Translation]:
        done: list[Translation | None] = [None] * len(sources)
        # Longest first: batches of one length waste least, and what needs most memory comes at once.
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        while order:
            slots = min(_bucket(len(sources[order[0]])), self.decoding.max_source_tokens)
            rows = _rows(len(order), max(1, self.decoding.batch_tokens // slots))
            chosen, order = order[:rows], order[rows:]
            batch = np.full((rows, slots), self.tokenizer.pad_id, np.int32)
            for row, i in enumerate(chosen):
                batch[row, : len(sources[i])] = sources[i]
            best = jax.tree.map(lambda x: np.asarray(x[:, 0]), self.translate_ids(self.params, batch))
            for row, i in enumerate(chosen):
                done[i] = self._translation(Hypotheses(*(x[row] for x in best)))
            if progress:
                progress(len(chosen))
        return done

    def _translation(self, best: Hypotheses) -> Translation:
        length = int(best.lengths)
        return Translation(
            text=self.tokenizer.decode(best.tokens[:length]),
            score=float(best.scores),
            log_prob=float(best.log_probs),
            num_tokens=length,
            truncated=not bool(best.is_finished),
        )


def _rows(left: int, full: int) -> int:
    """Rows of the next batch: a full one, or the smallest of 1, 8, 64 that holds what is left."""
    return next((rows for rows in (1, 8, 64) if left <= rows < full), full)


def _bucket(length: int) -> int:
    last = _BUCKETS[-1]
    return next((slots for slots in _BUCKETS if length <= slots), -(-length // last) * last)


def _joined(parts: list[Translation]) -> Translation:
    """The translation of a line from those of its parts; none: a blank line."""
    if len(parts) == 1:
        return parts[0]
    return Translation(
        text=' '.join(part.text for part in parts if part.text),
        score=float(np.mean([part.score for part in parts])) if parts else 0.0,
        log_prob=sum(part.log_prob for part in parts),
        num_tokens=sum(part.num_tokens for part in parts),
        truncated=any(part.truncated for part in parts),
        split=bool(parts),
    )
