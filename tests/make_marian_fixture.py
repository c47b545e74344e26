"""Writes tests/fixtures/marian: a small model by transformers, in every form, with what it computes. Needs torch.

    python tests/make_marian_fixture.py

The tests read the fixture without torch; run this again only where the fixture is to change.
"""

import json
from pathlib import Path

import beam_reference
import marian_folders
import numpy as np
import torch
from num2words import num2words
from transformers import MarianTokenizer

FOLDER = Path(__file__).parent / 'fixtures' / 'marian'
LINES = [num2words(n) for n in (0, 7, 21, 100, 345, 999, 4807, 29_999)] + [
    '>>fra<< forty-two',
    '>>xyz<< forty-two',
    '  spaces   and\ttabs ',
    'Ünknown ☃ pieces, ﬁgures ½',
    'a </s> in the <unk> middle <pad>',
    '',
]


def log_probs(model, inputs: dict, pad: int):
    """A function from hypotheses to the renormalized log-probabilities of the next token, without the pad."""

    def rows(hypotheses: list[tuple[int, ...]]) -> list[np.ndarray]:
        repeated = {name: array.expand(len(hypotheses), -1) for name, array in inputs.items()}
        with torch.no_grad():
            start = torch.tensor([[pad, *tokens] for tokens in hypotheses])
            logits = model(**repeated, decoder_input_ids=start).logits[:, -1]
        logits[:, pad] = -torch.inf
        return list(torch.log_softmax(logits, -1).numpy().astype(np.float64))

    return rows


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    sizes = marian_folders.write_tokenizer(FOLDER, *marian_folders.number_words_models())
    generation = {'num_beams': 4, 'max_length': 20, 'length_penalty': 0.9, 'renormalize_logits': True}
    model = marian_folders.write_model(
        FOLDER,
        sizes,
        seed=0,
        generation=generation | {'bad_words_ids': [[sizes['vocab.json'] - 1]]},
        **{'d_model': 16, 'encoder_layers': 1, 'encoder_ffn_dim': 24, 'decoder_ffn_dim': 24},
        **{'encoder_attention_heads': 2, 'decoder_attention_heads': 2},
    )
    state = {name: tensor for name, tensor in model.state_dict().items() if 'embed_positions' not in name}
    torch.save(state, FOLDER / 'zip.bin')
    torch.save(state, FOLDER / 'legacy.bin', _use_new_zipfile_serialization=False)
    torch.save({name: tensor.bfloat16() for name, tensor in state.items()}, FOLDER / 'bfloat16.bin')

    tokenizer = MarianTokenizer.from_pretrained(FOLDER)
    batch = tokenizer(LINES, return_tensors='pt', padding=True)
    outputs = {
        'greedy': model.generate(**batch, num_beams=1),
        'beam': model.generate(**batch, early_stopping='never'),
    }
    pad, limit = sizes['vocab.json'] - 1, generation['max_length'] - 1
    by_our_rules = []
    for line in range(len(LINES)):
        rows = log_probs(model, {name: array[line : line + 1] for name, array in batch.items()}, pad)
        common = {'width': 4, 'limit': limit, 'eos_id': 0, 'alpha': generation['length_penalty']}
        theirs = beam_reference.beam_search(rows, **common, ends_among='best', bound='longest')
        assert outputs['beam'][line, 1 : 1 + len(theirs)].tolist() == list(theirs), LINES[line]
        by_our_rules.append(beam_reference.beam_search(rows, **common))
    with torch.no_grad():
        memory = model.model.encoder(**batch).last_hidden_state
        logits = model(**batch, decoder_input_ids=outputs['greedy'][:, :8]).logits
    np.savez_compressed(FOLDER / 'expected.npz', memory=memory, target_in=outputs['greedy'][:, :8], logits=logits)
    expected = {
        'lines': LINES,
        'ids': [tokenizer(line).input_ids for line in LINES],
        'target_ids': [tokenizer(text_target=line).input_ids for line in LINES],
        **{name: tokens[:, 1:].tolist() for name, tokens in outputs.items()},
        'beam_by_our_rules': by_our_rules,
        'texts': tokenizer.batch_decode(outputs['beam'], skip_special_tokens=True, use_source_tokenizer=False),
    }
    (FOLDER / 'expected.json').write_text(json.dumps(expected, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
