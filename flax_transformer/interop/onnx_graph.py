"""The Transformer as two ONNX graphs that read one file of weights: the encoder, and one step of the decoder.

Shapes: B sentences (1 or N), N hypotheses, S source and T target tokens, L layers, H heads, K head_dim, D d_model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flax_transformer.common.installing import imported
from flax_transformer.transformer.config import TransformerConfig

WEIGHTS = 'weights.bin'
_OPSET, _IR = 17, 8  # the first with LayerNormalization, and its format
_FLOAT, _INT64 = 1, 7  # ONNX's numbers of types
_KINDS = ('key', 'value')


class Weights(dict[str, np.ndarray]):
    """Parameters by name, those in eight bits as NAME/values and NAME/scale, one after another in a file."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(sorted(arrays.items(), key=lambda pair: -pair[1].itemsize))  # floats first are aligned
        ends = np.cumsum([array.nbytes for array in self.values()])
        self.places = {name: int(end) - self[name].nbytes for name, end in zip(self, ends, strict=True)}

    def content(self) -> bytes:
        return b''.join(array.tobytes() for array in self.values())


class Graph:
    """`graph('Add', x, y)` adds a node and is the name of its result; inputs that are no names become constants."""

    def __init__(self, config: TransformerConfig, weights: Weights, *, has_switches: bool = False) -> None:
        self.onnx = imported('onnx', 'onnx', 'an export to ONNX')
        self.config = config
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self.has_switches = has_switches
        self.switches: dict[str, int] = {}
        self.layer = 0

    def __call__(self, operator: str, *inputs: Any, name: str = '', **attributes: Any) -> str:
        inputs = [x if isinstance(x, str) else self._tensor(f'constant{len(self.tensors)}', x) for x in inputs]
        name = name or f'{operator}{len(self.nodes)}'
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def _tensor(self, name: str, value: Any) -> str:
        array = np.asarray(value, np.float32 if isinstance(value, float) else None)
        self.tensors[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def array(self, name: str) -> str:
        tensor = self.tensors[self._tensor(name, self.weights[name])]
        place = self.weights.places[name]
        self.onnx.external_data_helper.set_external_data(tensor, WEIGHTS, place, len(tensor.raw_data))
        tensor.ClearField('raw_data')
        return name

    def matrix(self, name: str, axis: int, ids: str | None = None) -> str:
        """A weight as float32, or its rows `ids`; a scale is constant along the axis."""
        if name in self.weights:
            return self('Gather', self.array(name), ids) if ids else self.array(name)
        parts = [self.array(f'{name}/values'), self('Unsqueeze', self.array(f'{name}/scale'), [axis])]
        values, scale = (self('Gather', part, ids) for part in parts) if ids else parts
        return self('Mul', self('Cast', values, to=_FLOAT), scale)  # done once, at loading

    def model(self, inputs: Mapping[str, int], outputs: Sequence[str]) -> bytes:
        """The serialized graph, given the types of its inputs."""
        helper = self.onnx.helper
        inputs = {**inputs, **self.switches}
        takes = [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()]
        gives = [helper.make_tensor_value_info(name, _FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, 'transformer', takes, gives, list(self.tensors.values()))
        opsets = [helper.make_opsetid('', _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR).SerializeToString()

    def stacked(self, name: str, layers: Sequence[str]) -> str:
        return self('Concat', *(self('Unsqueeze', x, [0]) for x in layers), axis=0, name=name)

    def switched(self, x: str, switch: str, *, of_layer: bool = False) -> str:
        """x times an input of the graph, or its row for this layer; with ones the model is as it was trained."""
        if not self.has_switches:
            return x
        self.switches[switch] = _FLOAT
        return self('Mul', x, self('Gather', switch, np.int64(self.layer)) if of_layer else switch)

    # Parts of the model, on x [N, T, D].

    def biased(self, x: str, name: str) -> str:
        return self('Add', x, self.array(name)) if name in self.weights else x

    def dense(self, name: str, x: str) -> str:
        return self.biased(self('MatMul', x, self.matrix(f'{name}/kernel', 0)), f'{name}/bias')

    def heads(self, name: str, x: str) -> str:
        """A projection [N, H, T, K]."""
        split = self('Reshape', self.dense(name, x), [0, 0, self.config.num_heads, self.config.width_of_head])
        return self('Transpose', split, perm=[0, 2, 1, 3])

    def norm(self, name: str, x: str) -> str:
        parts = self.array(f'{name}/scale'), self.array(f'{name}/bias')
        return self('LayerNormalization', x, *parts, epsilon=self.config.norm_epsilon)

    def before(self, name: str, x: str) -> str:
        return self.norm(name, x) if self.config.norm_first else x

    def after(self, name: str, x: str, change: str) -> str:
        x = self('Add', self.switched(x, 'residuals', of_layer=True), change)
        return x if self.config.norm_first else self.norm(name, x)

    def attend(
        self, name: str, x: str, mask: str = '', memory: Sequence[str] = (), past: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """x after a layer's attention, the keys and values, those of memory or of x, and weights [N, H, T, S]."""
        inputs = self.before(f'{name}_residual/norm', x)
        if not memory:
            memory = [self.heads(f'{name}_attention/{kind}', inputs) for kind in _KINDS]
        if past:
            memory = [self('Concat', *pair, axis=2) for pair in zip(past, memory, strict=True)]
        q = self.heads(f'{name}_attention/query', inputs)
        if self.config.attention_score == 'scaled_dot':
            q = self.switched(self('Mul', q, self.config.width_of_head**-0.5), 'scale')
        scores = self('MatMul', q, self('Transpose', memory[0], perm=[0, 1, 3, 2]))
        if mask:
            scores = self('Where', mask, scores, float(np.finfo(np.float32).min))
        kind = name.rpartition('/')[2]
        weights = self.switched(self('Softmax', scores), f'{kind}_heads', of_layer=True)
        joined = self('Transpose', self('MatMul', weights, memory[1]), perm=[0, 2, 1, 3])
        change = self.dense(f'{name}_attention/output', self('Reshape', joined, [0, 0, -1]))
        return self.after(f'{name}_residual/norm', x, change), *memory, weights

    def feed_forward(self, layer: str, x: str) -> str:
        name = f'{layer}/feed_forward'
        hidden = self.dense(f'{name}/inner', self.before(f'{name}_residual/norm', x))
        if self.config.activation == 'swish':
            hidden = self('Mul', hidden, self('Sigmoid', hidden))
        else:
            hidden = self('Relu', hidden)
        return self.after(f'{name}_residual/norm', x, self.dense(f'{name}/outer', hidden))

    def embed(self, side: str, tokens: str, positions: str) -> str:
        config = self.config
        x = self.matrix('embedding/table' if config.tie_embeddings == 'all' else f'{side}_embedding/table', 1, tokens)
        if config.scale_embedding:
            x = self('Mul', x, config.d_model**0.5)
        if config.pad_row != 'both':
            x = self('Where', self('Unsqueeze', self('Equal', tokens, config.pad_id), [-1]), 0.0, x)
        self.embedded = x
        return self('Add', x, self.switched(positions, 'positions'))

    def logits(self, x: str) -> str:
        """[N, V] of x [N, D]."""
        config = self.config
        if config.tie_embeddings == 'none':
            logits = self('MatMul', x, self.matrix('projection', 0))
        else:
            table = 'embedding' if config.tie_embeddings == 'all' else 'target_embedding'
            logits = self('Gemm', x, self.matrix(f'{table}/table', 1), transB=1)
            if config.pad_row == 'neither':
                logits = self('Where', np.arange(config.vocab_size_of_target) == config.pad_id, 0.0, logits)
        return self.biased(logits, 'logits_bias')

    def source_mask(self) -> str:
        return self('Unsqueeze', self('Not', self('Equal', 'source', self.config.pad_id)), [1, 2])


def encoder(config: TransformerConfig, weights: Weights, *, has_switches: bool = False) -> bytes:
    """From `source` [B, S] to memory_keys and memory_values [L, B, H, S, K], and its `attention` [L, B, H, S, S].

    With switches, further inputs multiply parts of the model: `positions` [], `scale` [] of scores, `residuals` [L],
    `self_heads` [L, H, 1, 1], and in the step `cross_heads`, and the encoder gives
    `states` [L + 2, B, S, D]: embeddings, with positions, after each layer.
    """
    graph = Graph(config, weights, has_switches=has_switches)
    mask = graph.source_mask()
    length = graph('Shape', 'source', start=1)
    x = graph.embed('source', 'source', graph('Slice', graph.array('source_positions/table'), [0], length))
    states = [graph.embedded, x]
    seen = []
    for i in range(config.num_encoder_layers):
        graph.layer = i
        x, *_, weights_of_layer = graph.attend(f'encoder/layers_{i}/self', x, mask)
        x = graph.feed_forward(f'encoder/layers_{i}', x)
        states.append(x)
        seen.append(weights_of_layer)
    x = graph.before('encoder/final_norm', x)
    outputs = [graph.stacked('attention', seen)]
    if has_switches:
        outputs.append(graph.stacked('states', states))
    for kind in _KINDS:
        names = [f'decoder/layers_{i}/cross_attention/{kind}' for i in range(config.num_decoder_layers)]
        outputs.append(graph.stacked(f'memory_{kind}s', [graph.heads(name, x) for name in names]))
    return graph.model({'source': _INT64}, outputs)


def step(config: TransformerConfig, weights: Weights, *, has_switches: bool = False) -> bytes:
    """From the newest of `tokens` [N] to `logits` [N, V] of the next one.

    Hypothesis n goes on from number parents[n] of those in `keys` and `values` [L, any, H, T, K], T = 0 at first; the
    next step takes new_keys and new_values. Attention is [L, N, H, 1, T + 1] and [L, N, H, 1, S].
    """
    graph = Graph(config, weights, has_switches=has_switches)
    mask = graph.source_mask()
    row = graph('Gather', graph.array('target_positions/table'), graph('Shape', 'keys', start=3, end=4))
    x = graph.embed('target', graph('Unsqueeze', 'tokens', [1]), row)
    old = [graph('Gather', name, 'parents', axis=1) for name in ('keys', 'values')]
    memories = ['memory_keys', 'memory_values']
    layers = []
    for i in range(config.num_decoder_layers):
        graph.layer = i
        past, memory = ([graph('Gather', stack, np.int64(i)) for stack in stacks] for stacks in (old, memories))
        x, *of_self = graph.attend(f'decoder/layers_{i}/self', x, past=past)
        x, *_, seen = graph.attend(f'decoder/layers_{i}/cross', x, mask, memory)
        x = graph.feed_forward(f'decoder/layers_{i}', x)
        layers.append((*of_self, seen))
    graph('Identity', graph.logits(graph('Squeeze', graph.before('decoder/final_norm', x), [1])), name='logits')
    outputs = ['new_keys', 'new_values', 'self_attention', 'cross_attention']
    for name, own in zip(outputs, zip(*layers, strict=True), strict=True):
        graph.stacked(name, own)
    inputs = dict.fromkeys(('tokens', 'parents', 'source'), _INT64)
    return graph.model(inputs | dict.fromkeys((*memories, 'keys', 'values'), _FLOAT), ['logits', *outputs])
