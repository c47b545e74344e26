"""Lines in, translations out: in order, one for each, whatever the company."""

import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.checkpoints import Checkpoints
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.decoding import Hypotheses
from flax_transformer.errors import UserError
from flax_transformer.losses import cross_entropy
from flax_transformer.model import Transformer, shift_right
from flax_transformer.run_directory import RunDirectory
from flax_transformer.tokenizer import Tokenizer
from flax_transformer.train_state import init_state
from flax_transformer.training import Trainer


@pytest.fixture(scope='module')
def translator(copy_run: Path) -> Translator:
    return Translator.from_run(copy_run)


def random_lines(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    return [' '.join(rng.choice(list('abcdefgh'), rng.integers(1, 12))) for _ in range(count)]


def test_a_translation_does_not_depend_on_its_company(translator: Translator) -> None:
    lines = random_lines(24)
    together = translator(lines)
    backwards = translator(lines[::-1])[::-1]
    for first, second in zip(together, backwards, strict=True):
        assert first.text == second.text
        # Batches of other shapes sum float32 in another order.
        assert first.score == pytest.approx(second.score, abs=1e-5)
    for i in (0, 7, 13):
        alone = translator([lines[i]])[0]
        assert alone.text == together[i].text
        assert alone.score == pytest.approx(together[i].score, abs=1e-5)


def test_blank_lines_give_blank_lines(translator: Translator) -> None:
    texts = [t.text for t in translator(['', 'a b', ' \t', '\u2003'])]
    assert texts == ['', 'a b', '', '']
    assert translator([]) == []


def test_one_string_is_refused(translator: Translator) -> None:
    with pytest.raises(TypeError, match='expected a list of lines'):
        translator('a b')


def test_a_line_that_is_too_long_is_split_and_flagged(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, max_source_tokens=16)
    long = ' '.join('abcdef' * 8)
    short, split = translator(['a b', long])
    assert not short.split
    assert split.split
    assert split.num_tokens > 16


def test_a_translation_that_is_cut_is_flagged(copy_run: Path) -> None:
    # Greedy, one token more than the source at the most: a model that has learned to copy needs none.
    translator = Translator.from_run(copy_run, beam_width=1, max_extra_tokens=1)
    assert not translator(['a b c'])[0].truncated
    # Parameters that know nothing of EOS never end.
    endless = dict(translator.params)
    table = endless['embedding']['table']
    endless['embedding'] = {'table': table.at[translator.tokenizer.eos_id].set(0.0).at[5].set(3.0)}
    assert translator.with_params(endless)(['a b c'])[0].truncated


def test_translate_ids_is_one_pure_function(translator: Translator) -> None:
    """Jitted inside another program, and the same on padded sources."""
    ids = translator.tokenizer.encode(['a b c', 'h'])
    batch = np.zeros((2, 16), np.int32)
    wide = np.zeros((3, 32), np.int32)
    for i, sentence in enumerate(ids):
        batch[i, : len(sentence)] = wide[i, : len(sentence)] = sentence

    @jax.jit
    def program(params, source):
        return translator.translate_ids(params, source)

    plain, inside = translator.translate_ids(translator.params, batch), program(translator.params, wide)
    length = min(plain.tokens.shape[-1], inside.tokens.shape[-1])
    np.testing.assert_array_equal(plain.tokens[..., :length], inside.tokens[:2, :, :length])
    np.testing.assert_allclose(plain.scores, inside.scores[:2], atol=1e-5)


def test_log_probs_are_those_of_the_full_forward(translator: Translator) -> None:
    """The cached search and the model that is trained agree on what a translation is worth."""
    source = jnp.asarray(translator.tokenizer.encode(['a b c d']))
    found = translator.translate_ids(translator.params, source)
    length = int(found.lengths[0, 0])
    target = found.tokens[0, :1, :length]
    logits = translator.model.apply({'params': translator.params}, source, shift_right(target, 0))
    nll, count = cross_entropy(logits, target, jnp.ones(target.shape))
    assert count == length
    assert float(found.log_probs[0, 0]) == pytest.approx(-float(nll), abs=1e-5)


@pytest.fixture
def run_with_a_poor_last_checkpoint(copy_run: Path, tmp_path: Path) -> Path:
    """The copy run with one more checkpoint, of step 300: all parameters 0, and a high loss."""
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run)
    config = RunDirectory(run).read_config()
    trainer = Trainer(config)
    state = init_state(config, trainer.tx)
    zeros = jax.tree.map(jnp.zeros_like, state.params)
    checkpoints = Checkpoints(run / 'checkpoints')
    checkpoints.save(state._replace(step=jnp.int32(300), params=zeros), {}, {'validation_loss': 99.0})
    checkpoints.close()
    return run


def test_the_best_checkpoint_is_loaded_unless_a_step_is_given(run_with_a_poor_last_checkpoint: Path) -> None:
    run = run_with_a_poor_last_checkpoint
    assert np.any(Translator.from_run(run).params['embedding']['table'])
    assert not np.any(Translator.from_run(run, step=300).params['embedding']['table'])


def test_the_newest_checkpoints_are_averaged_where_the_config_says_so(run_with_a_poor_last_checkpoint: Path) -> None:
    """PEERS 15."""
    run = run_with_a_poor_last_checkpoint
    config = RunDirectory(run).read_config()
    trained = Translator.from_run(run, step=250).params['embedding']['table']
    RunDirectory(run).open(replace(config, training=replace(config.training, average_last=2)))
    np.testing.assert_allclose(Translator.from_run(run).params['embedding']['table'], trained / 2, rtol=1e-6)


def test_a_run_without_checkpoints_is_refused(copy_run: Path, tmp_path: Path) -> None:
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run, ignore=shutil.ignore_patterns('checkpoints'))
    with pytest.raises(UserError, match='holds no checkpoint'):
        Translator.from_run(run)


def test_an_unknown_step_is_refused_with_those_there_are(copy_run: Path) -> None:
    with pytest.raises(UserError, match=r'no checkpoint of step 7; there are 125, 250'):
        Translator.from_run(copy_run, step=7)


def test_learned_positions_bound_the_length_of_a_line(copy_run: Path, tmp_path: Path) -> None:
    """Refused by name when the option is given, not by a traceback when the line comes."""
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run, ignore=shutil.ignore_patterns('checkpoints'))
    config = RunDirectory(run).read_config()
    RunDirectory(run)._write_config(replace(config, model=replace(config.model, positions='learned', max_length=400)))
    with pytest.raises(UserError, match=r'max_length=400: expected 1074 learned positions'):
        Translator.from_run(run, max_source_tokens=1024)


def test_the_compiled_shapes_are_few(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=1, batch_tokens=128)
    translator(random_lines(60))
    assert translator.translate_ids._cache_size() <= 3


@pytest.fixture(scope='module')
def multilingual() -> Translator:
    """A model with tags that has learned nothing."""
    tokenizer = Tokenizer.train(
        ['a b c d e f g h'] * 50, vocab_size=22, byte_fallback=False, languages=['de', 'fr'], character_coverage=1.0
    )
    config = TransformerConfig(
        vocab_size=22, d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1
    )
    params = jax.jit(Transformer(config).init)(jax.random.key(1), *[jnp.zeros((1, 1), jnp.int32)] * 2)['params']
    return Translator(config, params, tokenizer, DecodingConfig(beam_width=2, target_language='de'))


def test_the_tag_of_the_target_language_begins_each_source_and_each_part_of_a_long_one(
    multilingual: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[int]] = []

    def search(_: object, sources: np.ndarray) -> Hypotheses:
        given.extend([int(i) for i in row if i != 0] for row in sources if row.any())
        shapes = {'tokens': (len(sources), 1, 1)}
        return Hypotheses(*(np.zeros(shapes.get(name, (len(sources), 1)), int) for name in Hypotheses._fields))

    tokenizer = multilingual.tokenizer
    for language, tag in tokenizer.languages.items():
        decoding = DecodingConfig(target_language=language, max_source_tokens=8)
        translator = Translator(multilingual.model.config, None, tokenizer, decoding)
        monkeypatch.setattr(translator, 'translate_ids', search)
        given.clear()
        assert not translator(['a b c'])[0].split
        assert given == [[tag, *tokenizer.encode(['a b c'])[0]]]
        assert translator(['a b c d e f g h ' * 3])[0].split
        assert len(given) > 3
        assert all(ids[0] == tag and tag not in ids[1:] and len(ids) <= 8 for ids in given)


def test_no_translation_holds_a_tag(multilingual: Translator) -> None:
    """Also where the model would rather say nothing else: tags are of the source side alone."""
    tags = list(multilingual.tokenizer.languages.values())
    table = multilingual.params['embedding']['table']
    wishful = {**multilingual.params, 'embedding': {'table': table.at[jnp.array(tags)].mul(50.0)}}
    source = np.array(multilingual.tokenizer.encode(['a b c', 'h g f'], target_language='fr'))
    logits = jax.jit(multilingual.model.apply)({'params': wishful}, source, shift_right(jnp.asarray(source), 0))
    assert np.isin(np.asarray(logits).argmax(-1), tags).any()
    assert not np.isin(multilingual.translate_ids(wishful, source).tokens, tags).any()


def test_an_unknown_target_language_is_refused_with_the_list(multilingual: Translator, copy_run: Path) -> None:
    with pytest.raises(UserError, match=r"target_language='dee': expected one of de, fr\. Did you mean de\?"):
        multilingual.with_params(multilingual.params, target_language='dee')
    config = multilingual.model.config
    with pytest.raises(UserError, match=r'target_language=None: expected one of de, fr'):
        Translator(config, multilingual.params, multilingual.tokenizer, DecodingConfig())
    with pytest.raises(UserError, match=r"target_language='de': this model has no language tags"):
        Translator.from_run(copy_run, target_language='de')
