"""The server's own API, `/v1`: all that the translator knows of each line."""

import asyncio
from dataclasses import asdict
from typing import Any

import numpy as np
from starlette.requests import Request

from flax_transformer.tasks.translation.inspection import attended
from flax_transformer.tasks.translation.learning.memory import Memory

from .errand import Errand
from .fields import Refused
from .job import Job
from .service import Reply, Service

_MATCHES = 3  # pairs of the memory that are shown with a text


async def translate(service: Service, request: Request) -> Any:
    """Scores, flags, tokens, n best and, if asked for, the alignment of each line of each text."""
    fields = await service.read(request)
    texts = service.texts(fields, 'text')
    source = fields.text('source', '')
    target = fields.text('target')
    options = {'alternatives': fields.number('alternatives', 0), 'alignment': fields.flag('alignment')}
    replies = await service.translate(request, texts, source, target, **options)
    records = [_record(reply) for reply in replies]
    if service.teaching and fields.flag('memory'):
        memory = service.teaching.memory(request.state.owner)
        for record, text in zip(records, texts, strict=True):
            record['memory'] = await asyncio.to_thread(_matches, memory, text, (record['source'], record['target']))
    return {'translations': records}


def _matches(memory: Memory, text: str, languages: tuple[str, str]) -> list[dict[str, Any]]:
    matches = [match for line in filter(str.strip, text.split('\n')) for match in memory.near(line, languages)]
    matches.sort(key=lambda match: -match.similarity)
    return [
        {'similarity': round(match.similarity, 2), 'number': match.pair.number}
        | {'text': match.pair.source, 'translation': match.pair.target}
        for match in matches[:_MATCHES]
    ]


async def attention(service: Service, request: Request) -> Any:
    """What each piece of a translated line attended to: [T, S] weights, each row about 1 in sum."""
    fields = await service.read(request)
    line, *_ = service.texts(fields, 'text')
    text, *_ = service.texts(fields, 'translation')
    if '\n' in line or not line.strip():
        raise Refused(400, 'text: expected one line that is not blank')
    languages = fields.text('source'), fields.text('target')

    def work(errand: Errand) -> Any:
        ((direction, _),) = service.served.directions([line], *languages)
        tokenizer = direction.best.tokenizer
        most = direction.best.decoding.max_source_tokens
        ids = {'text': tokenizer.encode([line])[0], 'translation': tokenizer.encode_target([text])[0]}
        for name, tokens in ids.items():
            if len(tokens) > most:  # its shape would be compiled, for minutes
                raise Refused(400, f'{name}: {len(tokens)} tokens; a map of attention takes {most} at most: send less')

        def see(lines: list[str]) -> list[Any]:
            return [attended(direction.best, line, text) for line in lines]

        slots = direction.best.runner.slots(max(map(len, ids.values())))
        program = direction.best.program_of_links(1, slots)
        kind = direction.best, program.shapes
        return errand.results([Job(errand.client, line, see, kind, needs=lambda size: [program])])[0]

    source, target, weights = await service.run(request, work, len(line))
    return {'source': source, 'target': target, 'weights': np.round(weights.astype(float), 4).tolist()}


def _record(reply: Reply) -> dict[str, Any]:
    direction = reply.direction
    lines = [asdict(line) | {'doubtful': line.doubtful} for line in reply.lines]
    for line in lines:
        line['n_best'] = [{name: other[name] for name in ('text', 'score', 'log_prob')} for other in line['n_best']]
    named = {'source': direction.source, 'confidence': round(reply.confidence)}
    named |= {'target': direction.target, 'model': direction.model, 'version': direction.version}
    return {'text': reply.text, **named, 'alternatives': reply.alternatives, 'lines': lines}


ROUTES = {('POST', '/v1/translate'): translate, ('POST', '/v1/attention'): attention}
