"""`flax-transformer translate RUN --input a.html --output b.html`: documents, by way of their texts as lines."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flax_transformer.cli.lines import CHUNK, LineWriter
from flax_transformer.cli.options import note
from flax_transformer.cli.records import Record
from flax_transformer.common.chunks import chunks_of
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.documents.formats import read_document


def translate_document(options: Any, load: Callable[[], Any], translate: Callable[..., Counter[str]]) -> Counter[str]:
    """Translates a document; returns how many translations of its texts have each flag.

    Until the document is whole, the translations are in a file of their own next to it, a line each.

    Args:
      load: gives the translator, once the document is known to be sound.
      translate: translates chunks of records and writes lines.
    """
    _check(options)
    place = str(options.input or 'standard input')
    content = sys.stdin.buffer.read() if options.input is None else options.input.read_bytes()
    document = read_document(content, options.input_format, place)
    for fault in document.faults:
        note(fault)
    records = [Record(line.text, marked=line) for line in document.lines]
    done: list[str] = []
    with contextlib.ExitStack() as stack:
        write, first = done.extend, 0
        if options.output is not None:
            partial = _partial(options.output)
            writer = stack.enter_context(LineWriter(partial, resume=options.resume))
            write, first = writer.write, writer.num_before
        chunks = chunks_of(records[first:], CHUNK)
        counts = translate(load(), options, chunks, write, done=first, place=f'{place}: text')
    lines = done if options.output is None else read_lines(partial)
    if len(lines) != len(records):
        raise UserError(f'{partial} has {len(lines)} lines, and {place} {len(records)} texts: begin anew')
    result = document.with_texts([json.loads(line) for line in lines])
    if options.output is None:
        sys.stdout.write(result)
    else:
        write_whole(options.output, result.encode())
        partial.unlink()
    return counts


def _partial(output: Path) -> Path:
    return output.with_name(f'{output.name}.lines')


def _check(options: Any) -> None:
    """Raises UserError for options that are for lines, and for a file that there is already."""
    unfit = {
        '--format jsonl': options.format != 'text',
        '--n-best': options.decoding.n_best > 1,
        '--alignments': options.alignments is not None,
        '--show-attention': options.show_attention,
        '--shard': options.shard is not None,
        '--resume without --output': options.resume and options.output is None,
    }
    if got := [name for name, is_given in unfit.items() if is_given]:
        raise UserError(f'{got[0]} is for lines, and the input a document ({options.input_format}): leave it out')
    if (
        options.output is not None
        and options.output.exists()
        and (options.output.is_dir() or options.output.stat().st_size)
    ):
        raise UserError(f'{options.output} is there already; give another --output')
