"""Marian models of transformers itself, with random weights, against ours: logits, searches, round trips.

Needs torch and transformers; without them each test is skipped by name.
"""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import marian_folders
import numpy as np
import pytest
from num2words import num2words

from flax_transformer import Translator
from flax_transformer.interop import to_marian
from flax_transformer.interop.marian import export_marian, import_marian, read_marian
from flax_transformer.interop.tensors import read_tensors

torch = pytest.importorskip('torch', reason='torch is not installed')
transformers = pytest.importorskip('transformers', reason='transformers is not installed')

pytestmark = [
    pytest.mark.slow,
    # Theirs, of each other.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning', 'ignore::UserWarning'),
]

NUM_LINES = 40
# Shapes and options of config.json; `separate` is the tokenizer's.
MODELS = {
    'as OPUS-MT': {},
    'relu': {'activation_function': 'relu'},
    'gelu, unequal depth': {'activation_function': 'gelu', 'encoder_layers': 3, 'decoder_layers': 1},
    'silu, one encoder layer': {'activation_function': 'silu', 'encoder_layers': 1, 'decoder_layers': 4},
    'no scaling': {'scale_embedding': False},
    'target tied': {'share_encoder_decoder_embeddings': False},
    'untied': {'share_encoder_decoder_embeddings': False, 'tie_word_embeddings': False},
    'shared, softmax untied': {'tie_word_embeddings': False},
    'separate vocabularies': {'share_encoder_decoder_embeddings': False, 'separate': True},
    'separate and untied': {'share_encoder_decoder_embeddings': False, 'tie_word_embeddings': False, 'separate': True},
    'one head': {'encoder_attention_heads': 1, 'decoder_attention_heads': 1, 'd_model': 24},
    'wide and flat': {
        'd_model': 64,
        'encoder_ffn_dim': 16,
        'decoder_ffn_dim': 16,
        'encoder_attention_heads': 16,
        'decoder_attention_heads': 16,
    },
    'short positions': {
        'max_position_embeddings': 64,
        'd_model': 40,
        'encoder_attention_heads': 5,
        'decoder_attention_heads': 5,
    },
    'learned pad row': {'learned_pad': True},
}


@dataclass(frozen=True)
class Case:
    folder: Path
    theirs: 'transformers.MarianMTModel'
    tokenizer: 'transformers.MarianTokenizer'
    batch: dict

    @property
    def source(self) -> np.ndarray:
        return self.batch['input_ids'].numpy()

    def generate(self, **options) -> list[list[int]]:
        """Their best output for each line, without the decoder's start and padding."""
        tokens = self.theirs.generate(**self.batch, **options).tolist()
        return [_until_eos(row[1:]) for row in tokens]


def _until_eos(row: list[int]) -> list[int]:
    return row[: row.index(0) + 1] if 0 in row else row


@pytest.fixture(scope='module')
def models() -> tuple[bytes, bytes]:
    """SentencePiece models of number words."""
    return tuple(
        marian_folders.spm([num2words(n, lang=language) for n in range(1, 30_000, 17)], 90) for language in ('en', 'de')
    )


@pytest.fixture(scope='module', params=MODELS)
def case(request, models, tmp_path_factory) -> Case:
    changes = dict(MODELS[request.param])
    separate, learned = changes.pop('separate', False), changes.pop('learned_pad', False)
    folder = tmp_path_factory.mktemp('marian')
    sizes = marian_folders.write_tokenizer(folder, *models, separate=separate)
    theirs = marian_folders.write_model(folder, sizes, seed=len(request.param), learned_pad=learned, **changes)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    lines = [num2words(n) for n in range(5, 30_000, 30_000 // NUM_LINES)][:NUM_LINES]
    batch = tokenizer(lines, return_tensors='pt', padding=True)
    return Case(folder, transformers.MarianMTModel.from_pretrained(folder).eval(), tokenizer, batch)


def search(case: Case, **decoding) -> list[list[int]]:
    """Our best output for each line."""
    translator = Translator.from_marian(case.folder, **decoding)
    found = translator.translate_ids(translator.params, case.source)
    return [row[:n].tolist() for row, n in zip(np.asarray(found.tokens)[:, 0], np.asarray(found.lengths)[:, 0])]


def test_encoder_output_and_logits_agree_to_1e_4(case: Case, record_property) -> None:
    target = case.theirs.generate(**case.batch, num_beams=1)[:, :12]
    with torch.no_grad():
        memory = case.theirs.model.encoder(**case.batch).last_hidden_state.numpy()
        logits = case.theirs(**case.batch, decoder_input_ids=target).logits.numpy()
    ours = Translator.from_marian(case.folder)
    variables = {'params': ours.params}
    is_real = case.batch['attention_mask'].numpy().astype(bool)
    difference = np.abs(ours.model.apply(variables, case.source, method='encode') - memory)[is_real].max()
    assert difference < 1e-4
    assert logits.std() > 0.5
    np.testing.assert_allclose(ours.model.apply(variables, case.source, target.numpy()), logits, rtol=0, atol=1e-4)


def test_greedy_output_is_equal_token_for_token_and_varies(case: Case) -> None:
    theirs = case.generate(num_beams=1)
    assert search(case, beam_width=1) == theirs
    assert len({tuple(output) for output in theirs}) > NUM_LINES / 4
    assert np.mean([len(set(output)) / len(output) for output in theirs]) > 0.3
