"""The translator takes any Linen module that has `__call__`, `start` and `decode`; here a small GRU."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.common.trees import DecodeState
from flax_transformer.config import DecodingConfig
from flax_transformer.tasks.translation.inference.batch_runner import filled
from flax_transformer.tasks.translation.inference.ids import start_by_length
from flax_transformer.tasks.translation.inspection import attention_map
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

LINES = ['a b c', '', 'h g f e d c b a', 'd d', 'a']


class Recurrent(nn.Module):
    """A GRU over the target that starts from the mean of the source's embeddings; padding is 0."""

    vocab_size: int = 20
    width: int = 12

    def setup(self) -> None:
        self.table = nn.Embed(self.vocab_size, self.width, embedding_init=nn.initializers.normal(2.0))
        self.cell = nn.GRUCell(self.width)
        self.output = nn.Dense(self.vocab_size, kernel_init=nn.initializers.normal(2.0))

    def start(self, source: jax.Array) -> DecodeState:
        weights = (source != 0)[..., None] / jnp.maximum((source != 0).sum(axis=1), 1)[:, None, None]
        return DecodeState((self.table(source) * weights).sum(axis=1), (), jnp.int32(0))

    def decode(self, tokens: jax.Array, state: DecodeState) -> tuple[jax.Array, DecodeState]:
        hidden, _ = self.cell(state.cache, self.table(tokens))
        return self.output(hidden), state._replace(cache=hidden, position=state.position + 1)

    def __call__(self, source: jax.Array, target_in: jax.Array, *, deterministic: bool = True) -> jax.Array:
        state, logits = self.start(source), []
        for t in range(target_in.shape[1]):
            one, state = self.decode(target_in[:, t], state)
            logits.append(one)
        return jnp.stack(logits, axis=1)


@pytest.fixture(scope='module')
def translator() -> Translator:
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=20, byte_fallback=False)
    model = Recurrent()
    params = jax.jit(model.init)(jax.random.key(3), *[np.zeros((1, 1), np.int32)] * 2)['params']
    decoding = DecodingConfig(beam_width=1, max_tokens=6, max_source_tokens=32)
    return Translator(model, params, tokenizer, decoding)


def test_greedy_takes_the_most_probable_token_each_time(translator: Translator) -> None:
    found = translator(LINES)
    assert len({one.text for one in found}) > 2
    target_in = filled([[0, *one.token_ids[:-1]] for one in found], 6, 0)
    logits = np.array(
        jax.jit(translator.model.apply)({'params': translator.params}, translator.encode(LINES), target_in)
    )
    logits[..., [0, 2]] = -np.inf  # never padding nor the unknown piece
    for line, one, best in zip(LINES, found, logits.argmax(-1), strict=True):
        assert one.token_ids == (tuple(best[: one.num_tokens]) if line else ())


@pytest.mark.slow
def test_a_beams_scores_are_those_of_the_full_forward(translator: Translator) -> None:
    beam = translator.with_decoding(DecodingConfig(beam_width=4, n_best=2, max_tokens=6, length_penalty='none'))
    found = [one for best in beam(LINES) if best.n_best for one in best.n_best]
    assert {one.token_ids for one in found} - {one.token_ids for one in translator(LINES)}
    sources = beam.tokenizer.encode([line for line, best in zip(LINES, beam(LINES), strict=True) for _ in best.n_best])
    columns = sources, [list(one.token_ids) for one in found]
    scored = beam.runner.map(beam.programs.score_ids, beam.weights, columns)
    np.testing.assert_allclose([score for score, _ in scored], [one.score for one in found], atol=1e-5)
    scores = [one.score for one in beam.score(LINES, ['a b'] * len(LINES))]
    assert len(set(scores)) == len(LINES)


def test_it_votes_with_another_in_an_ensemble(translator: Translator) -> None:
    both = Translator(
        [translator.model, translator.model], (translator.params,) * 2, translator.tokenizer, translator.decoding
    )
    assert [one.token_ids for one in both(LINES)] == [one.token_ids for one in translator(LINES)]


def test_what_it_lacks_is_refused_by_name(translator: Translator) -> None:
    with pytest.raises(UserError, match='word alignment needs a model that has `cross_attention`; Recurrent has none'):
        translator(['a'], alignment=True)
    with pytest.raises(UserError, match='a map of attention needs a model that has `cross_attention`'):
        attention_map(translator, 'a', 'a')
    with pytest.raises(UserError, match='coverage_penalty needs a model that has `decode_with_attention`'):
        translator.with_decoding(DecodingConfig(coverage_penalty=0.2))
    with pytest.raises(UserError, match="weights='int8' needs a model that has `supports_int8`"):
        translator.with_decoding(DecodingConfig(weights='int8'))


def test_other_parameters_use_the_same_programs(translator: Translator) -> None:
    translator(LINES)
    other = translator.with_params(jax.tree.map(jnp.zeros_like, translator.params))
    found = other(LINES)
    assert found.num_compilations == 0
    assert other.translate_ids is translator.translate_ids
    assert [one.text for one in found] != [one.text for one in translator(LINES)]


def test_sentences_are_encoded_in_as_few_slots_as_their_group_needs() -> None:
    widths = []

    def start(source: jax.Array) -> DecodeState:
        """Two heads a sentence in one axis, as the Transformer's memory has them."""
        widths.append(source.shape)
        return DecodeState((), (jnp.repeat(2 * source, 2, axis=0), source != 0), jnp.int32(0))

    lengths = np.sort(np.random.default_rng(0).integers(1, 41, 16))[::-1]
    lengths[-4:] = 0  # a group of padding only
    source = jnp.array([[7] * length + [0] * (40 - length) for length in lengths])
    found = start_by_length(start, source, pad_id=0)
    assert {(4, 16), (4, 32), (4, 40)} <= {*widths}
    jax.tree.map(np.testing.assert_array_equal, found, start(source))
    assert start_by_length(start, source[:12], pad_id=0).shared[1].shape == (12, 40)

    many = jnp.pad(jnp.tile(source, (2, 1)), ((0, 0), (0, 40)))
    widths.clear()
    jax.tree.map(np.testing.assert_array_equal, start_by_length(start, many, pad_id=0), start(many))
    assert {rows for rows, _ in widths} == {4, 32}  # eight groups of long rows
