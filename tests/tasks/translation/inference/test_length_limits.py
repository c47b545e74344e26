"""Lines as long as the buckets, as the model has positions, one more or less: shapes alone, nothing is compiled."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig, DecodingConfig, TransformerConfig
from flax_transformer.data.bitext.batches import loss_batches
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.decoding.search import max_lengths, output_slots
from flax_transformer.tasks.translation.inspection import attention_map
from flax_transformer.tasks.translation.task import loss_sums
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import Transformer, init_params

LIMIT = 37  # positions; buckets are 16, 32 and 64 slots
LENGTHS = (1, 17, 37, 38)  # tokens, EOS included
MODEL = TransformerConfig(
    vocab_size=20, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1, dtype='float32'
)
LEARNED = replace(MODEL, positions='learned', max_length=LIMIT)


@pytest.fixture(scope='module')
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=20, byte_fallback=False)


def text(num_tokens: int) -> str:
    return ' '.join('a' * (num_tokens - 1))


def make_translator(tokenizer: SentencePieceTokenizer, *models: TransformerConfig, **decoding: object) -> Translator:
    params = tuple(jax.eval_shape(lambda model=model: init_params(model, jax.random.key(0))) for model in models)
    params = params if len(models) > 1 else params[0]
    translator = Translator(models, params, tokenizer, DecodingConfig(**{'beam_width': 2} | decoding))
    translator.weights = jax.eval_shape(translator.programs.weights_of, params)
    return translator


def with_shapes_alone(translator: Translator) -> Translator:
    """The translator with a runner that traces the programs; each translation is as long as it may be."""

    def call(function: Callable, params: object, arrays: list[np.ndarray]) -> object:
        zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(function, params, *arrays))
        if isinstance(zeros, Hypotheses):
            tokens = zeros.tokens + np.arange(3, 3 + zeros.tokens.shape[1])[None, :, None]
            return zeros._replace(tokens=tokens, lengths=zeros.lengths + zeros.tokens.shape[-1])
        return zeros

    translator.runner._call = call
    return translator


@pytest.fixture(scope='module')
def learned(tokenizer: SentencePieceTokenizer) -> Translator:
    return with_shapes_alone(make_translator(tokenizer, LEARNED))


@pytest.mark.parametrize(
    ('models', 'decoding'),
    [
        ((LEARNED,), {'n_best': 2, 'max_tokens': 100}),
        ((LEARNED,), {'search': 'sample', 'samples': 3, 'mbr': 'bleu', 'max_extra_tokens': 1}),
        ((MODEL, LEARNED), {'beam_width': 1, 'max_source_tokens': 8}),
    ],
    ids=['n best', 'mbr', 'ensemble'],
)
@pytest.mark.slow_cases('ensemble', 'mbr')
def test_a_line_of_any_length_is_translated_within_the_positions(tokenizer, models, decoding) -> None:
    translator = with_shapes_alone(make_translator(tokenizer, *models, **decoding))
    most = translator.programs.max_source_tokens
    for n in LENGTHS[1:]:
        (found,) = translator([text(n)], alignment=True)
        assert found.split == (n > most)
        assert found.split or found.num_tokens <= LIMIT
        assert len(found.token_ids) == len(found.tokens) == len(found.token_log_probs) == found.num_tokens
        assert found.alignment is not None


@pytest.mark.slow
def test_a_pair_of_any_length_is_scored_or_named(learned: Translator) -> None:
    pairs = [(n, m) for n in LENGTHS for m in (1, n)]
    for source, target in {*pairs, *(pair[::-1] for pair in pairs)}:
        if max(source, target) <= LIMIT:
            assert len(learned.score([text(source)], [text(target)], alignment=True)[0].token_ids) == target
            continue
        name = 'source' if source > LIMIT else 'target'
        with pytest.raises(
            UserError, match=rf"{name} 2 of 2: the {name} 'a a a.*' has {max(source, target)} tokens; .* 37"
        ):
            learned.score(['a', text(source)], ['', text(target)])


@pytest.mark.slow
def test_a_prefix_of_any_length_is_continued_or_named(learned: Translator) -> None:
    for n in LENGTHS:
        if n <= LIMIT:  # EOS counts: it must still fit
            assert learned(['a', text(n)], prefixes=[text(n), ''])[0].num_tokens <= LIMIT
            continue
        with pytest.raises(UserError, match=rf"prefix 2 of 3: the prefix 'a a a.*' has {n} tokens; .* most 37"):
            learned(['', 'a', ''], prefixes=['', text(n), 'a'])
        with pytest.raises(UserError, match=rf"line 3 of 3: the line 'a a a.*' has {n} tokens; .* most 37"):
            learned(['', 'a', text(n)], prefixes=['', '', 'a'])


@pytest.mark.slow
def test_every_shape_to_warm_up_is_within_the_positions(tokenizer: SentencePieceTokenizer) -> None:
    translator = with_shapes_alone(make_translator(tokenizer, LEARNED, beam_width=1, batch_tokens=LIMIT))
    assert translator.warm_up() == 4  # 1 and 2 rows of 16 slots, 1 of 32 and of 37


@pytest.mark.slow
def test_sinusoids_have_no_limit(tokenizer: SentencePieceTokenizer) -> None:
    options = {'max_source_tokens': 16, 'max_extra_tokens': 3, 'beam_width': 1}
    translator = with_shapes_alone(make_translator(tokenizer, MODEL, **options))
    for n in (16, 17, 300):
        assert translator([text(n)], prefixes=[text(n)])[0].num_tokens >= n + 3
        assert translator.score([text(n)], [text(5)], alignment=True)[0].num_tokens == 5


def test_a_map_of_attention_names_what_is_too_long(learned: Translator) -> None:
    with pytest.raises(UserError, match=r"line 1 of 1: the line 'a a.*' has 38 tokens"):
        attention_map(learned, text(LIMIT + 1), 'a')
    with pytest.raises(UserError, match=r"translation 1 of 1: the translation 'a a.*' has 40 tokens"):
        attention_map(learned, 'a', text(LIMIT + 3))


@pytest.mark.slow
def test_the_loss_of_a_pair_of_any_length_is_evaluated_or_refused(tokenizer: SentencePieceTokenizer) -> None:
    loss_of = partial(loss_sums, model=Transformer(LEARNED), label_smoothing=0.1)
    data = DataConfig('in', 'out', source_length=16, target_length=16)
    params = jax.eval_shape(lambda: init_params(LEARNED, jax.random.key(0)))
    for n in (2, 16, 17, LIMIT, LIMIT + 1):
        pairs = tokenize(Pairs([text(n), 'a'], ['a', text(n)]), tokenizer)
        if n > LIMIT:
            with pytest.raises(UserError, match=f'has {n} tokens, more than the model.max_length=37'):
                list(loss_batches([pairs], LEARNED, data, num_rows=1))
            continue
        (*_, batch) = loss_batches([pairs], LEARNED, data, num_rows=1)
        loss, _ = jax.eval_shape(loss_of, params, batch, None)
        assert loss.shape == ()


def test_each_sentence_is_cut_at_the_last_position() -> None:
    source, prefix = np.array([[5, 6, 1, 0], [5, 1, 0, 0], [0, 0, 0, 0]]), np.array([[4, 4, 4], [4, 0, 0], [0, 0, 0]])
    decoding = DecodingConfig(max_extra_tokens=4)
    assert max_lengths(decoding, source, 0).tolist() == [7, 6, 1]
    assert max_lengths(decoding, source, 0, prefix, 8).tolist() == [8, 7, 1]
    assert max_lengths(replace(decoding, max_tokens=9), source, 0, None, 8).tolist() == [8, 8, 1]
    assert [output_slots(decoding, 4, 3, limit) for limit in (None, 8, 20)] == [11, 8, 11]
