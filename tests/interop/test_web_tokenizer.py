"""The browser's SentencePiece gives the library's pieces and text, line by line. Needs node."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from conftest import TESTS
from hostile_lines import HOSTILE
from marian_folders import spm
from random_lines import random_line
from tokenizer_lines import LINES

import flax_transformer

SCRIPT = """
import { SentencePiece } from '%s';
import { readFileSync } from 'node:fs';
const { models, lines } = JSON.parse(readFileSync(0, 'utf8'));
const found = models.map((model) => {
  const own = new SentencePiece(new Uint8Array(Buffer.from(model, 'base64')));
  return lines.map((line) => { const pieces = own.encode(line); return [pieces, own.decode(pieces)]; });
});
process.stdout.write(JSON.stringify(found));
"""
PACKAGE = Path(flax_transformer.__file__).parent
MARIAN = TESTS / 'fixtures' / 'marian'
OURS = {'model_type': 'bpe', 'byte_fallback': True, 'normalization_rule_name': 'identity'}


def models() -> dict[str, bytes]:
    # Characters that normalization changes, in the training text too.
    hostile = [line for line in HOSTILE if 0 < len(line) < 99 and '\x00' not in line]
    corpus = [*LINES, 'ﬁne ½ ① Ａ １２ ｶﾞ é ñ', 'aaa bbb ccc', *hostile] * 2
    return {
        'ours': spm(corpus, 500, remove_extra_whitespaces=False, **OURS),
        'unigram, nmt_nfkc': (MARIAN / 'source.spm').read_bytes(),
        'unigram, nfkc_cf, bytes': spm(corpus, 500, normalization_rule_name='nfkc_cf', byte_fallback=True),
        'bpe, nmt_nfkc, own pieces': spm(corpus, 300, model_type='bpe', user_defined_symbols=['fox', 'the qu', '①']),
        'unigram, own pieces': spm(corpus, 200, user_defined_symbols=['fox', 'the qu', 'ß'], add_dummy_prefix=False),
        'everyday': (PACKAGE / 'models/everyday/tokenizer/sentencepiece.model').read_bytes(),
    }


@pytest.mark.parametrize('number', [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_pieces_and_text_are_the_librarys(number: int) -> None:
    node = shutil.which('node')
    if not node:
        pytest.skip("needs node, which runs the page's tokenizer")
    rng = np.random.default_rng(0)
    lines = [*HOSTILE, *(random_line(rng).decode('utf-8', 'replace') for _ in range(number - len(HOSTILE)))]
    script = PACKAGE / 'interop' / 'web' / 'sentencepiece.js'
    own = models()
    asked = {'models': [base64.b64encode(model).decode() for model in own.values()], 'lines': lines}
    command = [node, '--input-type=module', '-e', SCRIPT % script.as_uri()]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for (name, model), found in zip(own.items(), json.loads(done.stdout), strict=True):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for line, (pieces, text) in zip(lines, found, strict=True):
            assert pieces == processor.encode(line, out_type=str), (name, line)
            assert text == processor.decode_pieces(pieces), (name, line)
