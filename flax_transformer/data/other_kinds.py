"""Files that are not plain text, recognized by how they begin: what they are, and what to do."""

import re
from collections.abc import Sequence
from pathlib import Path

from flax_transformer.common.errors import BadInput

_SEGMENTS = 'write its segments to a text file for each language, a segment on each line'
_KINDS = tuple(
    (re.compile(beginning, re.IGNORECASE), kind, remedy)
    for beginning, kind, remedy in (
        (rb'PK\x03\x04', 'a zip archive', 'unpack it and name the text files in it; those of OPUS have one a language'),
        (rb'\x1f\x8b|BZh\d1AY|\xfd7zXZ|\x28\xb5\x2f\xfd', 'compressed', 'end its name in .gz, .bz2, .xz or .zst'),
        (rb'\xff\xfe|\xfe\xff', 'in UTF-16', 'convert it with `iconv -f UTF-16 -t UTF-8`'),
        (
            rb'\x80[\x02-\x05]|\x93NUMPY',
            "a pickle or an array of NumPy's",
            "write it as text; gensim's vectors by their save_word2vec_format",
        ),
        (
            rb'\s*<(\?xml|!doctype|tmx|xliff|srcset|refset|tstset|mteval|doc\s[^>]*docid)\b',
            "XML or SGML, as TMX, XLIFF and WMT's .sgm are",
            rf"{_SEGMENTS}, for example with `sed -n 's/.*<seg[^>]*>\(.*\)<\/seg>.*/\1/p'` if they are in <seg>",
        ),
        (rb'(#.*\n|\s+)*msgid\s+"', 'a message catalogue (.po)', _SEGMENTS),
        (rb'WEBVTT|\s*\d+\r?\n\d\d:\d\d:\d\d[,.]\d\d\d -->', 'subtitles (.srt, .vtt)', _SEGMENTS),
    )
)


def check_plain(path: Path, suffix: str, lines: Sequence[bytes]) -> None:
    """Raises BadInput for a file whose first lines, or the suffix of its content, are those of another kind."""
    begin = b''.join(line[:400] for line in lines[:20]).removeprefix(b'\xef\xbb\xbf')
    for beginning, kind, remedy in _KINDS:
        if beginning.match(begin):
            raise BadInput(f'{path} is {kind}; expected plain text in UTF-8: {remedy}')
    if suffix == '.csv':
        raise BadInput(
            f'{path} has columns separated by commas; expected plain text: write it with tabs, as .tsv; if each line '
            'is a sentence, name it .txt'
        )
