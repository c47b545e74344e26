"""How long `translate` of one sentence takes, whole process, with a warm cache: `python benchmarks/start_up.py RUN`.

Beside it, in turn, `python -c "import jax, flax.linen, orbax.checkpoint"`; medians of five, one line of JSON.
"""

import json
import statistics
import subprocess
import sys
import time

IMPORTS = [sys.executable, '-c', 'import jax, flax.linen, orbax.checkpoint']


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, input=b'forty-two\n', check=True, capture_output=True)
    return time.perf_counter() - started


def main(run: str, times: int = 5) -> None:
    translate = [sys.executable, '-m', 'flax_transformer.cli', 'translate', run]
    seconds(translate), seconds(IMPORTS)
    pairs = [(seconds(IMPORTS), seconds(translate)) for _ in range(times)]
    imports, translation = (round(statistics.median(column), 3) for column in zip(*pairs, strict=True))
    record = {'benchmark': 'start_up', 'imports_seconds': imports, 'translate_seconds': translation}
    print(json.dumps(record | {'ratio': round(translation / imports, 2)}))


if __name__ == '__main__':
    main(*sys.argv[1:])
