"""Softmax attention on one CUDA GPU, forward and backward, by PyTorch's fused kernels: cuDNN's and FlashAttention's.

The shapes of `roformer bench attention --device cuda`: bf16, heads of 64 and of 128 features, 2048 in all, 16384 tokens in
sequences of 512, 2048 and 8192, with and without a causal mask. Each way is captured as a CUDA graph of as many as take some
10 ms, and timed by events over replays; a line is a median. Backward is timed as PyTorch has it by default, and as
`torch.use_deterministic_algorithms` has it, which gives the same bits each time, as ours does. PyTorch offers cuDNN's kernels for
the former alone; a line says so.

    python3 attention_gpu.py
"""
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from common import report

# Why a backend is not taken is in the error that follows.
warnings.filterwarnings("ignore")

TOKENS, WIDTH = 16384, 2048
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def median_us(run, stream, rounds=11):
    """Microseconds of a call, from replays of a recording of several."""
    def time(work):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record(stream)
        work()
        after.record(stream)
        after.synchronize()
        return before.elapsed_time(after)

    for _ in range(3):
        one = time(run)
    count = max(1, min(100, round(10 / max(one, 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            run()
    times = [time(graph.replay) / count * 1e3 for _ in range(rounds + 1)][1:]
    return sorted(times)[rounds // 2]


def measure(name, head_dim, length, causal):
    batch, heads = TOKENS // length, WIDTH // head_dim
    torch.manual_seed(0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), sdpa_kernel(BACKENDS[name]):
        # Queries, keys and values side by side, as one product gives them.
        joined = torch.randn(batch, length, 3, heads, head_dim, device="cuda", dtype=torch.bfloat16)
        q, k, v = (part.transpose(1, 2).detach().requires_grad_() for part in joined.unbind(2))
        slope = torch.randn(batch, length, heads, head_dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

        def forward():
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        def line(way, run, products, **more):
            us = median_us(run, stream)
            pairs = length * (length + 1) / 2 if causal else length * length
            report(what="attention", peer=f"PyTorch, {name}", way=way, batch=batch, length=length, heads=heads,
                   head_dim=head_dim, causal=causal, us=us, tflops=products * 2 * batch * heads * head_dim * pairs / us / 1e6,
                   torch=torch.__version__, cudnn=torch.backends.cudnn.version(), **more)

        with torch.no_grad():
            line("forward", forward, 2)
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            try:
                out = forward()
                line("backward", lambda: torch.autograd.grad(out, (q, k, v), slope, retain_graph=True), 5,
                     deterministic=deterministic)
            finally:
                torch.use_deterministic_algorithms(False)


for causal in (False, True):
    for head_dim in (64, 128):
        for length in (512, 2048, 8192):
            for name in BACKENDS:
                try:
                    measure(name, head_dim, length, causal)
                except Exception as error:
                    report(what="attention", peer=f"PyTorch, {name}", length=length, head_dim=head_dim, causal=causal,
                           error=str(error)[:200])
