"""How text is split into pieces."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.fields import check, check_positive, check_types


@dataclass(frozen=True)
class TokenizerConfig:
    """SentencePiece, trained once on both sides of the training pairs and kept in the run directory."""

    algorithm: Literal['bpe', 'unigram'] = 'bpe'  # how SentencePiece chooses its pieces
    normalization: Literal['identity', 'nfkc', 'nmt_nfkc'] = 'identity'  # identity: every line survives the round trip
    byte_fallback: bool = True  # spell characters outside the vocabulary as UTF-8 bytes, not unk (256 pieces)
    character_coverage: float = 0.9999  # share of the text's characters that get their own piece
    unk_id: int = 2  # of the piece for what no other piece can spell
    max_sentences: int = 500_000  # pairs it is trained on, evenly spaced if there are more

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'max_sentences')
        check(0.9 <= self.character_coverage <= 1.0, f'character_coverage={self.character_coverage}: expected 0.9 to 1')
        check(self.unk_id >= 0, f'unk_id={self.unk_id}: expected at least 0')
