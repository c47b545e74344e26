"""What an audit found, for people and for programs."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.kinds import KINDS, Kind, Severity

EXAMPLES = 5  # shown for each kind in a corpus
_LONGEST = 160  # characters of an example that are printed


@dataclass(frozen=True)
class Example:
    """A pair that shows a fault. `place` is the file and line of the faulty side."""

    place: str
    source: str
    target: str = ''


@dataclass(frozen=True)
class TextExample:
    """A text, or what is said in a recording, that shows a fault."""

    place: str
    text: str


@dataclass(frozen=True)
class Finding:
    """A kind of fault in a corpus."""

    about: Kind
    severity: Severity
    corpus: str  # its name, or what else it concerns: training, files, language en
    count: int
    total: int  # pairs, lines or files
    examples: tuple[Example, ...] = ()
    detail: str = ''

    @property
    def kind(self) -> str:
        return self.about.name

    def __str__(self) -> str:
        kind = self.about
        share = f' of {self.total:,} ({self.count / self.total:.2%})' if 0 < self.total >= self.count else ''
        lines = [f'{self.severity}: {self.corpus}: {self.kind}: {self.count:,}{share}', f'  {kind.what}']
        if self.detail:
            lines.append(f'  {self.detail}')
        for example in self.examples:
            place, *texts = vars(example).values()
            lines += [f'    {place}', *(f'      {visible(text)}' for text in texts if text)]
        lines.append(f'  Training {kind.training}. Remedy: {kind.remedy}.')
        return '\n'.join(lines)


@dataclass(frozen=True)
class Report:
    """All findings, most serious first, and how many pairs each corpus has."""

    findings: tuple[Finding, ...]
    pairs: dict[str, int]  # how many were read
    only_begun: tuple[str, ...] = ()  # corpora of which only the first pairs were read
    unit: str = 'pairs'  # what a corpus consists of

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return self.of('error')

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self.of('warning')

    def summary(self) -> str:
        """One line: what was read and how much was found."""
        first = {name: 'first ' for name in self.only_begun}
        read = ', '.join(f'{name} ({first.get(name, "")}{count:,})' for name, count in self.pairs.items())
        counts = {severity: len(self.of(severity)) for severity in get_args(Severity)}
        found = ', '.join(f'{count} {severity}{"s" * (count != 1)}' for severity, count in counts.items())
        return f'checked {read}: {found}'

    def __str__(self) -> str:
        return '\n\n'.join([*map(str, self.findings), self.summary()])

    def announce(self, say: Callable[[str], None], errors: str = '{}') -> None:
        """Says what to know before training starts. Raises UserError, worded as `errors`, if it must not start."""
        if self.errors:
            raise UserError(errors.format('\n\n'.join(map(str, self.errors))))
        for warning in self.warnings:
            say(str(warning).partition('\n')[0] + (f': {warning.detail}' if warning.detail else ''))
        say(self.summary() + ('; `flax-transformer check` with this config shows them' if self.findings else ''))

    def to_json(self) -> str:
        """A JSON object, with what training does about each kind and the remedy."""
        findings = [
            {'kind': each.kind, **asdict(each), 'training': each.about.training, 'remedy': each.about.remedy}
            for each in self.findings
        ]
        for each in findings:
            del each['about']
        whole = {self.unit: self.pairs, 'only_begun': self.only_begun, 'findings': findings}
        return json.dumps(whole, ensure_ascii=False)


def findings_of(
    kind: Kind, corpus: str, count: int, total: int, examples: Iterable[Any] = (), detail: str = ''
) -> Iterator[Finding]:
    """The finding of a kind with its first examples, if anything shows it."""
    if count:
        shown = tuple(itertools.islice(examples, EXAMPLES))
        yield Finding(kind, kind.severity(count, total), corpus, count, total, shown, detail)


def sorted_report(
    findings: Sequence[Finding],
    pairs: dict[str, int],
    only_begun: tuple[str, ...] = (),
    *,
    kinds: Iterable[str] = KINDS,
    unit: str = 'pairs',
) -> Report:
    """A report with the most serious findings first, otherwise in the order of `kinds`."""
    order, severities = list(kinds), get_args(Severity)
    return Report(
        tuple(sorted(findings, key=lambda found: (severities.index(found.severity), order.index(found.kind)))),
        pairs,
        only_begun,
        unit,
    )


def visible(text: str) -> str:
    """A line to print: invisible characters as escapes, and not too long."""
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'
    return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode('ascii') for c in text)
