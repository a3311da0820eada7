"""A training step on one CUDA GPU, as fast as PyTorch makes it for someone who knows how.

The model of `roformer bench train --device cuda`: norms first, rotary embedding, q, k and v in one product. Attention is
PyTorch's fused one, by cuDNN or FlashAttention in bf16 and by the memory-efficient kernel in TF32; the model is compiled; and
the whole step, with a fused AdamW, is captured as one CUDA graph. One line for each shape, precision and attention, eager
submission and captured; take the fastest. A backend that does not take a shape is reported with what it said.

    python3 gpu_train.py [small] [base] [long]
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from common import report

torch.backends.cuda.matmul.allow_tf32 = True

# vocabulary, batch, length, width, layers, features of a head
SHAPES = {
    "small": (64, 256, 40, 256, 4, 32),
    "base": (12000, 32, 512, 768, 12, 64),
    "long": (12000, 2, 8192, 768, 12, 64),
}
ATTENTION = {
    "cudnn": (SDPBackend.CUDNN_ATTENTION, True),
    "flash": (SDPBackend.FLASH_ATTENTION, True),
    "efficient": (SDPBackend.EFFICIENT_ATTENTION, False),
}


VERSIONS = {
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "cudnn": torch.backends.cudnn.version(),
    "gpu": torch.cuda.get_device_name(),
}


class Layer(nn.Module):
    def __init__(self, width, head_dim):
        super().__init__()
        self.head_dim = head_dim
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(batch, length, 3, -1, self.head_dim).unbind(2)

        def rotated(heads):
            left, right = heads.float().chunk(2, -1)
            turned = torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
            return turned.to(heads.dtype).transpose(1, 2)

        seen = functional.scaled_dot_product_attention(rotated(q), rotated(k), v.transpose(1, 2))
        x = x + self.merge(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.widen(self.before_feed_forward(x))))


class Model(nn.Module):
    def __init__(self, vocabulary, length, width, layers, head_dim):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, head_dim) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        frequencies = 1e4 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)[None, :, None]
        self.register_buffer("cos", angles.cos().float())
        self.register_buffer("sin", angles.sin().float())

    def forward(self, ids, targets):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return functional.cross_entropy(self.out(self.norm(x)).float().flatten(0, 1), targets.flatten())


def median(run, renew, steps=31, uncounted=6):
    times = []
    for _ in range(uncounted + steps):
        renew()
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times[uncounted:])[steps // 2]


def measure(name, attention):
    vocabulary, batch, length, width, layers, head_dim = SHAPES[name]
    kernel, is_bf16 = ATTENTION[attention]
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Model(vocabulary, length, width, layers, head_dim).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True, capturable=True)
    compiled = torch.compile(model)
    ids, targets = (torch.randint(0, vocabulary, (batch, length), device="cuda") for _ in range(2))

    def renew():
        ids.random_(0, vocabulary)
        targets.random_(0, vocabulary)

    def step():
        precision = torch.autocast("cuda", dtype=torch.bfloat16, enabled=is_bf16, cache_enabled=False)
        with sdpa_kernel([kernel]), precision:
            loss = compiled(ids, targets)
        loss.backward()
        optimizer.step()
        # Gradients keep their memory, which a captured step needs.
        optimizer.zero_grad(set_to_none=False)

    # What compiles and allocates must have happened before the capture, on another stream.
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for way, run in (("submitted", step), ("captured", graph.replay)):
        seconds = median(run, renew)
        report(what="train step", peer=f"torch.compile, {way}", attention=attention, shape=name, bf16=is_bf16,
               batch=batch, length=length, width=width, layers=layers, vocab=vocabulary, ms=seconds * 1e3,
               tokens_s=batch * length / seconds, **VERSIONS)


for shape in sys.argv[1:] or SHAPES:
    for attention in ATTENTION:
        try:
            measure(shape, attention)
        except Exception as error:
            report(what="train step", attention=attention, shape=shape, error=str(error)[:200], **VERSIONS)
