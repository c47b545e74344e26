"""The attention RNN as loops over NumPy arrays, one sentence and one position at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(p, x):
    return x @ p['kernel'] + p.get('bias', 0.0)


def advance(p, of_input, state, cell):
    """The state of a cell after one step; of an LSTM (h, c), of a GRU (h,)."""
    recurrent = dense(p['recurrent'], state[0])
    if cell == 'lstm':
        i, f, g, o = np.split(of_input + recurrent, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    xr, xz, xn = np.split(of_input, 3)
    hr, hz, hn = np.split(recurrent, 3)
    z = sigmoid(xz + hz)
    return ((1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * state[0],)


def zeros(size, cell):
    return (np.zeros(size),) * (2 if cell == 'lstm' else 1)


def layer(p, xs, cell):
    """h of each of xs, from left to right."""
    state, out = zeros(len(p['recurrent']['kernel']), cell), []
    for x in xs:
        state = advance(p, dense(p['input'], x), state, cell)
        out.append(state[0])
    return np.array(out)


def bidirectional(p, xs, cell):
    return np.concatenate([layer(p['forward'], xs, cell), layer(p['backward'], xs[::-1], cell)[::-1]], axis=-1)


def energy(p, config, h, annotation):
    if config.attention == 'additive':
        return p['vector'] @ np.tanh(dense(p['query'], h) + dense(p['key'], annotation))
    return h @ dense(p['key'], annotation)


def attend(p, config, h, annotations):
    energies = np.array([energy(p, config, h, each) for each in annotations])
    weights = np.exp(energies - energies.max())
    return (weights / weights.sum()) @ annotations


def forward(params, config, source, target_in):
    """Logits [T, V] of one sentence pair without padding; pad_id in target_in is the zero vector."""
    scale, size = config.d_model**0.5, config.hidden_size
    tables = [params.get(f'{side}_embedding', params.get('embedding'))['table'] for side in ('source', 'target')]
    annotations = tables[0][source] * scale
    for number in range(config.num_encoder_layers):
        annotations = bidirectional(params[f'encoder_{number}'], annotations, config.cell)
    p = params['decoder']
    ends = np.concatenate([annotations[-1, :size], annotations[0, size:]])
    states = [zeros(size, config.cell) for _ in range(config.num_decoder_layers)]
    states[0] = (np.tanh(dense(p['initial'], ends)), *states[0][1:])
    context = ends if config.attention == 'none' else np.zeros(2 * size)
    logits = []
    for token in target_in:
        word = tables[1][token] * scale * (token != config.pad_id)
        of_input = dense(p['layers_0']['input'], word)
        if config.input_feeding:
            of_input = of_input + dense(p['feeding'], context)
        states[0] = advance(p['layers_0'], of_input, states[0], config.cell)
        h = states[0][0]
        if config.attention != 'none':
            context = attend(p, config, h, annotations)
        for number in range(1, config.num_decoder_layers):
            upper = p[f'layers_{number}']
            of_input = dense(upper['input'], np.concatenate([h, context]))
            states[number] = advance(upper, of_input, states[number], config.cell)
            h = states[number][0]
        hidden = np.tanh(dense(p['output'], np.concatenate([h, context, word])))
        table = params['projection'] if config.tie_embeddings == 'none' else tables[1].T
        logits.append(hidden @ table + params.get('logits_bias', 0.0))
    return np.array(logits)
