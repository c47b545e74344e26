"""Small T5, T5 v1.1, mT5 and MADLAD-400 models of transformers itself against ours: tokens, logits, searches.

Needs torch and transformers; without them each test is skipped by name.
"""

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import t5_folders
from fairseq_folders import LINES
from random_lines import random_line

from flax_transformer import Translator
from flax_transformer.transformer.layers import bucket_of

torch = pytest.importorskip('torch', reason='torch is not installed')
transformers = pytest.importorskip('transformers', reason='transformers is not installed')
from test_against_transformers import Case, compare_beams  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # Theirs, of each other.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning', 'ignore::UserWarning'),
]
NUM_LINES = 40


@dataclass(frozen=True)
class T5Case(Case):
    forces_eos = False

    @property
    def banned(self) -> list[int]:
        """Tags, which no translation of ours has."""
        return list(self.ours.tokenizer.tags_to_ban)

    @property
    def eos_id(self) -> int:
        return self.theirs.config.eos_token_id

    @property
    def forced(self) -> dict[str, Any]:
        return {'suppress_tokens': self.banned} if self.banned else {}


def as_saved(folder: Path, saved: str, out: Path) -> Path:
    """The folder as it is, or as transformers 5 saves it, in shards and with a tokenizer.json alone."""
    if saved == 'before 5':
        return folder
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(out, max_shard_size='50KB')
    assert not (out / 'spiece.model').exists()
    assert len(list(out.glob('model-*.safetensors'))) > 1
    return out


@pytest.fixture(scope='module', params=[(kind, saved) for kind in t5_folders.MODELS for saved in ('before 5', 'by 5')])
def case(request, tmp_path_factory) -> T5Case:
    kind, saved = request.param
    seed = 3 if kind == 'T5' else 0  # its 0 ends every output at once
    folder = t5_folders.write_folder(tmp_path_factory.mktemp('t5'), kind, seed=seed)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.generation_config.update(max_length=25)
    has_tags = kind == 'MADLAD-400'
    lines = LINES[:: len(LINES) // NUM_LINES]
    batch = tokenizer(lines, return_tensors='pt', padding=True)
    if has_tags:  # as SentencePiece splits them; theirs, if made of a spiece.model, has no space
        beginning = tokenizer.convert_tokens_to_ids(['▁', '<2de>'])
        for name, ids in (('input_ids', beginning), ('attention_mask', [1, 1])):
            batch[name] = torch.cat([torch.tensor([ids] * len(lines)), batch[name]], dim=1)
    folder = as_saved(folder, saved, tmp_path_factory.mktemp('saved'))
    language = {'target_language': 'de'} if has_tags else {}
    ours = Translator.from_huggingface(folder, max_tokens=24, **language)
    assert ours.encode(lines)[:, : batch['input_ids'].shape[1]].tolist() == batch['input_ids'].tolist()
    return T5Case(folder, theirs, tokenizer, batch, ours)


def test_buckets_are_those_of_transformers() -> None:
    distance = np.arange(-300, 300)
    bucket = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket
    for is_causal in (False, True):
        visible = distance[distance >= 0] if is_causal else distance
        expected = bucket(-torch.tensor(visible), bidirectional=not is_causal).numpy()
        np.testing.assert_array_equal(bucket_of(visible, is_causal=is_causal), expected)


def test_tokens_and_text_are_equal(case: T5Case) -> None:
    """Theirs, in Rust, loses a combining mark after a space, parts words at any white space, and has spelled pieces."""
    ours, rng = case.ours.tokenizer, np.random.default_rng(0)
    lines = [ours._processor.normalize(random_line(rng).decode('utf-8', 'replace')) for _ in range(500)] + LINES
    lines = [line for line in lines if not any(map(unicodedata.combining, line)) and '<' not in line]
    lines = [line for line in lines if line.split() == line.split(' ')]
    pairs = [(row, own) for row, own in zip(case.tokenizer(lines)['input_ids'], ours.encode(lines), strict=True)]
    # Theirs has no bytes, and takes id 2 for unknown characters, which is MADLAD-400's </s>.
    pairs = [(row, own) for row, own in pairs if 2 not in row[:-1]]
    theirs, ids = zip(*pairs, strict=True)
    assert ids == theirs
    assert len(ids) > 200
    assert [ours.decode(row) for row in ids] == [
        case.tokenizer.decode(row, skip_special_tokens=True).strip() for row in ids
    ]


def logits_of(case: T5Case, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mask = torch.tensor(source != case.ours.tokenizer.pad_id)
    with torch.no_grad():
        inputs = {'input_ids': torch.tensor(source), 'attention_mask': mask, 'decoder_input_ids': torch.tensor(target)}
        theirs = case.theirs(**inputs).logits.numpy()
    return jax.jit(case.ours.model.apply)({'params': case.ours.params}, source, target), theirs


def test_logits_agree_to_1e_4_of_the_largest_beyond_the_farthest_bucket_too(case: T5Case) -> None:
    rng = np.random.default_rng(0)
    for source_slots, target_slots in ((12, 9), (290, 280)):
        source, target = (
            rng.integers(3, case.theirs.config.vocab_size, (3, slots)) for slots in (source_slots, target_slots)
        )
        source[1, source_slots // 2 :] = case.ours.tokenizer.pad_id
        target[:, 0] = case.start_id
        ours, theirs = logits_of(case, source, target)
        difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
        print(case.folder.name, source_slots, difference)
        assert difference < 1e-4
        assert theirs.std() > 0.5


def test_greedy_output_is_equal_token_for_token(case: T5Case) -> None:
    theirs = case.generate(num_beams=1)
    assert len({tuple(output) for output in theirs}) > 5
    assert case.search(beam_width=1) == theirs


def test_beams_are_equal_where_none_ends(case: T5Case) -> None:
    theirs = case.theirs.generate(
        **case.batch, num_beams=4, max_new_tokens=12, suppress_tokens=[case.eos_id, *case.banned]
    )
    ours = case.search(beam_width=4, max_tokens=12, banned_ids=(case.eos_id,))
    equal = sum(a == b for a, b in zip(ours, theirs[:, 1:].tolist(), strict=True))
    print('none ends', equal)
    assert equal >= NUM_LINES - 1  # scores may be as good as equal


def test_beams_differ_only_in_the_rules_that_differ(case: T5Case) -> None:
    print(compare_beams(case, 4, explained=4))
