"""How near our Marian models are to those of transformers, by shape: `python benchmarks/marian_parity.py`.

Random weights, 40 lines each: the largest differences of encoder output and logits, and how many greedy and beam
outputs are equal, theirs as it is by default and with early_stopping='never'. Needs torch and transformers. One line
of JSON each.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))
sys.path.insert(1, str(Path(__file__).parents[1] / 'tests' / 'huggingface'))

import conftest  # noqa: F401  (float32 products, as in the tests)
import marian_folders
import test_against_transformers as parity


def main() -> None:
    models = marian_folders.number_words_models()
    for name in parity.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            case = parity.make_case(name, models, Path(folder))
            encoder, logits = parity.largest_differences(case)
            greedy = case.generate(num_beams=1)
            record = {'benchmark': 'marian_parity', 'model': name, 'encoder': encoder, 'logits': logits}
            record['greedy equal'] = sum(a == b for a, b in zip(greedy, case.search(beam_width=1), strict=True))
            for width in (4, 6):
                record[f'beam {width} equal'] = parity.compare_beams(case, width, explained=0)
            print(json.dumps(record), flush=True)


if __name__ == '__main__':
    main()
