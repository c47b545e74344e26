"""DeepL's glossaries, versions 2 and 3 of its API: each for the key that made it."""

import json
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from flax_transformer.tasks.translation.glossary import Glossary

from .errand import Errand
from .fields import Fields, Refused
from .service import Service

_MOST = 1000  # glossaries
_LONGEST = 100  # characters of a term or a translation: the search is compiled for each length
Pair = tuple[str | None, str]  # source and target language


@dataclass
class StoredGlossary:
    """Terms for a pair of languages or, in version 3, for several."""

    name: str
    by_pair: dict[Pair, Glossary]
    owner: str = ''  # the name of a key
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec='milliseconds'))

    def keep(self, service: Service) -> None:
        content = vars(self) | {'by_pair': [[*pair, glossary.terms] for pair, glossary in self.by_pair.items()]}
        service.store('replace into glossaries values (?, ?)', self.id, json.dumps(content))
        service.glossaries[self.id] = self

    def info(self, pair: Pair | None = None) -> dict[str, Any]:
        """The fields of both versions, and those of a pair, by default the first."""
        dictionaries = {
            (source, target): {'source_lang': source, 'target_lang': target, 'entry_count': len(glossary.terms)}
            for (source, target), glossary in self.by_pair.items()
        }
        named = {'glossary_id': self.id, 'name': self.name, 'ready': True, 'creation_time': self.created}
        return {**named, 'dictionaries': list(dictionaries.values()), **dictionaries[pair or next(iter(dictionaries))]}


def restore(service: Service) -> None:
    for (content,) in service.store('select content from glossaries'):
        stored = StoredGlossary(**json.loads(content))
        stored.by_pair = {(source, target): Glossary(terms) for source, target, terms in stored.by_pair}
        service.glossaries[stored.id] = stored


def _seen(service: Service, owner: str, *, to_change: bool = False) -> list[StoredGlossary]:
    """The glossaries that the owner of a key may change, or else use."""
    owners = [owner] if to_change else [owner, service.shared or owner]
    # Another thread may add some meanwhile.
    return [stored for stored in list(service.glossaries.values()) if stored.owner in owners]


def find(service: Service, fields: Fields, owner: str, *, to_change: bool = False) -> tuple[StoredGlossary, Pair]:
    """The glossary that a request names, and its pair of languages, by default the first. Raises Refused."""
    identifier = fields.text('glossary_id')
    stored = service.glossaries.get(identifier)
    if stored not in _seen(service, owner, to_change=to_change):
        raise Refused(404, f'{identifier[:80]} is no glossary here; /v3/glossaries lists what there is')
    if 'source_lang' not in fields:
        return stored, next(iter(stored.by_pair))
    pair = service.served.pair(fields.text('source_lang'), fields.text('target_lang'))
    if pair not in stored.by_pair:
        raise Refused(404, f'The glossary {identifier} has no terms from {pair[0]} to {pair[1]}')
    return stored, pair


async def create(service: Service, request: Request) -> Response:
    fields = await service.read(request)

    def make(errand: Errand) -> StoredGlossary:
        owner = request.state.owner
        if len(_seen(service, owner, to_change=True)) >= _MOST:
            raise Refused(413, f'{_MOST} glossaries are kept here, and no more; delete some')
        stored = StoredGlossary(_name(fields), {}, owner)
        stored.by_pair = _read(service, fields, stored)
        stored.keep(service)
        return stored

    return JSONResponse((await service.run(request, make)).info(), 201)


async def show_all(service: Service, request: Request) -> Any:
    await service.read(request)
    return {'glossaries': [stored.info() for stored in _seen(service, request.state.owner)]}


async def show(service: Service, request: Request) -> Any:
    stored, _ = find(service, await service.read(request), request.state.owner)
    return stored.info()


async def update(service: Service, request: Request) -> Any:
    """Renames a glossary and adds terms to it; with PUT, replaces those of a pair of languages."""
    fields = await service.read(request)
    replaces = request.method == 'PUT'

    def change(errand: Errand) -> dict[str, Any]:
        named = Fields(glossary_id=fields.text('glossary_id'))  # the pair may be new
        stored, _ = find(service, named, request.state.owner, to_change=True)
        name = _name(fields, stored.name)
        added = _read(service, fields, stored, replaces) if {'dictionaries', 'entries'} & fields.keys() else {}
        stored = replace(stored, name=name, by_pair=stored.by_pair | added)
        stored.keep(service)
        return stored.info(next(iter(added), None) if replaces else None)

    return await service.run(request, change)


async def delete(service: Service, request: Request) -> Response:
    """Deletes a glossary, or only its terms for the pair of languages that is named."""
    fields = await service.read(request)
    if 'source_lang' not in fields and request.url.path.endswith('dictionaries'):
        raise Refused(400, 'source_lang and target_lang: expected both')

    def drop(errand: Errand) -> Response:
        stored, pair = find(service, fields, request.state.owner, to_change=True)
        left = {other: glossary for other, glossary in stored.by_pair.items() if other != pair}
        if 'source_lang' in fields and left:
            replace(stored, by_pair=left).keep(service)
        else:
            service.store('delete from glossaries where id = ?', stored.id)
            del service.glossaries[stored.id]
        return Response(status_code=204)

    return await service.run(request, drop)


async def entries(service: Service, request: Request) -> Any:
    """Terms and translations as TSV; in version 3 within JSON."""
    fields = await service.read(request)
    stored, pair = find(service, fields, request.state.owner)
    if 'source_lang' not in fields:
        return Response(stored.by_pair[pair].tsv, media_type='text/tab-separated-values')
    named = {'source_lang': pair[0], 'target_lang': pair[1], 'entries_format': 'tsv'}
    return {'dictionaries': [{**named, 'entries': stored.by_pair[pair].tsv}]}


def _name(fields: Fields, default: str | None = None) -> str:
    if len(name := fields.text('name', default)) > _LONGEST:
        raise Refused(400, f'name has {len(name)} characters; expected at most {_LONGEST}')
    return name


def _read(service: Service, fields: Fields, stored: StoredGlossary, replaces: bool = False) -> dict[Pair, Glossary]:
    """The terms that a client sends, added to those that `stored` has unless it `replaces` them.

    Raises Refused, or UserError with the line.
    """
    added: dict[Pair, Glossary] = {}
    for part in fields.objects('dictionaries') if 'dictionaries' in fields else [fields]:
        pair = service.served.pair(part.text('source_lang'), part.text('target_lang'))
        form = part.choice('entries_format', 'tsv', 'csv')
        added[pair] = Glossary.from_text(part.text('entries'), 'entries', form)
        for term, targets in added[pair].terms.items():
            if (longest := max(map(len, (term, *targets)))) > _LONGEST:
                raise Refused(400, f'entries: {term[:20]!r} has {longest} characters; expected at most {_LONGEST}')
        if pair in stored.by_pair and not replaces:
            added[pair] = Glossary(stored.by_pair[pair].terms | added[pair].terms)
    kept = list((stored.by_pair | added).values())
    for other in _seen(service, stored.owner, to_change=True):
        if other is not stored:
            kept += other.by_pair.values()
    count = sum(len(glossary.terms) for glossary in kept)
    if count > service.limits.max_terms:
        most = service.limits.max_terms
        raise Refused(413, f'{count} terms in all glossaries: this server keeps {most}; delete some')
    return added


_ROUTES = {
    ('POST', ''): create,
    ('GET', ''): show_all,
    ('GET', '/{glossary_id}'): show,
    ('PATCH', '/{glossary_id}'): update,
    ('DELETE', '/{glossary_id}'): delete,
    ('GET', '/{glossary_id}/entries'): entries,
    ('PUT', '/{glossary_id}/dictionaries'): update,
    ('DELETE', '/{glossary_id}/dictionaries'): delete,
}
ROUTES = {
    (method, f'/{version}/glossaries{path}'): handler
    for version in ('v2', 'v3')
    for (method, path), handler in _ROUTES.items()
}
