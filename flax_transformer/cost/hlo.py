"""A compiled program's communication and memory traffic, read from its optimized HLO.

What a loop does, or calls, counts once per iteration.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

_BYTES = {
    'pred': 1, 's8': 1, 'u8': 1, 's16': 2, 'u16': 2, 'f16': 2, 'bf16': 2,
    's32': 4, 'u32': 4, 'f32': 4, 's64': 8, 'u64': 8, 'f64': 8, 'c64': 8,
}  # fmt: skip
_COLLECTIVES = ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute')
_SHAPE = re.compile(r'\b([a-z]+\d*)\[([\d,]*)\](\{[^}]*\})?')
_COMPUTATION = re.compile(r'(ENTRY )?%?([\w.\-]+) \(.*-> .*\{$')
_INSTRUCTION = re.compile(r'\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)')
_CALLED = re.compile(r'(?:calls|to_apply|body|true_computation|false_computation)=%?([\w.\-]+)')
# These move no data themselves; what they call is counted there.
_FREE = {'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'while', 'call', 'conditional', 'iota'}

_MOVING = _FREE | {'copy', 'copy-start', 'transpose', 'reshape', 'slice', 'slice-start', 'pad', 'concatenate', 'fusion'}


class Collective(NamedTuple):
    """All exchanges of one kind in one run of the program, seen from one device."""

    kind: str
    count: int
    bytes: float  # the size of the whole arrays, summed or assembled
    sent: float  # bytes that leave the device if parts go around in rings, which is the minimum


class Program(NamedTuple):
    collectives: list[Collective]
    traffic: dict[str, float]  # bytes read from and written to main memory, by kind of work: one of KINDS

    @property
    def memory_bytes(self) -> float:
        return sum(self.traffic.values())


class _Instruction(NamedTuple):
    name: str
    shape: str
    opcode: str
    rest: str  # operands and attributes

    @property
    def kind(self) -> str:
        return self.opcode.removesuffix('-start')

    @property
    def result(self) -> str:
        """The shape without that of the operands, which an asynchronous instruction may have: ((operands), results)."""
        has_operands = self.opcode.endswith('-start') and self.shape.startswith('((')
        return self.shape.partition('), ')[2] if has_operands else self.shape

    @property
    def operands(self) -> list[str]:
        return re.findall(r'%([\w.\-]+)', self.rest.split('), ')[0])

    @property
    def fused(self) -> list[str]:
        """The computations that a fusion stands for."""
        return _CALLED.findall(self.rest) if self.opcode == 'fusion' else []


class _Computation:
    def __init__(self) -> None:
        self.named: dict[str, _Instruction] = {}
        self.readers: dict[str, list[_Instruction]] = defaultdict(list)  # by the name of what they read

    def add(self, instruction: _Instruction) -> None:
        self.named[instruction.name] = instruction
        for name in instruction.operands:
            self.readers[name].append(instruction)

    def __iter__(self) -> Iterator[_Instruction]:
        return iter(self.named.values())


_Computations = dict[str, _Computation]


def read_program(text: str) -> Program:
    """Reads `compiled.as_text()`. Memory traffic is an estimate: the inputs and outputs of each fusion."""
    computations, entry = _parse(text)
    exchanges: dict[str, Collective] = {}
    traffic = dict.fromkeys(KINDS, 0.0)
    seen = set()
    for name, times, is_fused in _executed(computations, entry):
        own = computations[name]
        for instruction in own:
            kind = instruction.kind
            # An asynchronous exchange appears in several fusions that share a channel.
            key = kind, *re.findall(r'channel_id=(\d+)', instruction.rest)
            if kind in _COLLECTIVES and not (is_fused and key in seen):
                seen.add(key)
                kind, size, sent = _exchange(instruction, name)
                if sent:
                    _, *before = exchanges.get(kind, Collective(kind, 0, 0, 0))
                    sums = [old + times * new for old, new in zip(before, (1, size, sent), strict=True)]
                    exchanges[kind] = Collective(kind, *sums)
            if not is_fused and instruction.opcode not in _FREE and not instruction.opcode.endswith('-done'):
                traffic[_purpose(instruction, own, computations)] += times * _traffic(instruction, own, computations)
    return Program(sorted(exchanges.values()), {kind: size for kind, size in traffic.items() if size})


KINDS = ('products', 'attention', 'loss', 'copies', 'collectives', 'other')
# JAX's scopes: attention without its projections; the loss (`engine.losses`) with the logits.
_ATTENTION = re.compile(r'op_name="[^"]*_attention\b(?![^"]*/(?:query|key|value|output|ND,))')
_LOSS = re.compile(r'op_name="[^"]*\bloss\b')


# Opcodes between a copy and what reads or wrote its content.
_PASSING = {'copy-start', 'copy-done', 'slice-start', 'slice-done', 'bitcast', 'get-tuple-element', 'custom-call'}


def _purpose(instruction: _Instruction, own: _Computation, computations: _Computations) -> str:
    """What the traffic of an instruction is for: one of KINDS.

    TPUs copy much to memory on the chip and back: such a copy counts as what reads or wrote it there.
    """
    if instruction.opcode in ('copy-start', 'slice-start'):
        is_to_chip = 'S(' in instruction.result.partition('}, ')[0]
        while instruction is not None and instruction.opcode in _PASSING:
            if is_to_chip:
                instruction = next(iter(own.readers[instruction.name]), None)
            else:
                instruction = own.named.get(instruction.operands[0])
    if instruction is None:
        return 'copies'
    if instruction.kind in _COLLECTIVES:
        return 'collectives'
    if _ATTENTION.search(instruction.rest):
        return 'attention'
    if _LOSS.search(instruction.rest):
        return 'loss'
    inside = [instruction, *(inner for name in instruction.fused for inner in computations[name])]
    if any(inner.opcode in ('dot', 'convolution') or 'gemm' in inner.rest for inner in inside):
        return 'products'
    return 'copies' if {inner.opcode for inner in inside} <= _MOVING else 'other'


def _parse(text: str) -> tuple[_Computations, str]:
    computations: _Computations = {}
    entry = ''
    current = _Computation()
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            computations[match[2]] = current = _Computation()
            entry = match[2] if match[1] else entry
        elif match := _INSTRUCTION.match(line):
            current.add(_Instruction(*match.groups()))
    return computations, entry


def _executed(
    computations: _Computations, name: str, times: int = 1, is_fused: bool = False
) -> Iterator[tuple[str, int, bool]]:
    yield name, times, is_fused
    for instruction in computations[name]:
        runs = times * (_iterations(computations, instruction.rest) if instruction.opcode == 'while' else 1)
        names = _CALLED.findall(instruction.rest)
        if branches := re.search(r'branch_computations=\{([^}]*)\}', instruction.rest):
            names += [branch.strip(' %') for branch in branches[1].split(',')]
        inside = is_fused or instruction.opcode not in ('while', 'call', 'conditional')
        for called in names:
            yield from _executed(computations, called, runs, inside)


def _iterations(computations: _Computations, rest: str) -> int:
    """The iterations of a loop: what the compiler says, else the constant that the counter is compared with."""
    if known := re.search(r'known_trip_count\W+n\W+(\d+)', rest):
        return int(known[1])
    condition = re.search(r'condition=%?([\w.\-]+)', rest)
    compared = [inner.rest for inner in computations[condition[1]] if inner.opcode == 'constant']
    constants = (re.match(r'\d+(?=\))', rest) for rest in compared)
    return max((int(number[0]) for number in constants if number), default=1)


def _exchange(instruction: _Instruction, computation: str) -> tuple[str, float, float]:
    """The kind of a collective, the bytes of its whole arrays, and the bytes each device sends."""
    kind = instruction.kind
    size = _size(instruction.result)
    group = _group(instruction.rest)
    is_flat = instruction.opcode.endswith('-start') and instruction.result == instruction.shape
    if is_flat and kind in ('all-gather', 'collective-permute'):
        # The shape is (operands, results); the results are group times as large, or as large.
        size *= group / (group + 1) if kind == 'all-gather' else 1 / 2
    if kind == 'all-reduce' and computation.startswith('all-reduce-scatter'):
        kind = 'reduce-scatter'  # TPUs fuse the sum with a slice of it
    elif kind == 'reduce-scatter':
        size *= group
    others = (group - 1) / group
    return kind, size, size * {'all-reduce': 2 * others, 'collective-permute': 1.0}.get(kind, others)


def _group(rest: str) -> int:
    """How many devices take part in an exchange.

    >>> _group('replica_groups={{0,1},{2,3}}'), _group('replica_groups=[2,8]<=[16]')
    (2, 8)
    >>> _group("replica_groups=mesh['axis_0'=8,'axis_1'=2] {'axis_0'}")
    8
    """
    if match := re.search(r'replica_groups=\{\{([\d,]*)\}', rest):
        return len(match[1].split(','))
    if match := re.search(r'replica_groups=\[(?:\d+,)*(\d+)\]<=', rest):
        return int(match[1])
    if match := re.search(r'replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}', rest):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        # Part of an axis may take part: 'name':(before)size.
        axes = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", match[2])
        return math.prod(int(part or sizes[name]) for name, part in axes)
    return 2 if 'source_target_pairs' in rest else 1


def _traffic(instruction: _Instruction, own: _Computation, computations: _Computations) -> float:
    if instruction.opcode in ('dynamic-slice', 'slice', 'gather'):
        return 2 * _size(instruction.shape, main_only=True)
    if instruction.opcode == 'copy-start':  # (to, from, ...): between memories
        return _size(instruction.shape, main_only=True)
    if instruction.opcode == 'slice-start':  # ((from), to, ...)
        return _size(instruction.result)
    if 'AllocateBuffer' in instruction.rest:
        return 0
    operands = [own.named.get(name) for name in instruction.operands]
    read = [_size(operand.shape, main_only=True) if operand else 0 for operand in operands]
    if instruction.opcode in ('dynamic-update-slice', 'scatter'):
        return 2 * sum(read[1:])
    written = _size(instruction.result, main_only=True)
    if instruction.fused:
        inside = computations[instruction.fused[0]]
        parameters = {int(i.rest.partition(')')[0]): i.name for i in inside if i.opcode == 'parameter'}
        read = [size * _share(inside, parameters[number]) for number, size in enumerate(read)]
        *_, root = inside
        written = min(written, _written(inside, root))
    return sum(read) + written


# These make a new array; a part of it takes the same part of their first operand.
_PROPORTIONAL = {'convert', 'copy', 'transpose', 'reduce'}


def _share(fusion: _Computation, name: str, *, is_new: bool = False) -> float:
    """The part of an array, 0 to 1, that a fusion reads: of one that it cuts, perhaps after a sum, what it keeps.

    An array that is new, made within the fusion, is needed whole to be a result or to be updated. Any other is updated
    in place, unread.
    """
    size = _size(fusion.named[name].shape)
    readers = fusion.readers[name]
    is_result = not readers or any(reader.opcode == 'tuple' for reader in readers)
    share = float(is_new and is_result)
    for reader in readers:
        is_first = reader.operands[0] == name
        if is_first and reader.opcode in _PROPORTIONAL:
            share += _share(fusion, reader.name, is_new=True)
        elif is_first and (reader.opcode == 'bitcast' or (reader.opcode == 'dynamic-update-slice' and not is_new)):
            share += _share(fusion, reader.name, is_new=is_new)
        elif is_first and reader.opcode in ('slice', 'dynamic-slice', 'gather'):
            share += _size(reader.shape) / size if size else 0.0
        elif reader.opcode != 'tuple':
            return 1.0
    return min(share, 1.0)


def _written(fusion: _Computation, result: _Instruction) -> float:
    """Bytes of a result that a fusion writes: of an update, its part alone; infinite: all."""
    operands = [fusion.named[name] for name in result.operands if name in fusion.named]
    if result.opcode == 'tuple':
        # An array that is written whole has its own size.
        return sum(min(_size(operand.shape, main_only=True), _written(fusion, operand)) for operand in operands)
    if result.opcode == 'bitcast':
        return _written(fusion, operands[0])
    if result.opcode == 'dynamic-update-slice':
        return _size(operands[1].shape)
    return math.inf


def _size(shape: str, *, main_only: bool = False) -> float:
    """Bytes of a shape, or of a tuple of them; `main_only` leaves out on-chip memory, `S(1)`.

    >>> _size('(bf16[2,3]{1,0:T(8,128)}, f32[4]{0:S(1)}, f32[])'), _size('f32[4]{0:S(1)}', main_only=True)
    (32, 0)
    """
    return sum(
        math.prod(int(size) for size in dims.split(',') if size) * _BYTES.get(dtype, 0)
        for dtype, dims, layout in _SHAPE.findall(shape)
        if not (main_only and 'S(' in layout)
    )
