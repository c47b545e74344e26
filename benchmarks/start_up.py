"""How long `translate` of one sentence takes, whole process, with a warm cache: `python benchmarks/start_up.py RUN`.

In turn with it: `python -c "import jax, flax.linen, orbax.checkpoint"`; medians of five, one line of JSON.
"""

import argparse
import json
import statistics
import subprocess
import sys
from functools import partial

from measuring import seconds_in_turn

IMPORTS = [sys.executable, '-c', 'import jax, flax.linen, orbax.checkpoint']
TRANSLATE = [sys.executable, '-m', 'flax_transformer.cli', 'translate']


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    commands = {'imports': IMPORTS, 'translate': [*TRANSLATE, options.run]}
    start = partial(subprocess.run, input=b'forty-two\n', check=True, capture_output=True)
    functions = {name: partial(start, command) for name, command in commands.items()}
    times = seconds_in_turn(functions, options.rounds)
    imports, translate = (round(statistics.median(times[name]), 3) for name in commands)
    record = {'benchmark': 'start_up', 'imports_seconds': imports, 'translate_seconds': translate}
    print(json.dumps(record | {'ratio': round(translate / imports, 2)}))


if __name__ == '__main__':
    main()
