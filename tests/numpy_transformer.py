"""The Transformer in NumPy float64, written from the paper as plain loops: what the model must compute.

No jax here, no batches and no masked softmax: one row, one head and one query at a time, and a query's softmax
runs over the keys it may see and over no others. Slow on purpose. References are to Vaswani et al. 2017.
"""

import math

import numpy as np


def sinusoids(length, d_model, layout):
    """Section 3.5, entry by entry [T, D]; the two other layouts as in tensor2tensor and Hugging Face's Marian."""
    table = np.zeros((length, d_model))
    half = d_model // 2
    for position in range(length):
        for i in range(half):
            exponent = i / (half - 1) if layout == 'tensor2tensor' else 2 * i / d_model
            angle = position / 10_000**exponent
            sine, cosine = (2 * i, 2 * i + 1) if layout == 'interleaved' else (i, half + i)
            table[position, sine] = math.sin(angle)
            table[position, cosine] = math.cos(angle)
    return table


def activate(x, name):
    if name == 'relu':
        return np.maximum(x, 0)
    if name == 'gelu':
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    if name == 'gelu_tanh':
        return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert name == 'swish'
    return x / (1 + np.exp(-x))


def affine(params, x):
    return x @ params['kernel'] + params.get('bias', 0.0)


def layer_norm(params, x, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * params['scale'] + params['bias']


def norm(params, x, kind, epsilon):
    """x [T, D] by a norm."""
    if kind == 'layer':
        return layer_norm(params, x, epsilon)
    if kind == 'rms':
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * params['scale']
    if kind == 'group':
        plain = {'scale': 1.0, 'bias': 0.0}
        groups = [layer_norm(plain, x[:, i : i + 16], epsilon) for i in range(0, x.shape[1], 16)]
        return np.concatenate(groups, axis=-1) * params['scale'] + params['bias']


def score(q, k, kind, weight):
    """Of one query [K] and one key [K] (section 3.2.1)."""
    if kind == 'additive':
        return sum(w * math.tanh(a + b) for w, a, b in zip(weight, q, k, strict=True))
    return q @ k / (math.sqrt(len(q)) if kind == 'scaled_dot' else 1.0)


def distance_bias(table, positions, is_causal):
    """What relative positions add to the scores of one stack, [H, T, T] (Raffel et al. 2020, section 2.1).

    Of 32 buckets the encoder has half for keys that come later; half of the rest are single distances, and the others
    divide the distances up to 128 evenly by their logarithm.
    """
    bias = np.zeros((table.shape[1], len(positions), len(positions)))
    buckets = 32 if is_causal else 16
    for t, query in enumerate(positions):
        for s, key in enumerate(positions):
            distance = abs(int(query) - int(key))
            bucket, exact = distance, buckets // 2
            if distance >= exact:
                far = math.log2(distance / exact) / math.log2(128 / exact) * (buckets - exact)
                bucket = min(exact + int(far), buckets - 1)
            bias[:, t, s] = table[bucket + (16 if key > query and not is_causal else 0)]
    return bias


def attention(q, k, v, visible, kind='scaled_dot', weight=None, bias=None):
    """Equation 1 for one head: [T, K] from q [T, K], k and v [S, K], visible [T, S]; zeros where nothing is visible.

    `kind` names another score than the equation's; `bias` [T, S] is added to it.
    """
    out = np.zeros((len(q), v.shape[-1]))
    for t in range(len(q)):
        keys = np.flatnonzero(visible[t])
        if keys.size:
            scores = np.array([score(q[t], k[key], kind, weight) for key in keys])
            scores += 0.0 if bias is None else bias[t, keys]
            weights = np.exp(scores - scores.max())
            out[t] = weights / weights.sum() @ v[keys]
    return out


def multi_head(params, x, memory, visible, num_heads, kind='scaled_dot', bias=None):
    """Section 3.2.2: [T, D] from x [T, D] and memory [S, D]."""
    weights = params.get('score_weight', [None] * num_heads)
    q, k, v = affine(params['query'], x), affine(params['key'], memory), affine(params['value'], memory)
    width = q.shape[-1] // num_heads
    heads = []
    for head in range(num_heads):
        columns = slice(head * width, (head + 1) * width)
        own = None if bias is None else bias[head]
        heads.append(attention(q[:, columns], k[:, columns], v[:, columns], visible, kind, weights[head], own))
    return affine(params['output'], np.concatenate(heads, axis=-1))


def feed_forward(params, x, activation):
    """Equation 2, gated if there is a second product (Shazeer 2020)."""
    hidden = activate(affine(params['inner'], x), activation)
    return affine(params['outer'], hidden * (affine(params['gate'], x) if 'gate' in params else 1))


def residual(params, x, sublayer, config):
    normalize = lambda x: norm(params['norm'], x, config.norm, config.norm_epsilon)
    return x + sublayer(normalize(x)) if config.norm_first else normalize(x + sublayer(x))


def embed(table, positions_table, tokens, positions, config):
    x = np.zeros((len(tokens), config.d_model))
    for t, token in enumerate(tokens):
        if token != config.pad_id or config.pad_row == 'both':
            x[t] = table[token] * (math.sqrt(config.d_model) if config.scale_embedding else 1.0)
        if config.positions != 'relative':
            x[t] = x[t] + positions_table[positions[t]]
    return x


def encode(params, x, visible, config, bias=None):
    heads = config.num_heads, config.attention_score
    for i in range(config.num_encoder_layers):
        layer = params[f'layers_{i}']
        attend = lambda x, layer=layer: multi_head(layer['self_attention'], x, x, visible, *heads, bias)
        transform = lambda x, layer=layer: feed_forward(layer['feed_forward'], x, config.activation)
        x = residual(layer['self_residual'], x, attend, config)
        x = residual(layer['feed_forward_residual'], x, transform, config)
    return norm(params['final_norm'], x, config.norm, config.norm_epsilon) if config.norm_first else x


def decode(params, x, memory, visible, memory_visible, config, bias=None):
    heads = config.num_heads, config.attention_score
    for i in range(config.num_decoder_layers):
        layer = params[f'layers_{i}']
        attend = lambda x, layer=layer: multi_head(layer['self_attention'], x, x, visible, *heads, bias)
        look = lambda x, layer=layer: multi_head(layer['cross_attention'], x, memory, memory_visible, *heads)
        transform = lambda x, layer=layer: feed_forward(layer['feed_forward'], x, config.activation)
        x = residual(layer['self_residual'], x, attend, config)
        x = residual(layer['cross_residual'], x, look, config)
        x = residual(layer['feed_forward_residual'], x, transform, config)
    return norm(params['final_norm'], x, config.norm, config.norm_epsilon) if config.norm_first else x


def row_logits(params, config, source, target_in, source_segments, target_segments, source_positions, target_positions):
    """Logits [T, V] of one row: source [S], target_in [T] and their segments and positions."""
    same = lambda queries, keys: np.array([[query == key != 0 for key in keys] for query in queries])
    causal = np.array([[s <= t for s in range(len(target_in))] for t in range(len(target_in))])
    if config.tie_embeddings in ('all', 'sides'):
        source_table = target_table = params['embedding']['table']
    else:
        source_table, target_table = params['source_embedding']['table'], params['target_embedding']['table']
    biases = [None, None]
    if config.positions == 'relative':
        source_places = target_places = None
        for number, (side, positions) in enumerate((('source', source_positions), ('target', target_positions))):
            biases[number] = distance_bias(params[f'{side}_positions']['table'], positions, side == 'target')
    elif config.positions == 'learned':
        source_places, target_places = params['source_positions']['table'], params['target_positions']['table']
    else:
        source_places = sinusoids(len(source), config.d_model, config.positions)
        target_places = sinusoids(len(target_in), config.d_model, config.positions)
    x = embed(source_table, source_places, source, source_positions, config)
    memory = encode(params['encoder'], x, same(source_segments, source_segments), config, biases[0])
    x = embed(target_table, target_places, target_in, target_positions, config)
    visible = causal & same(target_segments, target_segments)
    memory_visible = same(target_segments, source_segments)
    hidden = decode(params['decoder'], x, memory, visible, memory_visible, config, biases[1])
    to_logits = params.get('projection', target_table.T).copy()
    if 'projection' not in params and config.pad_row == 'neither':
        to_logits[:, config.pad_id] = 0
    return hidden @ to_logits + params.get('logits_bias', 0.0)


def logits(params, config, source, target_in, packing=None):
    """Logits [B, T, V], float64, from a tree of arrays, a TransformerConfig, source [B, S] and target_in [B, T].

    `packing` is (source_segments, target_segments, source_positions, target_positions); without it each row is one
    sentence with padding after its source. At padding targets of packed rows (segment 0) the values mean nothing.
    """

    def to_float64(tree):
        return {k: to_float64(v) if isinstance(v, dict) else np.asarray(v, np.float64) for k, v in tree.items()}

    params, rows = to_float64(params), []
    for b in range(len(source)):
        if packing is None:
            source_segments = (source[b] != config.pad_id).astype(int)
            # Padding behind the target is hidden by causality, and its own logits are nobody's business.
            described = (source_segments, np.ones(len(target_in[b]), int))
            described += (np.arange(len(source[b])), np.arange(len(target_in[b])))
        else:
            described = tuple(part[b] for part in packing)
        rows.append(row_logits(params, config, source[b], target_in[b], *described))
    return np.stack(rows)
