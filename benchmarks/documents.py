"""Documents that come back to the byte: `python benchmarks/documents.py FOLDER`; JSON lines.

`documents.txt` lists 300 public files. FOLDER has them as OWNER/NAME/PATH; `--clone` puts them there with git. Each is
read, its texts are put back as they were by a translator that returns its input, and the bytes are compared.
"""

import argparse
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.documents.formats import format_of, read_document
from flax_transformer.tasks.translation.inference.aside import translate_aside
from flax_transformer.tasks.translation.inference.result import Translation

LIST = Path(__file__).with_suffix('.txt')


def listed() -> Iterator[tuple[str, str, list[str]]]:
    """Yields (repository, commit, paths)."""
    for group in LIST.read_text(encoding='utf-8').replace('\n    ', '\t').splitlines():
        first, *paths = group.split('\t')
        repository, commit = first.split(' ')
        yield repository, commit, paths


def clone(folder: Path) -> None:
    for repository, commit, paths in listed():
        git = ['git', '-C', str(folder / repository)]
        (folder / repository).mkdir(parents=True)
        subprocess.run([*git, 'init', '--quiet'], check=True)
        address = f'https://github.com/{repository}'
        subprocess.run([*git, 'fetch', '--quiet', '--depth', '1', address, commit], check=True)
        subprocess.run([*git, 'checkout', '--quiet', commit, '--', *paths], check=True)


def identity(lines: Sequence[str], **_: object) -> list[Translation]:
    """Translations that are their sources."""
    counts = [len(line.split()) for line in lines]
    return [
        Translation(line, 0.0, 0.0, count, alignment=tuple((i, i) for i in range(count)))
        for line, count in zip(lines, counts, strict=True)
    ]


def difference(before: bytes, after: bytes) -> str:
    """Where they first differ, and what is there."""
    if before == after:
        return ''
    pairs = zip(before, after, strict=False)
    at = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))
    start = max(at - 30, 0)
    line = before.count(b'\n', 0, at) + 1
    return f'byte {at}, line {line}: {before[start : at + 30]!r} became {after[start : at + 30]!r}'


def outcome_of(path: Path) -> tuple[str, str, str]:
    """The format of a file, what became of it, and why."""
    if not path.exists():
        return path.suffix, 'missing', 'put it there, or give --clone'
    before = path.read_bytes()
    form = path.suffix
    try:
        form = format_of(path)
        document = read_document(before, form, path.name)
    except UserError as error:
        return form, 'refused', str(error)
    # What is translated elsewhere in the file, as in PO, is not: there it is new.
    document = document._replace(units=[unit for unit in document.units if unit.source is None])
    texts = [translation.text for translation in translate_aside(identity, document.lines)]
    why = difference(before, document.with_texts(texts).encode())
    return form, 'changed' if why else 'identical', why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('folder', type=Path)
    parser.add_argument('--clone', action='store_true')
    options = parser.parse_args()
    if options.clone:
        clone(options.folder)

    counts = defaultdict(Counter)
    for repository, _, paths in listed():
        for path in paths:
            form, outcome, why = outcome_of(options.folder / repository / path)
            counts[form][outcome] += 1
            if outcome != 'identical':
                print(json.dumps({outcome: f'{repository}/{path}', 'why': why}, ensure_ascii=False), flush=True)
    for form, outcomes in counts.items():
        print(json.dumps({'format': form, 'files': outcomes.total(), **outcomes}))


if __name__ == '__main__':
    main()
