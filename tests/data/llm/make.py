#!/usr/bin/env python3
"""Writes the small models of this folder, and what transformers computes with them: their logits and greedy texts.

Run with torch and transformers (`pip install torch transformers safetensors`); the files are kept, so that tests need
neither. The weights are random: large enough that the likeliest token is clearly so."""

import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).parent
SIZES = dict(
    vocab_size=61,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,

    initializer_range=0.25,
    bos_token_id=None,
    eos_token_id=7,
    pad_token_id=None,
)
PROMPTS = [[5], [1, 2, 3, 4, 6, 8, 9], [60, 0, 33, 12, 12, 12, 50, 41, 22, 1, 59, 3, 18, 27, 35, 46, 11, 2, 30]]
# Longer than a tile of the attention.
LONG = [(i * i + 7 * i) % 61 for i in range(1100)]
WRITTEN = 40


def expect(model):
    cases = []
    for prompt in PROMPTS + [LONG]:
        with torch.no_grad():
            tokens = list(prompt)
            first = None
            for _ in range(WRITTEN if prompt is not LONG else 5):
                logits = model(torch.tensor([tokens])).logits[0, -1].float()
                first = logits if first is None else first
                tokens.append(int(logits.argmax()))
        cases.append({"prompt": prompt, "logits": [round(x, 6) for x in first.tolist()], "written": tokens[len(prompt):]})
    return cases


def save(name, model):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    # They are all 1 and all 0 at first, which would hide that they are used at all.
    for parameter, values in model.named_parameters():
        if "norm" in parameter:
            torch.nn.init.uniform_(values, 0.5, 1.5)
        elif parameter.endswith("bias"):
            torch.nn.init.normal_(values, std=0.5)
    model.eval()
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "model.safetensors").chmod(0o644)
    (folder / "generation_config.json").unlink(missing_ok=True)
    # In 32 bits, with the weights as they are: what is computed in between is rounded there at other places than here.
    cases = expect(model.float())
    (folder / "expected.json").write_text(json.dumps(cases) + "\n")
    print(name, [case["written"][:8] for case in cases], file=sys.stderr)


torch.manual_seed(1)
save("llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(rope_theta=500.0, **SIZES)))
qwen = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(tie_word_embeddings=True, **SIZES))
save("qwen2", qwen.to(torch.bfloat16))
