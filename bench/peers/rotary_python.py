"""The Python package `rotary` beside what PyTorch users have: 8192 tokens on the CPU, one token, and a step of training.

    python bench/peers/rotary_python.py [path to the command roformer]

Where the command is given, `roformer bench rope` runs in the same minute, and the package is compared with it.
"""

import json
import subprocess
import sys

import torch
from common import compete, report

from rotary.compat.transformers import patch, unpatch
from rotary.torch import RotaryEmbedding, rotate, rotate_

LENGTH = 8192


def rotate_half(x):
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


def apply(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def hub_kernel():
    """The hub's kernel `rotary`, or why it cannot be had."""
    try:
        from kernels import get_kernel

        return get_kernel("kernels-community/rotary", version=2).apply_rotary_transformers
    except Exception as error:
        report(what="hub kernel", skipped=f"{type(error).__name__}: {error}"[:200])
        return None


def many_tokens(command, hub):
    lines = []
    if command:
        ran = subprocess.run(
            [command, "bench", "rope", "--json", "--threads", str(torch.get_num_threads())], capture_output=True
        )
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
    compiled = torch.compile(apply)
    angles = torch.outer(torch.arange(LENGTH).float(), 1e4 ** (-torch.arange(0, 128, 2).float() / 128))
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        # As projections leave them: [batch, length, heads, head_dim] in memory.
        q, k = (torch.randn(1, LENGTH, heads, 128, dtype=dtype).transpose(1, 2) for heads in (32, 8))
        cos, sin = (torch.cat((f(angles), f(angles)), -1).to(dtype)[None] for f in (torch.cos, torch.sin))
        wide = cos[:, None], sin[:, None]
        for a, b in zip(rotate(q, k, cos, sin), apply(q, k, *wide)):
            torch.testing.assert_close(a, b, rtol=0, atol=8 * torch.finfo(dtype).eps)
        module = RotaryEmbedding(128, max_positions=LENGTH)
        # By themselves, as `roformer bench rope` runs: the others ask for memory and give it back all the time.
        in_place = {
            "rotary in place": lambda: module(q, k, in_place=True),
            "rotary in place, their tables": lambda: rotate_(q, k, cos, sin),
        }
        peers = {
            "rotary": lambda: rotate(q, k, cos, sin),
            "PyTorch eager": lambda: apply(q, k, *wide),
            "torch.compile": lambda: compiled(q, k, *wide),
        }
        if hub:
            peers["hub kernel"] = lambda: hub(q, k, cos, sin)
        for line in lines:
            if line.get("dtype") == name and line.get("pairing") == "half" and line.get("length") == LENGTH:
                report(what="roformer bench rope", dtype=name, order=line["order"], ms=line["us"] / 1e3)
        times = compete(in_place) | compete(peers)
        for peer, (low, middle, high) in times.items():
            report(
                what="8192 tokens",
                peer=peer,
                dtype=name,
                ms=middle * 1e3,
                ms_quartiles=[low * 1e3, high * 1e3],
                times_rotary_in_place=middle / times["rotary in place"][1],
            )


def nothing_in(x):
    """Operations that do nothing, made in the two ways that torch has."""
    library = torch.library.Library("nothing", "DEF")
    library.define("plain(Tensor(a!) x) -> ()")
    library.impl("plain", lambda x: None, "CPU")

    @torch.library.custom_op("nothing::custom", mutates_args=("x",))
    def custom(x: torch.Tensor) -> None:
        pass

    nothing_in.library = library  # It ends with its operations.
    return {"an empty operation of torch.library": torch.ops.nothing.plain, "an empty custom_op": custom}


def one_token():
    q, k = torch.randn(1, 32, 1, 128), torch.randn(1, 8, 1, 128)
    module = RotaryEmbedding(128)
    # A rotation that keeps lengths: a thousand of another would end in numbers that processors are slow with.
    angles = torch.rand(1, 1, 64).repeat(1, 1, 2)
    cos, sin = angles.cos(), angles.sin()
    wide = cos[:, None], sin[:, None]
    ones = torch.ones_like(q)

    def thousand(f):
        def run():
            for _ in range(1000):
                f()

        return run

    nothing, empty = nothing_in(q), torch.nn.Identity()
    peers = {
        "rotary in place": thousand(lambda: rotate_(q, k, cos, sin)),
        "rotary": thousand(lambda: rotate(q, k, cos, sin)),
        "RotaryEmbedding in place": thousand(lambda: module(q, k, offset=100, in_place=True)),
        "RotaryEmbedding": thousand(lambda: module(q, k, offset=100)),
        "PyTorch eager": thousand(lambda: apply(q, k, *wide)),
        # What cannot be gone below: operations of torch's that do next to nothing.
        "x.mul_(x)": thousand(lambda: ones.mul_(ones)),
        "empty_like of q and of k": thousand(lambda: (torch.empty_like(q), torch.empty_like(k))),
        "a module that does nothing": thousand(lambda: empty(q)),
        **{name: thousand(lambda f=f: f(q)) for name, f in nothing.items()},
    }
    with torch.no_grad():
        for peer, (low, middle, high) in compete(peers).items():
            report(what="one token", peer=peer, us=middle * 1e3, us_quartiles=[low * 1e3, high * 1e3])


def training():
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, vocab_size=1000
    )
    model = transformers.LlamaForCausalLM(config)
    tokens = torch.randint(0, 1000, (2, 512))

    def step():
        model.zero_grad()
        model(tokens, labels=tokens).loss.backward()

    def patched():
        patch(model)
        step()
        unpatch(model)

    # Finding out what to patch is no part of a step.
    from rotary.compat import transformers as compat

    form = compat.form_of(transformers.models.llama.modeling_llama.apply_rotary_pos_emb)
    compat.form_of = lambda _: form
    for peer, (low, middle, high) in compete({"transformers": step, "patched": patched}).items():
        report(
            what="training step, Llama of 2 layers, 2 x 512 tokens",
            peer=peer,
            ms=middle * 1e3,
            ms_quartiles=[low * 1e3, high * 1e3],
        )


report(what="machine", torch=torch.__version__, threads=torch.get_num_threads())
many_tokens(sys.argv[1] if len(sys.argv) > 1 else None, hub_kernel())
one_token()
training()
