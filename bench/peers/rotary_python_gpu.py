"""The Python package `rotary` on an NVIDIA GPU beside a copy of the same bytes, and what one call costs the CPU.

    python bench/peers/rotary_python_gpu.py
"""

import time

import torch
from common import report

from rotary.torch import RotaryEmbedding, rotate, rotate_

SHAPE = (16, 8192, 128)  # batch, length, features of a head
ROUNDS = 41


def compete(functions):
    """Quartiles of each function's milliseconds by the GPU's clock, over rounds in which they take turns."""
    times = {name: [] for name in functions}
    for _ in range(4 + ROUNDS):
        for name, f in functions.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            f()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
    kept = {name: sorted(all[4:]) for name, all in times.items()}
    return {name: [all[round(part * (ROUNDS - 1))] for part in (0.25, 0.5, 0.75)] for name, all in kept.items()}


def call_us(f, calls=300, rounds=9):
    """Quartiles of the microseconds of a call by the CPU's clock, with nothing waited for."""
    times = []
    for _ in range(1 + rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            f()
        times.append((time.perf_counter() - start) / calls * 1e6)
    kept = sorted(times[1:])
    return [kept[round(part * (rounds - 1))] for part in (0.25, 0.5, 0.75)]


def many_tokens(dtype, module, cos, sin):
    batch, length, features = SHAPE
    q, k = (torch.randn(batch, heads, length, features, device="cuda", dtype=dtype) for heads in (32, 8))
    to_q, to_k = torch.empty_like(q), torch.empty_like(k)
    few = slice(0, 1), slice(0, 2), slice(0, 512)
    want = rotate(q[few].cpu(), None, cos.cpu(), sin.cpu())
    assert torch.equal(rotate(q, None, cos, sin)[few].cpu(), want), "not the bits of the CPU"
    functions = {
        "copy": lambda: (to_q.copy_(q), to_k.copy_(k)),
        "in place": lambda: rotate_(q, k, cos, sin),
        "new tensors": lambda: rotate(q, k, cos, sin),
        "RotaryEmbedding": lambda: module(q, k),
    }
    with torch.no_grad():
        times = compete(functions)
    for what, (low, middle, high) in times.items():
        fraction = times["copy"][1] / middle
        report(what=what, dtype=str(dtype)[6:], ms=middle, ms_quartiles=[low, high], fraction_of_copy=fraction)


def one_token(dtype, module, cos, sin):
    q, k = (torch.randn(1, heads, 1, SHAPE[2], device="cuda", dtype=dtype) for heads in (32, 8))
    ids = torch.tensor([5], device="cuda")
    functions = {
        "torch's add_": lambda: q.add_(0.0),
        "in place": lambda: rotate_(q, k, cos, sin, offset=5),
        "in place by ids": lambda: rotate_(q, k, cos, sin, position_ids=ids),
        "new tensors": lambda: rotate(q, k, cos, sin, offset=5),
        "RotaryEmbedding in place": lambda: module(q, k, offset=5, in_place=True),
    }
    with torch.no_grad():
        for what, f in functions.items():
            low, middle, high = call_us(f)
            report(what=f"one token: {what}", dtype=str(dtype)[6:], us=middle, us_quartiles=[low, high])


report(what="machine", torch=torch.__version__, gpu=torch.cuda.get_device_name())
angles = torch.outer(torch.arange(SHAPE[1]).float(), 1e4 ** (-torch.arange(0, SHAPE[2], 2).float() / SHAPE[2])).cuda()
for dtype in (torch.float32, torch.bfloat16):
    module = RotaryEmbedding(SHAPE[2], max_positions=SHAPE[1]).cuda()
    many_tokens(dtype, module, angles.cos(), angles.sin())
    one_token(dtype, module, angles.cos(), angles.sin())
