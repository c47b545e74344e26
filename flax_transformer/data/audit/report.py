"""What an audit found, for people and for programs."""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, get_args

from flax_transformer.common.errors import UserError

from .kinds import Kind, Severity

EXAMPLES = 5  # shown for each kind in a corpus
_LONGEST = 160  # characters of an example that are printed
_SEVERITIES = get_args(Severity)
Example = dict[str, str]  # place: file and line of the faulty side; and the text of each column


@dataclass(frozen=True)
class Finding:
    about: Kind
    severity: Severity
    corpus: str  # its name, or what else it concerns: training, files
    count: int
    total: int  # pairs, lines or files; 0: of nothing that is counted
    examples: tuple[Example, ...] = ()
    detail: str = ''

    @property
    def kind(self) -> str:
        return self.about.name

    def __str__(self) -> str:
        share = f' of {self.total:,} ({self.count / self.total:.2%})' if 0 < self.total >= self.count else ''
        lines = [f'{self.severity}: {self.corpus}: {self.kind}: {self.count:,}{share}', f'  {self.about.what}']
        if self.detail:
            lines.append(f'  {self.detail}')
        for example in self.examples:
            place, *texts = example.values()
            lines.append(f'    {place}')
            lines += [f'      {_visible(text)}' for text in texts if text]
        lines.append(f'  Training {self.about.training}. Remedy: {self.about.remedy}.')
        return '\n'.join(lines)


def findings_of(
    kind: Kind, corpus: str, count: int, total: int, examples: Iterable[Example] = (), detail: str = ''
) -> list[Finding]:
    """The finding of a kind, with its first examples; none if nothing shows it."""
    if not count:
        return []
    shown = tuple(itertools.islice(examples, EXAMPLES))
    return [Finding(kind, kind.severity_of(count, total), corpus, count, total, shown, detail)]


class Rows(NamedTuple):
    """A corpus in memory: where each row comes from, and the columns that examples show."""

    name: str
    places: Sequence[str]
    columns: dict[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.places)

    def findings(self, kind: Kind, rows: Iterable[int], detail: str = '', *, total: int | None = None) -> list[Finding]:
        """The finding of a kind that these rows show, if there are any; `total` is None for all rows."""
        rows = list(rows)
        examples = (
            {'place': self.places[row]} | {name: column[row] for name, column in self.columns.items()} for row in rows
        )
        return findings_of(kind, self.name, len(rows), len(self) if total is None else total, examples, detail)


@dataclass(frozen=True)
class Report:
    """All findings, most serious first, and how much of each corpus was read."""

    findings: tuple[Finding, ...]
    pairs: dict[str, int]  # how many were read
    only_begun: tuple[str, ...] = ()  # corpora of which only the beginning was read
    unit: str = 'pairs'  # what a corpus consists of

    @property
    def errors(self) -> tuple[Finding, ...]:
        return self._with('error')

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self._with('warning')

    def _with(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def summary(self) -> str:
        first = dict.fromkeys(self.only_begun, 'first ')
        read = ', '.join(f'{name} ({first.get(name, "")}{count:,})' for name, count in self.pairs.items())
        counts = {severity: len(self._with(severity)) for severity in _SEVERITIES}
        numbers = ', '.join(f'{count} {severity}{"s" * (count != 1)}' for severity, count in counts.items())
        return f'checked {read}: {numbers}'

    def __str__(self) -> str:
        return '\n\n'.join([*map(str, self.findings), self.summary()])

    def announce(self, say: Callable[[str], None], errors: str = '{}') -> None:
        """Says what to know before training starts, or raises UserError, worded as `errors`."""
        if self.errors:
            raise UserError(errors.format('\n\n'.join(map(str, self.errors))))
        for warning in self.warnings:
            say(str(warning).partition('\n')[0] + (f': {warning.detail}' if warning.detail else ''))
        say(self.summary() + ('; `flax-transformer check` with this config shows them' if self.findings else ''))

    def to_json(self) -> str:
        """A JSON object, with what training does about each kind and the remedy."""
        findings = []
        for finding in self.findings:
            fields = asdict(finding)
            about = finding.about
            del fields['about']
            findings.append({'kind': about.name, **fields, 'training': about.training, 'remedy': about.remedy})
        whole = {self.unit: self.pairs, 'only_begun': self.only_begun, 'findings': findings}
        return json.dumps(whole, ensure_ascii=False)


def sorted_report(
    findings: Iterable[Finding],
    pairs: dict[str, int],
    only_begun: tuple[str, ...] = (),
    *,
    kinds: Iterable[str],
    unit: str = 'pairs',
) -> Report:
    """A report with the most serious findings first, otherwise in the order of `kinds`."""
    order = list(kinds)

    def rank(finding: Finding) -> tuple[int, int]:
        return _SEVERITIES.index(finding.severity), order.index(finding.kind)

    return Report(tuple(sorted(findings, key=rank)), pairs, only_begun, unit)


def _visible(text: str) -> str:
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'
    return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode('ascii') for c in text)
