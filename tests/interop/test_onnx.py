"""ONNX Runtime computes what our models do, and a search over it finds our translator's tokens."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import TransformerConfig
from flax_transformer.ops.int8 import from_int8
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import parameter_shapes

pytest.importorskip('onnx')
pytest.importorskip('onnxruntime')

from flax_transformer.interop import onnx_graph
from flax_transformer.interop.onnx_export import export_onnx
from flax_transformer.interop.stablehlo import flat_params

RUN, MARIAN = TESTS / 'golden' / 'number_words', TESTS / 'fixtures' / 'marian'
NUMBERS = ['seven', 'nine hundred and ninety-nine', 'five hundred and eighty-six', '']
TEXTS = ['the house is small', 'x y z', 'no', 'it is a very long line of words, this one: 1 2 3 4']
HEADS = [('encoder', 'self'), ('decoder', 'self'), ('decoder', 'cross')]
LOGITS = 1e-4  # sums in another order


def example():
    spec = importlib.util.spec_from_file_location('onnx_translate', TESTS.parent / 'examples' / 'onnx_translate.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


onnx_translate = example()


def forced_logits(model, source: list[int], target: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Logits [T, V] of the tokens after each of `target`, in two hypotheses, and the attention of each step."""
    state = model.start(source)
    logits, attention = [], []
    for token in target:
        inputs = {'tokens': np.array([token] * 2), 'parents': np.array([0, 0])}
        found = onnx_translate.run(model.step, state | inputs)
        state |= {name: found[f'new_{name}'] for name in ('keys', 'values')}
        np.testing.assert_array_equal(*found['logits'])
        logits.append(found['logits'][0])
        attention.append(found['cross_attention'][:, 0, :, 0])
    return np.stack(logits), attention


VARIANTS = {
    'paper': {},
    'pre_norm': {'norm_first': True, 'positions': 'learned', 'attention_score': 'dot', 'tie_embeddings': 'none'},
    'marian_like': {
        'activation': 'swish',
        'attention_bias': True,
        'logits_bias': True,
        'tie_embeddings': 'target',
        'pad_row': 'neither',
        'positions': 'concatenated',
        'scale_embedding': False,
        'head_dim': 6,
    },
}


@pytest.mark.parametrize('weights', ['float32', 'int8'])
@pytest.mark.parametrize('name', VARIANTS)
@pytest.mark.slow_cases('marian_like-float32', 'marian_like-int8', 'paper-int8', 'pre_norm-float32', 'pre_norm-int8')
def test_logits_and_attention_are_the_models(name: str, weights: str, tmp_path: Path) -> None:
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=19, byte_fallback=False)
    sizes = dict(vocab_size=19, d_model=8, num_heads=2, d_ff=12, num_encoder_layers=2, num_decoder_layers=2)
    config = TransformerConfig(**sizes, **VARIANTS[name])
    translator = Translator(config, drawn(parameter_shapes(config)), tokenizer)
    translator = translator.with_decoding(replace(translator.decoding, weights=weights))
    export_onnx(translator, tmp_path / 'onnx')
    model = onnx_translate.Model(tmp_path / 'onnx')

    source = model.encode('a b c h')
    assert source == translator.encode('a b c h')[0, : len(source)].tolist()
    target = [0, 3, 7, 7, 11]
    found, attention = forced_logits(model, source, target)
    variables = {'params': from_int8(translator.weights)}
    expected = translator.model.apply(variables, np.array([source]), np.array([target]))[0]
    np.testing.assert_allclose(found, expected, atol=LOGITS)
    expected = translator.model.apply(variables, np.array([source]), np.array([target]), method='cross_attention')
    np.testing.assert_allclose(np.stack(attention, axis=2), expected[:, 0], atol=1e-5)


@pytest.mark.slow
def test_switches_do_what_other_weights_would() -> None:
    """And ones leave the model as it is."""
    sizes = dict(d_model=8, num_heads=2, d_ff=12, num_encoder_layers=2, num_decoder_layers=2)
    config = TransformerConfig(19, **sizes, positions='learned', norm_first=True, attention_bias=True)
    params = drawn(parameter_shapes(config))
    params = {name: np.array(x, np.float32) for name, x in flat_params(params).items()}

    def computed(changes: dict[str, np.ndarray], has_switches: bool, **switches: np.ndarray) -> np.ndarray:
        weights = onnx_graph.Weights(params | changes)
        heads = np.ones((2, 2, 1, 1), np.float32)
        inputs = {
            'positions': np.ones((), np.float32),
            'scale': np.ones((), np.float32),
            'residuals': np.ones(2, np.float32),
        }
        inputs |= {'self_heads': heads, 'cross_heads': heads} | switches
        inputs |= {'source': np.array([[4, 5, 6, 7, 1]]), 'tokens': np.array([5]), 'parents': np.array([0])}
        inputs |= dict.fromkeys(('keys', 'values'), np.ones((2, 1, 2, 3, 4), np.float32))
        for graph in (onnx_graph.encoder, onnx_graph.step):
            options = onnx_translate.onnxruntime.SessionOptions()
            content = weights.content()
            options.add_external_initializers_from_files_in_memory(['weights.bin'], [content], [len(content)])
            model = graph(config, weights, has_switches=has_switches)
            inputs |= onnx_translate.run(onnx_translate.onnxruntime.InferenceSession(model, options), inputs)
        return inputs['logits']

    def times(name: str, factor: float, at: object = ...) -> dict[str, np.ndarray]:
        changed = {key: x.copy() for key, x in params.items() if name in key}
        assert changed
        for x in changed.values():
            x[at] *= factor
        return changed

    plain = computed({}, has_switches=False)
    np.testing.assert_array_equal(computed({}, has_switches=True), plain)
    off = np.ones((2, 2, 1, 1), np.float32)
    off[1, 0] = 0
    layers = np.array([1, 0], np.float32)
    outputs = [f'{stack}/layers_1/{kind}_attention/output/kernel' for stack, kind in HEADS]
    cases = [
        (times('positions/table', 0), {'positions': np.zeros((), np.float32)}),
        (times('attention/query', 2), {'scale': np.array(2, np.float32)}),
        (times(outputs[0], 0, np.s_[:4]) | times(outputs[1], 0, np.s_[:4]), {'self_heads': off}),
        (times(outputs[2], 0, np.s_[:4]), {'cross_heads': off}),
    ]
    for changes, switches in cases:
        found = computed({}, has_switches=True, **switches)
        np.testing.assert_allclose(found, computed(changes, has_switches=False), atol=1e-5)
        assert np.abs(found - plain).max() > 1e-3, switches
    assert np.abs(computed({}, has_switches=True, residuals=layers) - plain).max() > 1e-3


@pytest.mark.parametrize('width', [1, 4])
@pytest.mark.parametrize(
    ('load', 'folder', 'lines'),
    [(Translator.from_run, RUN, NUMBERS[:3]), (Translator.from_marian, MARIAN, TEXTS)],
    ids=['ours', 'marian'],
)
@pytest.mark.slow_cases('marian-1', 'marian-4', 'ours-1')
def test_a_search_finds_the_translators_tokens(
    load, folder: Path, lines: list[str], width: int, tmp_path: Path
) -> None:
    translator = load(folder, beam_width=width, literals='ignored')
    export_onnx(translator, tmp_path / 'onnx')
    model = onnx_translate.Model(tmp_path / 'onnx')
    found = [model.search(model.encode(line))[0] for line in lines]
    expected = translator(lines)
    assert [one.tokens for one in found] == [line.token_ids for line in expected]
    assert [model.translate(line) for line in lines] == [line.text for line in expected]
    np.testing.assert_allclose(
        [one.score for one in found if one.tokens[-1] == model.info['eos_id']],
        [line.score for line in expected if not line.truncated],
        atol=1e-4,
    )


@pytest.mark.slow
def test_the_command_writes_eight_bits_and_refuses_what_has_no_graph(tmp_path: Path, capsys) -> None:
    sizes = []
    for weights in ('float32', 'int8'):
        folder = str(tmp_path / weights)
        assert main(['export', str(RUN), folder, '--format', 'onnx', '--decoding.weights', weights]) == 0
        sizes.append((tmp_path / weights / 'weights.bin').stat().st_size)
    assert sizes[1] < 0.4 * sizes[0]
    assert main(['export', str(RUN), folder, '--format', 'onnx']) == 2
    assert 'exists' in capsys.readouterr().err
    assert main(['export', str(RUN), str(tmp_path / 'x'), '--format', 'onnx', '--phrases']) == 2
    assert '--phrases is an option of --format jax' in capsys.readouterr().err
    assert main(['export', str(RUN), str(tmp_path / 'x'), '--format', 'onnx', '--decoding.no-repeat-ngram', '2']) == 2
    assert 'no_repeat_ngram=2: expected 0' in capsys.readouterr().err


def test_a_norm_without_a_graph_is_named(tmp_path: Path) -> None:
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=19, byte_fallback=False)
    config = TransformerConfig(
        19, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1, norm='rms'
    )
    with pytest.raises(UserError, match=r"norm='rms': expected 'layer'"):
        export_onnx(Translator(config, drawn(parameter_shapes(config)), tokenizer), tmp_path / 'out')
