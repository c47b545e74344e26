"""Files that have changed since a run began."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from flax_transformer.common.files import sha256_of
from flax_transformer.data.audit.kinds import KINDS
from flax_transformer.data.audit.report import Example, Finding


def changed_since(recorded: dict[str, tuple[int, str]] | None, files: Iterable[Path] = ()) -> Iterator[Finding]:
    """The finding for files that differ from what a run recorded, if any.

    Args:
      recorded: absolute path -> (bytes, SHA-256 in hexadecimal) of each file the run began with; None: no run.
      files: the corpora's files now; one that was not recorded is new, which is a change too.
    """
    if recorded is None:
        return
    changed = []
    for name, (size, digest) in recorded.items():
        path = Path(name)
        if not path.is_file():
            changed.append(Example(name, 'is no longer there'))
        elif path.stat().st_size != size:
            changed.append(Example(name, f'has {path.stat().st_size:,} bytes, had {size:,}'))
        elif sha256_of(path) != digest:
            changed.append(Example(name, 'has other bytes, though as many'))
    changed += [
        Example(str(file), 'is new') for file in dict.fromkeys(map(Path.absolute, files)) if str(file) not in recorded
    ]
    if changed:
        total = len(recorded.keys() | {example.place for example in changed})
        yield Finding(KINDS['changed'], 'error', 'files', len(changed), total, tuple(changed[:5]))
