"""A run with some of another's decoder layers, for a student to begin with."""

import re
from pathlib import Path

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from flax_transformer.engine.runs.averaging import write_copy
from flax_transformer.engine.runs.run_directory import split_reference

from .config import Config
from .loading import load_run
from .run import Run

_LAYER = re.compile(r'(?<=^decoder/layers_)\d+(?=/)')


def write_fewer_layers(reference: Path | str, out: Path | str, config: Config) -> None:
    """Makes `out` a run with as many decoder layers of a Transformer as its new config has.

    They are evenly spaced: the first and, of several, the last are among them. To be trained on what the whole
    translates (Shleifer and Rush 2020, arXiv 2010.13002, "shrink and fine-tune").
    """
    run = load_run(reference)
    last = run.config.model.num_decoder_layers - 1
    kept = np.linspace(0, last, config.model.num_decoder_layers).round().astype(int)
    new_numbers = {str(old): str(new) for new, old in enumerate(kept)}
    params = {}
    for name, array in flatten_dict(run.params, sep='/').items():
        number = _LAYER.search(name)
        if number is None:
            params[name] = array
        elif number[0] in new_numbers:
            params[_LAYER.sub(new_numbers[number[0]], name)] = array
    write_copy(Run(split_reference(reference)[0]), out, config, unflatten_dict(params, sep='/'))
