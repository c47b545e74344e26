"""A document: the texts to translate in a file, and the file with their translations in place."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flax_transformer.tasks.translation.inference.marked import Marked

from . import markup
from .markup import Part

# Tags of messages and subtitles, and line ends.
_PLAIN = re.compile(r'<(?P<close>/)?(?P<name>[A-Za-z]\w*)(?:[\s/][^<>]*)?>|\{\\[^{}]*\}|\r?\n')


class Document(NamedTuple):
    """The units of a file, each of parts that are translated and parts that are kept."""

    units: list[list[Part]]
    write: Callable[[list[str]], str] = ''.join  # the file of the units' texts
    faults: Sequence[str] = ()  # what is amiss, and could be left as it is

    @property
    def lines(self) -> list[Marked]:
        return [part for unit in self.units for part in unit if isinstance(part, Marked)]

    def identity(self) -> str:
        """The file with every text as it was."""
        return self.with_texts([line.raw or line.text for line in self.lines])

    def with_texts(self, texts: Sequence[str]) -> str:
        """The file with these texts in place of `lines`."""
        rest = iter(texts)
        units = [[next(rest) if isinstance(part, Marked) else part for part in unit] for unit in self.units]
        return self.write(list(map(''.join, units)))


def plain_parts(text: str) -> list[Part]:
    """The parts of a text of lines, which may have tags."""
    tokens = markup.tokens_of(text, _PLAIN)
    return markup.split_tokens(tokens, [token.raw.endswith('\n') or token.name.lower() == 'br' for token in tokens])
