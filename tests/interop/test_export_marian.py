"""Models that were trained here, in transformers and in CTranslate2: the same ids, logits and translations.

Needs torch, transformers, and for its own test ctranslate2; without them each test is skipped by name.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTS, corpus
from hostile_lines import HOSTILE
from num2words import num2words

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.data.lines import read_lines
from flax_transformer.huggingface.marian_tokenizer import MarianTokenizer

torch = pytest.importorskip('torch', reason='torch is not installed')
transformers = pytest.importorskip('transformers', reason='transformers is not installed')

pytestmark = [
    pytest.mark.slow,
    # Theirs, of each other.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning', 'ignore::UserWarning'),
]

RUN = TESTS / 'golden' / 'number_words'
LINES = [num2words(n) for n in range(0, 1000, 20)]


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('export') / 'marian'
    assert main(['export-marian', str(RUN), str(folder)]) == 0
    return folder


@pytest.fixture(scope='module')
def ours() -> list[str]:
    return [translation.text for translation in Translator.from_run(RUN)(LINES)]


def test_transformers_gives_the_same_ids_logits_and_translations(folder: Path, ours: list[str]) -> None:
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    translator = Translator.from_run(RUN)
    batch = tokenizer(LINES, return_tensors='pt', padding=True)
    assert [tokenizer(line).input_ids for line in LINES] == translator.tokenizer.encode(LINES)
    found = model.generate(**batch)
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=found[:, :10]).logits.numpy()
    logits = translator.model.apply({'params': translator.params}, batch['input_ids'].numpy(), found[:, :10].numpy())
    np.testing.assert_allclose(logits, theirs, rtol=0, atol=1e-4)
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == ours


def test_ctranslate2_gives_the_same_translations(folder: Path, ours: list[str]) -> None:
    """As its users do it: its converter, then tokens in and out."""
    ctranslate2 = pytest.importorskip('ctranslate2', reason='ctranslate2 is not installed')
    converter = Path(sys.executable).parent / 'ct2-transformers-converter'
    out = folder.parent / 'ct2'
    subprocess.run([converter, '--model', folder, '--output_dir', out], check=True, capture_output=True, timeout=120)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    tokens = [tokenizer.convert_ids_to_tokens(tokenizer(line).input_ids) for line in LINES]
    options = {'beam_size': 4, 'length_penalty': 1.0, 'max_decoding_length': 29, 'disable_unk': True}
    found = ctranslate2.Translator(str(out), device='cpu').translate_batch(tokens, **options)
    ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in found]
    theirs = tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert sum(a == b for a, b in zip(theirs, ours, strict=True)) >= len(ours) - 1


def test_an_imported_tokenizer_gives_the_ids_of_transformers_on_10_000_lines() -> None:
    """With pieces that the vocabulary lacks, unknown characters, tags and special pieces in the text."""
    fixture = TESTS / 'fixtures' / 'marian'
    lines = [line for side in ('en', 'de') for line in read_lines(corpus('multi30k', f'train.{side}.gz'))[:5000]]
    lines = [*HOSTILE, *(f'>>{tag}<< {line}' for tag in ('deu', 'nowhere') for line in HOSTILE), *lines]
    lines += [f'{line[: len(line) // 2]}{special}{line[len(line) // 2 :]}'
              for line in lines[:200] for special in ('</s>', '<unk>', '<pad>', '>>fra<<', '</s>>>fra<<')]  # fmt: skip
    theirs, ours = transformers.MarianTokenizer.from_pretrained(fixture), MarianTokenizer.load(fixture)
    assert ours.encode(lines) == theirs(lines).input_ids
    assert ours.encode_target(lines) == theirs(text_target=lines).input_ids
    ids = ours.encode_target(lines)
    texts = theirs.batch_decode(ids, skip_special_tokens=True, use_source_tokenizer=False)
    assert [ours.decode(row) for row in ids] == [text.replace('\n', ' ') for text in texts]
