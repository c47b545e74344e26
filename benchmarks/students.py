"""A student next to its teachers.

`python benchmarks/students.py TEACHER ... STUDENT --source FILE --reference FILE` prints a line of JSON for each
number of lines a call.

The scores of all teachers as an ensemble, of each alone and of the student on lines that none has seen, in the
decoding of each one's config; and how fast the student is, relative to one teacher in float32 and to one whose matrices
are of the type that `auto` chooses here. Both translate the same lines in turn, one at a time and 32 at a time.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
from measuring import seconds_in_turn

from flax_transformer import Translator
from flax_transformer.data.bitext.text_files import read_text_files
from flax_transformer.tasks.translation.evaluation import evaluate_translation

SIZES = (1, 32)  # lines of a call
BEAMS = (1, 2, 4)  # the student is measured with these, besides its own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('teachers', nargs='+')
    parser.add_argument('student')
    parser.add_argument('--source', type=Path, required=True)
    parser.add_argument('--reference', type=Path, required=True)
    parser.add_argument('--lines', type=int, default=256, help='lines to measure the speed with')
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    pairs = read_text_files(options.source, options.reference)

    def load(*runs: str, **decoding: Any) -> Translator:
        return Translator.from_run(*runs, literals='ignored', **decoding)

    student = load(options.student)
    students = {'student': student}
    for beam in BEAMS:
        if beam != student.decoding.beam_width:
            students[f'student, beam {beam}'] = load(options.student, beam_width=beam)
    of_matrices = {weights: load(options.teachers[0], weights=weights) for weights in ('float32', 'auto')}
    scored = {'ensemble': load(*options.teachers)} if len(options.teachers) > 1 else {}
    scored |= {f'teacher {number}': load(teacher) for number, teacher in enumerate(options.teachers, 1)}
    scored |= students
    record = {'benchmark': 'students', 'lines': len(pairs), 'student_beam': student.decoding.beam_width}
    record['bleu'], record['chrf'] = {}, {}
    for name, translator in scored.items():
        scores, _ = evaluate_translation(translator, pairs)
        record['bleu'][name], record['chrf'][name] = scores.bleu, scores.chrf
    record['megabytes'] = {
        name: sum(leaf.nbytes for leaf in jax.tree.leaves(translator.weights)) / 1e6
        for name, translator in (('teacher', of_matrices['float32']), ('student', student))
    }

    measured = pairs.sources[: options.lines]
    for size in SIZES:
        calls = [measured[start : start + size] for start in range(0, len(measured), size)]
        compared = {f'teacher, {weights}': each for weights, each in of_matrices.items()} | students
        functions = {name: partial(_translate, each, calls) for name, each in compared.items()}
        seconds = seconds_in_turn(functions, options.rounds)
        print(json.dumps(record | {'lines_a_call': size} | _speeds(seconds, len(measured))), flush=True)


def _translate(translator: Translator, calls: list[list[str]]) -> None:
    for lines in calls:
        translator(lines)


def _speeds(seconds: dict[str, list[float]], num_lines: int) -> dict[str, object]:
    """Lines a second, by name, and how many times as fast each student is as each teacher, lowest round first."""
    rates = {name: sorted(num_lines / each for each in every) for name, every in seconds.items()}
    teachers, students = ([name for name in seconds if name.startswith(kind)] for kind in ('teacher', 'student'))
    ratios = {
        f'{student} / {teacher}': sorted(a / b for a, b in zip(seconds[teacher], seconds[student], strict=True))
        for student in students
        for teacher in teachers
    }
    return {'lines_per_second': rates, 'ratio': ratios}


if __name__ == '__main__':
    main()
