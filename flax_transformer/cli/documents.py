"""`flax-transformer translate RUN --input a.html --output b.html`: documents, by way of their texts as lines."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from flax_transformer.common.chunks import chunks_of
from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.lines import read_lines
from flax_transformer.tasks.translation.documents.formats import read_document

from .lines import CHUNK, LineWriter
from .options import note
from .records import Record


def translate_document(options: Any, load: Callable[[], Any], translate: Callable[..., Counter[str]]) -> Counter[str]:
    """Translates a document; returns how many translations of its texts have each flag.

    Until the document is whole, the translations are in a file of their own next to it, a line each.

    Args:
      load: gives the translator, once the document is known to be sound.
      translate: translates chunks of records and writes lines.
    """
    is_unfit = options.format != 'text' or options.decoding.n_best > 1 or options.alignments or options.show_attention
    if is_unfit or options.shard or (options.resume and not options.output):
        raise UserError(
            f'the input is a document ({options.input_format}): leave out --format, --n-best, --alignments, '
            '--shard and --show-attention, which are for lines; give --resume with --output'
        )
    place = str(options.input or 'standard input')
    output = options.output
    content = options.input.read_bytes() if options.input else sys.stdin.buffer.read()
    document = read_document(content, options.input_format, place)
    for fault in document.faults:
        note(fault)
    records = [Record(line.text, marked=line) for line in document.lines]
    if output is None:
        lines: list[str] = []
        counts = translate(load(), options, chunks_of(records, CHUNK), lines.extend, done=0, place=f'{place}: text')
        sys.stdout.write(document.with_texts(list(map(json.loads, lines))))
        return counts
    if output.exists():
        raise UserError(f'{output} is there already; give another --output')
    partial = output.with_name(f'{output.name}.lines')
    with LineWriter(partial, resume=options.resume) as writer:
        done = writer.num_before
        chunks = chunks_of(records[done:], CHUNK)
        counts = translate(load(), options, chunks, writer.write, done=done, place=f'{place}: text')
    lines = read_lines(partial)
    if len(lines) != len(records):
        raise UserError(f'{partial} has {len(lines)} lines, {place} {len(records)} texts; delete {partial}')
    write_whole(output, document.with_texts(list(map(json.loads, lines))))
    partial.unlink()
    return counts
