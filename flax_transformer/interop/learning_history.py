"""How a run learned to translate a line, by its checkpoints."""

import json
import math
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.finished import steps_of
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.inspection import attended


def learning_history(run: Path, line: str) -> bytes:
    """JSON: what up to 12 checkpoints translate, their attention [T, S] over the last one's, and [kind, step, loss]."""
    if not line.strip():
        raise UserError('--history: got an empty line, expected a sentence')
    run = open_run(run, 'translation').path
    steps = steps_of(run / 'checkpoints')
    if len(steps) < 2:
        raise UserError(f'{run} keeps {len(steps)} checkpoints, expected several; train with --training.keep-last 12')
    steps = steps[:: -len(steps) // 12][::-1]
    last = Translator.from_run(run, step=steps[-1], literals='ignored')
    translation = last(line)
    if translation.split:
        raise UserError('--history: got a text that is translated in parts, expected one sentence')
    checkpoints = []
    for step in steps:
        translator = last.with_params(Translator.from_run(run, step=step).params)
        source, target, weights = attended(translator, line, translation.token_ids)
        weights = weights.astype(float).round(2).tolist()
        checkpoints.append({'step': step, 'text': translator(line).text, 'weights': weights})
    losses = [
        (record['kind'], record['step'], record['loss'])
        for record in read_metrics(run)
        if math.isfinite(record.get('loss', math.nan))  # JavaScript reads no NaN
    ]
    history = {'line': line, 'source': source, 'target': target, 'checkpoints': checkpoints, 'losses': losses}
    return json.dumps(history, ensure_ascii=False).encode('utf-8', 'replace')
