"""A run whose parts do not belong together is refused by name, never translated with."""

import json
import shutil
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer


@pytest.fixture
def run(copy_run: Path, tmp_path: Path) -> Path:
    """A copy of a trained run, to be spoilt."""
    return Path(shutil.copytree(copy_run, tmp_path / 'run'))


def test_a_tokenizer_of_the_same_size_is_refused_too_unless_the_run_is_older(run: Path, capsys) -> None:
    folder = Run(run)
    own, config = folder.read_tokenizer(), folder.read_config()
    other = SentencePieceTokenizer.train(
        read_lines(Path(config.data.root) / 'test.in'),
        vocab_size=own.vocab_size,
        unk_id=own.unk_id,
        byte_fallback=False,
    )
    other.save(run / 'tokenizer')
    assert main(['translate', str(run), 'one']) == 2
    assert 'tokenizer is not the tokenizer that the run began with' in capsys.readouterr().err
    with pytest.raises(UserError, match=r'Restore the one'):
        folder.read_tokenizer()  # training does so when it resumes
    (run / 'tokenizer.sha256').unlink()
    assert folder.read_matching_tokenizer(config).digest == other.digest


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ({'d_model': 16}, r'decoder/layers_0/\S+: \('),
        ({'tie_embeddings': 'none'}, r'embedding\S*: '),
    ],
)
def test_a_config_of_another_model_is_refused_with_the_parameters_that_differ(run: Path, fields, expected: str) -> None:
    values = json.loads((run / 'config.json').read_text())
    assert set(fields) <= set(values['model'])
    values['model'] |= fields
    (run / 'config.json').write_text(json.dumps(values))
    with pytest.raises(UserError, match=rf'was made by another model than the config describes:(.|\n)*{expected}'):
        load_run(run)
