"""The forward pass of RoFormer-base on one CUDA GPU in bf16, as fast as PyTorch makes it for someone who knows how.

The model of `roformer bench model --device cuda`, written by hand: q, k and v in one product, rotary embedding by halves from tables that
are there, attention by PyTorch's fused kernels, compiled, and captured as one CUDA graph for each shape. *ms* is the GPU's clock over a
replay with ids that lie on the GPU and states that stay there; *call_ms* the CPU's, with ids copied there and the means of the texts copied
back to pinned memory. One line for each attention, submitted and captured; take the fastest.

    python3 gpu_forward.py [BATCHxLENGTH ...]
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from common import report

SHAPES = [tuple(map(int, shape.split("x"))) for shape in sys.argv[1:]] or [(1, 16), (8, 128), (32, 512)]
ATTENTION = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
VOCABULARY, WIDTH, HEAD_DIM, LAYERS, ROUNDS = 12000, 768, 64, 12, 21
VERSIONS = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name()}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.after_attention, self.after_feed_forward = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, -1, HEAD_DIM).unbind(2)

        def rotated(heads):
            left, right = heads.float().chunk(2, -1)
            turned = torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
            return turned.to(heads.dtype).transpose(1, 2)

        seen = functional.scaled_dot_product_attention(rotated(q), rotated(k), v.transpose(1, 2))
        x = self.after_attention(x + self.merge(seen.transpose(1, 2).reshape(batch, length, WIDTH)))
        return self.after_feed_forward(x + self.narrow(functional.gelu(self.widen(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, ids, cos, sin):
        x = self.norm(self.words(ids) + self.kinds.weight[0])
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x, x.float().mean(1)


def quartiles(measure):
    times = sorted([measure() for _ in range(3 + ROUNDS)][3:])
    return [times[round(part * (ROUNDS - 1))] for part in (0.25, 0.5, 0.75)]


def measure(model, attention, batch, length):
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    frequencies = 1e4 ** (-torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)[None, :, None].cuda()
    cos, sin = angles.cos().float(), angles.sin().float()
    given = torch.randint(0, VOCABULARY, (batch, length)).pin_memory()
    ids = given.cuda()
    means = torch.empty(batch, WIDTH).pin_memory()

    def run():
        with sdpa_kernel([ATTENTION[attention]]):
            return compiled(ids, cos, sin)

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = run()
    for way, go, result in (("submitted", run, None), ("captured", graph.replay, recorded)):
        def by_gpu():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            go()
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)

        def by_cpu():
            start = time.perf_counter()
            ids.copy_(given, non_blocking=True)
            outcome = go()
            means.copy_((result or outcome)[1], non_blocking=True)
            torch.cuda.synchronize()
            return (time.perf_counter() - start) * 1e3

        low, middle, high = quartiles(by_gpu)
        report(what="forward", peer=f"torch.compile, {way}", attention=attention, dtype="bf16", batch=batch, length=length,
               ms=middle, ms_quartiles=[low, high], call_ms=quartiles(by_cpu)[1], **VERSIONS)


with torch.inference_mode():
    model = Model().eval().to("cuda", torch.bfloat16)
    for batch, length in SHAPES:
        for attention in ATTENTION:
            try:
                measure(model, attention, batch, length)
            except Exception as error:
                report(what="forward", attention=attention, batch=batch, length=length, error=str(error)[:200], **VERSIONS)
