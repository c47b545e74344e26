"""Marian models of transformers itself, with random weights, against ours: logits, searches, round trips.

Needs torch and transformers; without them each test is skipped by name.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import beam_reference
import jax
import marian_folders
import numpy as np
import pytest
from num2words import num2words

from flax_transformer import Translator

torch = pytest.importorskip('torch', reason='torch is not installed')
transformers = pytest.importorskip('transformers', reason='transformers is not installed')

torch.set_num_threads(1)

pytestmark = [
    pytest.mark.slow,
    # Theirs, of each other.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning', 'ignore::UserWarning'),
]

NUM_LINES = 40
NUM_EXPLAINED = 2  # lines whose searches are followed in plain Python
# Shapes and options of config.json; `separate` is the tokenizer's.
MODELS = {
    'as OPUS-MT': {},
    'relu': {'activation_function': 'relu'},
    'gelu, unequal depth': {'activation_function': 'gelu', 'encoder_layers': 3, 'decoder_layers': 1},
    'no scaling': {'scale_embedding': False},
    'target tied': {'share_encoder_decoder_embeddings': False},
    'untied': {'share_encoder_decoder_embeddings': False, 'tie_word_embeddings': False},
    'separate vocabularies': {'share_encoder_decoder_embeddings': False, 'separate': True},
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
    theirs: Any  # MarianMTModel
    tokenizer: Any  # MarianTokenizer
    batch: dict
    ours: Translator

    eos_id, forced, prefix = 0, {}, None  # what every target begins with, for them and for us
    forces_eos = True

    @property
    def banned(self) -> list[int]:
        return [self.theirs.config.pad_token_id]

    @property
    def start_id(self) -> int:
        return self.theirs.config.decoder_start_token_id

    @property
    def source(self) -> np.ndarray:
        return self.batch['input_ids'].numpy()

    def generate(self, **options) -> list[list[int]]:
        """Their best output for each line, without the decoder's start and what is behind EOS."""
        rows = [row[1:] for row in self.theirs.generate(**self.batch, **self.forced, **options).tolist()]
        return [row[: row.index(self.eos_id) + 1] if self.eos_id in row else row for row in rows]

    def search(self, **decoding) -> list[list[int]]:
        """Our best output for each line."""
        translator = self.ours.with_decoding(replace(self.ours.decoding, **decoding))
        found = jax.device_get(translator.translate_ids(translator.params, self.source, self.prefix))
        return [row[:n].tolist() for row, n in zip(found.tokens[:, 0], found.lengths[:, 0], strict=True)]

    def log_probs(self, line: int):
        """A function from hypotheses to log-probabilities of the next token, without the pad, for one line."""
        inputs = {name: array[line : line + 1] for name, array in self.batch.items()}
        known = {}

        def rows(hypotheses: list[tuple[int, ...]]) -> list[np.ndarray]:
            if new := [tokens for tokens in hypotheses if tokens not in known]:
                repeated = {name: array.expand(len(new), -1) for name, array in inputs.items()}
                with torch.no_grad():
                    start = torch.tensor([[self.start_id, *tokens] for tokens in new])
                    logits = self.theirs(**repeated, decoder_input_ids=start).logits[:, -1]
                found = torch.log_softmax(logits, -1).numpy().astype(np.float64)
                found[:, self.banned] = -np.inf
                if self.prefix is not None and new == [()]:
                    found = np.where(np.arange(found.shape[1]) == self.prefix[0, 0], 0.0, -np.inf)[None]
                known.update(zip(new, found, strict=True))
            return [known[tokens] for tokens in hypotheses]

        return rows


def make_case(name: str, models: tuple[bytes, bytes], folder: Path) -> Case:
    changes = dict(MODELS[name])
    separate, learned = changes.pop('separate', False), changes.pop('learned_pad', False)
    sizes = marian_folders.write_tokenizer(folder, *models, separate=separate)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    lines = [num2words(n) for n in range(5, 30_000, 30_000 // NUM_LINES)][:NUM_LINES]
    batch = tokenizer(lines, return_tensors='pt', padding=True)
    for seed in range(20):
        theirs = marian_folders.write_model(folder, sizes, seed=seed, learned_pad=learned, **changes)
        case = Case(folder, theirs, tokenizer, batch, Translator.from_marian(folder))
        if varies(case.generate(num_beams=1)):
            return case
    raise AssertionError('no seed gives a model whose outputs vary')


def varies(outputs: list[list[int]]) -> bool:
    """Whether most lines have an output of their own, and outputs do not just repeat a piece."""
    different = len({tuple(output) for output in outputs}) > NUM_LINES / 2
    return different and np.mean([len(set(output)) / len(output) for output in outputs]) > 0.25


@pytest.fixture(scope='module')
def models() -> tuple[bytes, bytes]:
    """SentencePiece models of number words."""
    return marian_folders.number_words_models()


@pytest.fixture(scope='module', params=MODELS)
def case(request, models, tmp_path_factory) -> Case:
    return make_case(request.param, models, tmp_path_factory.mktemp('marian'))


def largest_differences(case: Case) -> tuple[float, float]:
    """Of the encoder's output, and of logits along their greedy output; absolute."""
    target = case.theirs.generate(**case.batch, **case.forced, num_beams=1)[:, :12]
    with torch.no_grad():
        memory = case.theirs.model.encoder(**case.batch).last_hidden_state.numpy()
        logits = case.theirs(**case.batch, decoder_input_ids=target).logits.numpy()
    assert logits.std() > 0.5

    @jax.jit
    def both(params, source, target):
        encoded = case.ours.model.apply({'params': params}, source, method='encode')
        return encoded, case.ours.model.apply({'params': params}, source, target)

    ours = both(case.ours.params, case.source, target.numpy())
    is_real = case.batch['attention_mask'].numpy().astype(bool)
    is_token = (target != case.theirs.config.pad_token_id).numpy() | (
        case.eos_id == 0
    )  # M2M-100's do not count padding
    return float(np.abs(ours[0] - memory)[is_real].max()), float(np.abs(ours[1] - logits)[is_token].max())


def test_encoder_output_and_logits_agree_to_1e_4(case: Case) -> None:
    encoder, logits = largest_differences(case)
    assert encoder < 1e-4
    assert logits < 1e-4


def test_greedy_output_is_equal_token_for_token_and_varies(case: Case) -> None:
    theirs = case.generate(num_beams=1)
    assert varies(theirs)
    assert case.search(beam_width=1) == theirs


def compare_beams(case: Case, width: int, explained: int = NUM_EXPLAINED) -> dict[str, int]:
    """How many lines come out equal, with their search as it is and with early_stopping='never'.

    On the first `explained` lines each search equals its rules in plain Python on their log-probabilities: nothing but
    the two rules differs.
    """
    limit = case.theirs.generation_config.max_length - 1
    common = {'width': width, 'limit': limit, 'eos_id': case.eos_id, 'alpha': 1.0, 'forces_eos': case.forces_eos}
    ours = case.search(beam_width=width)
    equal = {'lines': len(ours)}
    for name, early_stopping, bound in (('as it is', False, 'present'), ('never', 'never', 'longest')):
        theirs = case.generate(num_beams=width, early_stopping=early_stopping)
        equal[name] = sum(a == b for a, b in zip(ours, theirs, strict=True))
        for line in range(explained):
            rows = case.log_probs(line)
            by_our_rules = beam_reference.beam_search(rows, **common)
            by_their_rules = beam_reference.beam_search(rows, **common, ends_among='best', bound=bound)
            assert ours[line] == list(by_our_rules)
            assert theirs[line] == list(by_their_rules)
    return equal


def test_beams_differ_only_in_the_two_rules_that_differ(case: Case, request: pytest.FixtureRequest) -> None:
    number = list(MODELS).index(request.node.callspec.params['case'])
    if number % 3:
        pytest.skip('every third shape is enough here; benchmarks/marian_parity.py compares all')
    width = 4 + 2 * (number % 2)
    equal = compare_beams(case, width)
    assert equal['never'] > NUM_LINES / 2
