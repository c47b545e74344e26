"""Records commands in a terminal and draws them as a moving SVG, such as the one in the README.

    python benchmarks/terminal_picture.py record terminal.cast "flax-transformer train number_words" ...
    python benchmarks/terminal_picture.py draw terminal.cast docs/images/terminal.svg 'two CPU cores'

A recording is in asciinema's format (version 2): what the commands really wrote, and when. The picture plays it at one
speed, but for the typing, with long pauses cut, and says so. Needs pyte (`pip install pyte`), which plays the terminal.
"""

import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import pyte

COLUMNS, ROWS = 80, 18
SECONDS, PAUSE, LAST = 24.0, 0.7, 5.0  # of the picture: how long, the longest pause, how long the last screen stays
RATE = 8.0  # screens a second
CELL, LINE, SIZE, MARGIN = 8, 18, 13, 14  # pixels
TYPING = 0.04  # seconds a key; the commands are typed by this script


def record(file: Path, commands: list[str]) -> None:
    """Runs the commands one after the other in a terminal; writes what it showed, with times."""
    began, events = time.monotonic(), []

    def write(text: str) -> None:
        events.append([round(time.monotonic() - began, 3), 'o', text])

    for command in commands:
        write('$ ')
        for key in command:
            time.sleep(TYPING)
            write(key)
        write('\r\n')
        for text in _output_of(command):
            write(text)
    write('$ ')
    header = {'version': 2, 'width': COLUMNS, 'height': ROWS, 'timestamp': int(time.time())}
    file.write_text('\n'.join(json.dumps(each, ensure_ascii=False) for each in [header, *events]) + '\n')


def _output_of(command: str) -> Iterator[str]:
    """Yields what a command writes to a terminal of its own. Raises SystemExit if it fails."""
    pid, master = pty.fork()
    if not pid:
        os.execvp('sh', ['sh', '-c', command])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
    rest = b''
    while select.select([master], [], []):
        try:
            piece = os.read(master, 65536)
        except OSError:  # the command has ended
            break
        rest += piece
        text = rest.decode('utf-8', 'ignore')  # a character may be cut
        rest = rest[len(text.encode()) :]
        yield text
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f'{command}: ended with {code}')


def draw(recording: Path, picture: Path, machine: str) -> None:
    """Draws a recording as an SVG that plays it again and again; what shows no motion shows the last screen.

    `machine` is for the note below.
    """
    header, *events = [json.loads(line) for line in recording.read_text().splitlines()]
    speed = max(round(events[-1][0] / SECONDS), 1)
    times, screens = zip(*_frames(header, events, speed), strict=True)
    width, height = header['width'] * CELL + 2 * MARGIN, (header['height'] + 2) * LINE + 2 * MARGIN
    names = {text: f'l{n}' for n, text in enumerate(dict.fromkeys(line for screen in screens for line in screen))}
    rows = [_row(n, row, times, names, width) for n, row in enumerate(zip(*screens, strict=True)) if any(row)]
    # The length is given, since nobody knows which font there is; xml:space is for what ignores white-space.
    style = 'xml:space="preserve" lengthAdjust="spacingAndGlyphs"'
    lines = ''.join(
        f'<text id="{name}" {style} textLength="{len(text) * CELL}">{escape(text)}</text>'
        for text, name in names.items()
        if text
    )
    note = f'A real run on {machine}, {speed} times as fast; typed by a script, pauses cut'
    font = f'{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<title>{escape(note)}</title>',
        f'<style>text{{font:{font};fill:#e6edf3;white-space:pre}}.note{{fill:#9198a1}}',
        *(style for _, style in rows),
        '@media(prefers-reduced-motion:reduce){g{animation:none!important}}</style>',
        f'<defs>{lines}</defs>',
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="6" fill="#0d1117" stroke="#656c76"/>',
        *(drawn for drawn, _ in rows),
        f'<text class="note" x="{MARGIN}" y="{height - MARGIN}">{escape(note)}</text></svg>',
    ]
    picture.write_text('\n'.join(parts) + '\n', encoding='utf-8')


def _row(
    number: int, texts: Sequence[str], times: Sequence[float], names: Mapping[str, str], width: int
) -> tuple[str, str]:
    """A row of the terminal and its style: all that it shows side by side, of which one at a time is in the picture."""
    states = [i for i in range(len(texts)) if i == 0 or texts[i] != texts[i - 1]]
    uses = [f'<use href="#{names[texts[i]]}" x="{n * width}"/>' for n, i in enumerate(states) if texts[i]]
    duration = times[-1] + LAST
    jumps = [f'{100 * times[i] / duration:.2f}%{{transform:translateX({-n * width}px)}}' for n, i in enumerate(states)]
    animation = f'animation:r{number} {duration:.1f}s step-end infinite'
    style = f'@keyframes r{number}{{{"".join(jumps)}}}#r{number}{{{animation}}}'
    last, y = (1 - len(states)) * width, MARGIN + (number + 1) * LINE
    moving = f'<g id="r{number}" transform="translate({last} 0)">{"".join(uses)}</g>'
    return f'<g transform="translate({MARGIN} {y})">{moving}</g>', style


def _frames(header: dict, events: list, speed: float) -> Iterator[tuple[float, tuple[str, ...]]]:
    """When each screen shows, in seconds of the picture, and its rows; equal ones are left out."""
    screen = pyte.Screen(header['width'], header['height'])
    stream = pyte.Stream(screen)
    now, before, last, shown = 0.0, 0.0, -1.0, None
    for number, (when, _, text) in enumerate(events):
        is_typed = len(text) == 1
        now += when - before if is_typed else min((when - before) / speed, PAUSE)
        before = when
        stream.feed(text)
        after = events[number + 1][0] if number + 1 < len(events) else when + 60
        display = tuple(line.rstrip() for line in screen.display)
        if display != shown and (is_typed or (after - when) / speed > 1 / RATE or now - last >= 1 / RATE):
            yield now, display
            shown, last = display, now


if __name__ == '__main__':
    command, file, *rest = sys.argv[1:]
    if command == 'record':
        record(Path(file), rest)
    else:
        draw(Path(file), Path(rest[0]), rest[1])
