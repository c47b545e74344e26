"""Small Marian models with random weights, made by transformers itself, in folders as it writes them. Needs torch."""

import io
import json
from pathlib import Path

import numpy as np
import sentencepiece
from num2words import num2words

LANGUAGES = ('>>deu<<', '>>fra<<')


def spm(lines: list[str], size: int, **settings) -> bytes:
    """A SentencePiece model such as OPUS-MT's: unigram, nmt_nfkc, no byte fallback."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        **{
            'vocab_size': size,
            'model_type': 'unigram',
            'bos_id': -1,
            'minloglevel': 2,
            'num_threads': 1,
            'hard_vocab_limit': False,
        }
        | settings,
    )
    return model.getvalue()


def number_words_models() -> tuple[bytes, bytes]:
    """SentencePiece models of number words, English and German."""
    en, de = ([num2words(n, lang=language) for n in range(1, 30_000, 17)] for language in ('en', 'de'))
    return spm(en, 90), spm(de, 90, normalization_rule_name='identity')


def pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def write_tokenizer(folder: Path, source: bytes, target: bytes, *, separate: bool = False, absent: int = 3) -> dict:
    """The tokenizer's files: EOS 0, unk 1, pad last, and a few of the source's pieces left out. Returns the ids."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'source.spm').write_bytes(source)
    (folder / 'target.spm').write_bytes(target)
    specials, sides = ['</s>', '<unk>'], [pieces(source)[:-absent], pieces(target)]
    vocabularies = {'vocab.json': sides[0] + sides[1]}
    if separate:
        vocabularies = {'vocab.json': sides[0], 'target_vocab.json': sides[1]}
    for name, listed in vocabularies.items():
        listed = [*specials, *([] if separate else LANGUAGES), *(piece for piece in listed if piece not in specials)]
        ids = {piece: i for i, piece in enumerate(dict.fromkeys([*listed, '<pad>']))}
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False), encoding='utf-8')
    settings = {'tokenizer_class': 'MarianTokenizer', 'source_lang': 'eng', 'target_lang': 'deu'}
    settings |= {'model_max_length': 512, 'separate_vocabs': separate}
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
    return {name: len(json.loads((folder / name).read_text(encoding='utf-8'))) for name in vocabularies}


def write_model(
    folder: Path, sizes: dict, *, seed: int = 0, generation: dict | None = None, learned_pad: bool = False, **changes
):
    """A MarianMTModel of random weights, wide enough for outputs to vary, saved beside its tokenizer; and returned."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    vocab_size = sizes['vocab.json']
    values = {
        'vocab_size': vocab_size,
        'decoder_vocab_size': sizes.get('target_vocab.json', vocab_size),
        'd_model': 32,
        'encoder_layers': 2,
        'decoder_layers': 2,
        'encoder_attention_heads': 4,
        'decoder_attention_heads': 4,
        'encoder_ffn_dim': 48,
        'decoder_ffn_dim': 48,
        'max_position_embeddings': 512,
        'activation_function': 'swish',
        'scale_embedding': True,
        'pad_token_id': vocab_size - 1,
        'decoder_start_token_id': vocab_size - 1,
        'eos_token_id': 0,
        'forced_eos_token_id': 0,
    } | changes
    model = MarianMTModel(MarianConfig(**values)).eval()
    widen(model, values, seed)
    if learned_pad:
        with torch.no_grad():
            model.model.shared.weight[values['pad_token_id']] = 0.1
    pad = values['pad_token_id']
    generation = {'num_beams': 4, 'max_length': 25, 'bad_words_ids': [[pad]]} if generation is None else generation
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    return model


def widen(model, values: dict, seed: int) -> None:
    """Makes all values random, and the outputs varied.

    Embeddings have one norm, so that no piece always wins; the last feed-forward is large, with centered weights, so
    that the next token depends on more than a constant; EOS is likely enough to come.
    """
    import torch

    rng = np.random.default_rng(seed)
    width, pad = values['d_model'], values['pad_token_id']
    gains = {'q_proj': 1.5, 'k_proj': 1.5, 'v_proj': 1.0, 'out_proj': 1.0, 'fc1': 2.0, 'fc2': 2.0}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if 'embed_positions' in name:
                continue
            drawn = rng.normal(size=tuple(parameter.shape))
            kind = name.split('.')[-2]
            if kind in gains and name.endswith('weight'):
                drawn -= drawn.mean(axis=1, keepdims=True) * (kind == 'fc2')
                drawn *= gains[kind] * parameter.shape[1] ** -0.5
            elif 'layer_norm' in name:
                drawn = 0.2 * drawn + name.endswith('weight')
            elif name.endswith('bias'):
                drawn *= 0.02
            else:
                drawn /= np.linalg.norm(drawn, axis=1, keepdims=True) * (
                    1 if values['scale_embedding'] else width**-0.5
                )
            parameter.copy_(torch.tensor(drawn, dtype=torch.float32))
        last = model.model.decoder.layers[-1]
        last.fc2.weight.mul_(3.0)
        last.final_layer_norm.weight.mul_(3.0 if values['scale_embedding'] else 3.0 * width**-0.5)
        for table in (model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
            if table.weight.shape[0] > pad:
                table.weight[pad] = 0.0
        bias = 0.1 * rng.normal(size=tuple(model.final_logits_bias.shape))
        bias[0, 0] += 5.0
        model.final_logits_bias.copy_(torch.tensor(bias, dtype=torch.float32))


def change(folder: Path, name: str, **values) -> None:
    """Sets fields of a JSON file; None removes one."""
    file = folder / name
    fields = json.loads(file.read_text(encoding='utf-8')) | values
    file.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}), encoding='utf-8')
