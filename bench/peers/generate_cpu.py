"""Text token by token on the CPU: transformers, as it is and compiled, with the decoders of `roformer bench generate`.

    python generate_cpu.py [THREADS] [DTYPE]

One text, a prompt of 32 tokens and 48 more with a cache of a fixed size; the median over those 48. In f32 or bf16.
"""
import statistics
import sys
import time

import torch
import transformers

from common import report

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
DTYPE = sys.argv[2] if len(sys.argv) > 2 else "f32"
TYPE = {"f32": torch.float32, "bf16": torch.bfloat16}[DTYPE]
PROMPT, WRITTEN = 32, 48
DECODERS = {"llama-0.1b": (768, 12, 12, 2048), "llama-0.5b": (1280, 22, 20, 3456)}
torch.set_num_threads(THREADS)


def make(name):
    width, layers, heads, wide = DECODERS[name]
    config = transformers.LlamaConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=wide,
                                      vocab_size=32000, tie_word_embeddings=True)
    return transformers.LlamaForCausalLM(config).eval().to(TYPE)


def measure(peer, name, model, step):
    """The median of a step, after one text that warms up."""
    ids = torch.arange(PROMPT + WRITTEN).mul(7919).remainder(32000)[None]
    for _ in range(2):
        cache = transformers.StaticCache(model.config, max_cache_len=PROMPT + WRITTEN)
        model(ids[:, :PROMPT], past_key_values=cache)
        times = []
        for token in range(PROMPT, PROMPT + WRITTEN):
            start = time.perf_counter()
            step(ids[:, token:token + 1], past_key_values=cache)
            times.append(time.perf_counter() - start)
    report(what="generate", peer=peer, model=name, dtype=DTYPE, prompt=PROMPT, tokens_s=1 / statistics.median(times))


with torch.inference_mode():
    for name in DECODERS:
        model = make(name)
        measure("transformers", name, model, model)
        try:
            measure("transformers, compiled", name, model, torch.compile(model, dynamic=False))
        except Exception as error:
            report(what="failed", peer="transformers, compiled", model=name, why=str(error)[:300])
