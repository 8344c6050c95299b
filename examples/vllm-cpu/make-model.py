#!/usr/bin/env python3
"""make-model.py DIR: writes a tiny random Llama with its own tokenizer, in Hugging Face's layout.

The model is as small as vLLM's CPU attention allows (heads of 64) and says nothing sensible, but it
is a whole model: with temperature 0 it gives the same text every time, and its text is printable,
since every token that is not plain ASCII has an output weight of zero. Needs numpy and tokenizers.
"""

import json
import os
import struct
import sys

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB, HIDDEN, MLP, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 1024, 256, 256, 2, 4, 2, 64
MAX_POSITIONS = 8192
SPECIAL = ["<pad>", "<s>", "</s>"]
SEED = 20

# What the tokenizer learns its merges from; any plain English will do.
CORPUS = """
A request waits in the queue until the scheduler finds room for it. Then the prompt is read in one
step, which is called prefill, and after that each step gives one more token until the answer ends.
The slow brown bear walks around the quiet lake while a quick red fox runs over the green hill.
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
)


def make_tokenizer(path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS] * 50, trainer)
    tokenizer.save(path)
    return tokenizer.get_vocab()


def printable(token):
    """Whether a byte-level token is plain ASCII ("Ġ" stands for the space)."""
    return not token.startswith("<") and all(c == "Ġ" or (c.isascii() and c.isprintable()) for c in token)


def make_weights(vocab):
    rng = np.random.default_rng(SEED)

    def normal(*shape, scale=0.08):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    ones = np.ones(HIDDEN, np.float32)
    weights = {"model.embed_tokens.weight": normal(VOCAB, HIDDEN, scale=1.0)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        weights[prefix + "self_attn.q_proj.weight"] = normal(HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.k_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.v_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        weights[prefix + "self_attn.o_proj.weight"] = normal(HIDDEN, HEADS * HEAD_DIM)
        weights[prefix + "mlp.gate_proj.weight"] = normal(MLP, HIDDEN)
        weights[prefix + "mlp.up_proj.weight"] = normal(MLP, HIDDEN)
        weights[prefix + "mlp.down_proj.weight"] = normal(HIDDEN, MLP)
        weights[prefix + "input_layernorm.weight"] = ones
        weights[prefix + "post_attention_layernorm.weight"] = ones
    weights["model.norm.weight"] = ones

    head = normal(VOCAB, HIDDEN, scale=0.3)
    keep = np.zeros(VOCAB, bool)
    keep[[index for token, index in vocab.items() if printable(token)]] = True
    head[~keep] = 0
    weights["lm_head.weight"] = head
    return weights


def save_safetensors(path, weights):
    """The safetensors format: length of a JSON header, the header, the arrays one after the other."""
    header, offset = {}, 0
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in weights.values():
            file.write(array.tobytes())


def save_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def at(name):
        return os.path.join(folder, name)

    vocab = make_tokenizer(at("tokenizer.json"))
    ids = {"bos_token_id": vocab["<s>"], "eos_token_id": vocab["</s>"]}
    save_json(
        at("tokenizer_config.json"),
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "model_max_length": MAX_POSITIONS,
            "chat_template": CHAT_TEMPLATE,
        },
    )
    save_json(
        at("config.json"),
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": MLP,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCAB,
            "max_position_embeddings": MAX_POSITIONS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "torch_dtype": "bfloat16",
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            **ids,
        },
    )
    save_json(at("generation_config.json"), ids)
    save_safetensors(at("model.safetensors"), make_weights(vocab))


if __name__ == "__main__":
    main()
