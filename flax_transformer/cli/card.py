"""The command `card`: a model card in Markdown, with the front matter that Hugging Face's hub reads."""

import json
import os
import platform
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flax_transformer.common.json_text import read_json
from flax_transformer.engine.runs.run_directory import ORIGIN_FILE, split_reference
from flax_transformer.huggingface.settings import read_object
from flax_transformer.tasks.evaluation import printed_scores
from flax_transformer.tasks.recipes import recipe_of

from .options import OfCheckpoint, parse, read_run_config
from .train import evaluate_command

_TIMED = 200  # lines


@dataclass(frozen=True)
class CardOptions(OfCheckpoint):
    """Print a model card: what the model of a RUN is, its data, scores, size, speed and limits.

    `evaluate RUN --json > scores.json` makes the scores; `export-huggingface RUN FOLDER` writes a card without them.
    """

    scores: tuple[Path, ...] = ()  # files that `evaluate --json` wrote
    lines: Path | None = None  # texts to translate, to measure the speed on this machine
    license: str = ''  # the model's, as the hub abbreviates it (cc-by-4.0)
    data_license: str = ''  # the license of the training data, and whom to name


def main(argv: list[str]) -> None:
    options = parse('card', CardOptions, argv)
    print(card_of(argv[0], options), end='')


def card_of(reference: str, options: CardOptions) -> str:
    from flax_transformer.engine.task import count_parameters

    config = read_run_config(reference)
    path, _ = split_reference(reference)
    recipe = recipe_of(config)
    scores = [row for file in options.scores for row in _rows(file)]
    size = count_parameters(recipe.load(reference, step=options.step).params)
    languages = [*dict.fromkeys(language for pair in _directions(config) for language in pair if language != 'und')]
    origin = read_object(path / ORIGIN_FILE) if (path / ORIGIN_FILE).is_file() else {}
    name = origin.get('name') or path.resolve().name
    front = {'language': languages, 'license': options.license or origin.get('license')}
    front |= {'library_name': 'flax-transformer', 'base_model': origin.get('name')}
    if config.task == 'translation':
        front['pipeline_tag'] = 'translation'
    license = options.data_license or 'The license of these data was not given: see to it before you publish the model.'
    parts = [
        '\n'.join(['---', *(f'{name}: {json.dumps(value)}' for name, value in front.items() if value), '---']),
        f'# {name}: {" and ".join(languages) or config.task}, {size / 1e6:.1f} million parameters',
        f'A flax_transformer run of the task {config.task}: {_model(config)}.',
        f'```sh\nflax-transformer {recipe.run.use.format(shlex.quote(name))}\n```' if recipe.run.use else '',
        origin and 'Imported from [{name}](https://huggingface.co/{name}), revision {revision}.'.format(**origin),
        '## Data\n\n' + '\n'.join(_data(config)),
        license,
        '## Scores',
        '\n'.join(['| set | score | value | signature |', '| --- | --- | --- | --- |', *scores])
        if scores
        else f'None yet: `{evaluate_command(config, path)} --json`.',
        f'## Training\n\n{_training(path, config)}',
        f'## Size and speed\n\n{size:,} parameters, {4 * size / 1e6:,.1f} MB in float32.{_speed(reference, options)}',
        '## Limits\n\nNothing is known of texts unlike the sets above, or unlike the training data.',
    ]
    return '\n\n'.join(filter(None, parts)) + '\n'


def _rows(file: Path) -> Iterator[str]:
    """A row of the table for each score: those that have a signature, if any has."""
    with printed_scores(str(file), 'a run') as scores:
        of_set = ', '.join(filter(None, [Path(scores['set']).name, scores.get('direction')]))
    signatures = {name.removesuffix('_signature'): text for name, text in scores.items() if '_signature' in name}
    for name, value in scores.items():
        if isinstance(value, float) and name in (signatures or scores):
            signature = signatures.get(name, '').replace('|', r'\|')
            yield f'| {of_set} | {name} | {value:.2f} | {signature} |'


def _directions(config: Any) -> list[tuple[str, str]]:
    return [corpus.languages for corpus in getattr(config.data, 'corpora', ())]


def _model(config: Any) -> str:
    names = [
        'num_encoder_layers',
        'num_decoder_layers',
        'encoder',
        'num_layers',
        'd_model',
        'd_ff',
        'num_heads',
        'vocab_size',
    ]
    model = getattr(config, 'model', None)
    return ', '.join(f'{name} {getattr(model, name)}' for name in names if hasattr(model, name))


def _data(config: Any) -> Iterator[str]:
    mixture = getattr(config.data, 'mixture', ())
    for corpus in mixture:
        yield f'- {corpus.name}: `{corpus.train}`'
    for name in ('test',) if mixture else ('train', 'validation', 'test'):
        value = getattr(config.data, name, '')
        if value:
            yield f'- {name}: `{value if isinstance(value, str) else ", ".join(value)}`'


def _training(path: Path, config: Any) -> str:
    settings = f'{config.training.steps:,} steps, seed {config.seed}, {config.optimizer.name}'
    file = path / 'environment.json'
    if not file.exists():
        return f'Not trained in this run, but imported or averaged. Its config: {settings}.'
    last = read_json(file)[-1]
    versions = ', '.join(f'{name} {version}' for name, version in last['versions'].items())
    return f'{settings}; last started {last["time"]} on {last["devices"]}, {versions}, commit {last["commit"]}.'


def _speed(reference: str, options: CardOptions) -> str:
    """Lines a second, once all is compiled."""
    if options.lines is None:
        return ''
    import jax

    from flax_transformer.tasks.translation.inference.translator import Translator

    translator = Translator.from_run(reference, step=options.step)
    lines = options.lines.read_text('utf-8').splitlines()[:_TIMED]
    translator(lines)
    start = time.perf_counter()
    translator(lines)
    rate = len(lines) / (time.perf_counter() - start)
    machine = f'{jax.local_devices()[0].device_kind} ({os.cpu_count()} cores, {platform.machine()})'
    beam = translator.decoding.beam_width
    return f' {len(lines)} lines, given together, beam {beam}: {rate:,.1f} lines a second on {machine}.'
