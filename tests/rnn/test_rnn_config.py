"""What the recurrent config refuses."""

import re

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.rnn.config import RecurrentConfig


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'hidden_size': 0}, 'hidden_size=0: expected at least 1'),
        ({'attention_size': 0}, 'attention_size=0: expected at least 1, or None'),
        ({'attention_size': 4, 'attention': 'none'}, "no effect with attention='none'; it is for additive"),
        ({'cell': 'ltsm'}, "cell='ltsm': expected one of lstm, gru"),
        ({'target_vocab_size': 5}, "tie_embeddings='all' shares one table"),
        ({'eos_id': 40_000}, 'expected an id from 0 to vocab_size - 1'),
        ({'pad_id': 1}, 'pad_id and eos_id are both 1'),
        ({'num_encoder_layers': 101}, 'expected at most 100'),
    ],
)
def test_faults_are_refused(fields, message) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        RecurrentConfig(**fields)
