"""The digest of the tokenizer that a run began with: another one of the same size would load and give garbage."""

import contextlib
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, write_whole

DIGEST_FILE = 'tokenizer.sha256'  # next to the folder `tokenizer`; older runs have none


def write_digest(run: Path, digest: str) -> None:
    write_whole(run / DIGEST_FILE, digest + '\n')


def check_digest(run: Path, digest: str) -> None:
    """Raises UserError if the run began with another tokenizer than that of this digest."""
    with contextlib.suppress(FileNotFoundError):  # of an older run
        if read_limited(run / DIGEST_FILE, 1000).strip() != digest.encode():
            raise UserError(
                f'{run / "tokenizer"} is not the tokenizer that the run began with: its digest is not that in '
                f'{DIGEST_FILE}. Restore the one that the run was trained with'
            )
