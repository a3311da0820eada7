"""Makes the reference data for position encodings in `encodings/`: losses and gradients in f64.

    python golden/position_encodings.py

The model is that of `training.py`, PyTorch's encoder with norms first, with each encoding written out over whole matrices
of scores as its paper has it; the gradients are autograd's. Weights come from an integer hash of their names.
"""

import math
from pathlib import Path

import numpy
import safetensors.torch
import torch
from torch import nn

import manifest
import roformer as common
import training

OUT = Path(__file__).resolve().parent / "encodings"
SIZES = {"vocab_size": 19, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
         "layer_norm_eps": 1e-5}  # fmt: skip
BATCH, LENGTH = 2, 9
LABELS = [
    "forget",
    "forget:gate=relu,bias=0",
    "forget:rotary=true",
    "pope",
    "pope:base=50,phases=false",
    "fire:hidden=6",
    "kerple:kernel=power",
    "sandwich:dim=12",
    "rotary:learned=heads",
    "high:period=9",
    "clipped:period=5",
    "clipped:period=5,width=4",
    "selective",
    "selective:base=50,bias=0",
    "extend:window=4",
    "extend:window=3,group=2",
    "fope:period=20",
    "axial:side=4",
    "contextual:positions=3",
    "abacus:digits=3-9,places=4,shift=2",
    "path:rank=5",
]


class Encoded(training.Plain):
    """The plain encoder, causal, with an encoding by its label."""

    def __init__(self, label):
        super().__init__(**SIZES, rope_theta=None, causal=True)
        self.name, _, rest = label.partition(":")
        self.settings = dict(part.split("=") for part in rest.split(",") if part)
        width, heads = SIZES["hidden_size"], self.heads
        dim = width // heads
        shapes = {
            "forget": {"weight": (heads, width), "bias": (heads,)},
            "pope": {} if self.settings.get("phases") == "false" else {"phases": (heads, dim)},
            "fire": {"scale": (1, 2), "inner.weight": (int(self.settings.get("hidden", 32)), 2),
                     "outer.weight": (heads, int(self.settings.get("hidden", 32)))},
            "kerple": {"weight": (heads, 2)},
            "path": {"down.weight": (int(self.settings.get("rank", 32)), width),
                     "up.weight": (width, int(self.settings.get("rank", 32))),
                     "beta.weight": (heads, width), "beta.bias": (heads,)},
            "contextual": {"weight": (int(self.settings.get("positions", 64)) + 1, dim)},
            "rotary": {f"frequencies.{head}": (1, dim // 2) for head in range(heads)},
            "selective": {"weight": (heads * dim // 2, width), "bias": (heads * dim // 2,)},
        }.get(self.name, {})  # fmt: skip
        # Names with dots, as the library has them: a dictionary beside the modules.
        self.own = {
            f"position.{self.name}.{layer}.{part}": nn.Parameter(torch.zeros(shape))
            for layer in range(SIZES["num_hidden_layers"])
            for part, shape in shapes.items()
        }
        if self.name == "abacus":
            self.rows = 1 + int(self.number("places", 64)) + int(self.number("shift", 16))
            self.own["position.abacus.weight"] = nn.Parameter(torch.zeros(self.rows, width))

    def named_parameters(self, *args, **kwargs):
        yield from super().named_parameters(*args, **kwargs)
        yield from self.own.items()

    def number(self, key, default):
        return float(self.settings.get(key, default))

    def part(self, layer, part):
        return self.own[f"position.{self.name}.{layer}.{part}"]

    def forward(self, ids):
        x = self.embed(ids)
        if self.name == "abacus":
            x = x + self.own["position.abacus.weight"][self.places(ids)]
        for layer, block in enumerate(self.blocks.layers):
            x = x + self.mix(layer, block.self_attn, block.norm1(x))
            x = x + block.linear2(nn.functional.gelu(block.linear1(block.norm2(x))))
        return self.out(x)

    def places(self, ids):
        """For each token the digits of its number up to it, none where it is no digit, `[batch, length]`."""
        first, last = (int(end) for end in self.settings["digits"].split("-"))
        is_digit, count, columns = (ids >= first) & (ids <= last), torch.zeros_like(ids[:, 0]), []
        for column in range(ids.shape[1]):
            count = (count + 1) * is_digit[:, column]
            columns.append(count.clamp(max=self.rows - 1))
        return torch.stack(columns, dim=1)

    def mix(self, layer, attention, x):
        length, width = x.shape[1:]
        dim = width // self.heads
        qkv = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        products = self.along(layer, x, q, k) if self.name == "path" else self.products(layer, x, q, k)
        scores = products / math.sqrt(dim) + self.biases(layer, x, length)
        scores = scores.masked_fill(training.later(length), -torch.inf)
        if self.name == "contextual":
            scores = scores + self.counted(layer, q, scores)
        mixed = scores.softmax(-1) @ v
        return attention.out_proj(mixed.transpose(1, 2).flatten(2))

    def products(self, layer, x, q, k):
        """q·k of every pair, `[batch, heads, length, length]`."""
        length, dim = q.shape[2:]
        places = torch.arange(length, dtype=torch.float64)
        if self.name == "pope":
            theta = self.number("base", 10000) ** (-torch.arange(dim, dtype=torch.float64) / dim)
            # (s − t)·θ, for query t and key s.
            angles = (places[None, :, None] - places[:, None, None]) * theta
            delta = torch.zeros(self.heads, dim, dtype=torch.float64)
            if "phases" not in self.settings:
                delta = self.part(layer, "phases")
            cosines = torch.cos(angles[None] + delta[:, None, None, :])
            q, k = (nn.functional.softplus(x, threshold=1e9) for x in (q, k))
            return (q[:, :, :, None] * k[:, :, None] * cosines).sum(-1)
        if self.name == "axial":
            side, each = int(self.number("side", 16)), dim // 4
            theta = self.number("base", 100) ** (-torch.arange(each, dtype=torch.float64) / each)
            # The first half of the pairs by rows, the second by columns.
            angles = torch.cat([(places // side)[:, None] * theta, (places % side)[:, None] * theta], dim=-1)
            turn = lambda x: training.rotate(x, angles.cos(), angles.sin())
            return turn(q) @ turn(k).transpose(-1, -2)
        theta = self.frequencies(layer, dim)
        if theta is None:
            return q @ k.transpose(-1, -2)
        if self.name == "selective":
            z = nn.functional.linear(x, self.part(layer, "weight"), self.part(layer, "bias"))
            # `[batch, heads, length, pairs]`: what each token turns by, summed up to it.
            angles = (z.unflatten(-1, (self.heads, -1)).cumsum(1) * theta).transpose(1, 2)
            turn = lambda x: training.rotate(x, angles.cos(), angles.sin())
            return turn(q) @ turn(k).transpose(-1, -2)
        if self.name == "extend":
            window, group = int(self.settings["window"]), int(self.settings.get("group", 0))
            far = lambda at: at // group if group else torch.zeros_like(at)
            at = torch.arange(length)
            shift = window - window // group if group else window
            turn = lambda x, at: training.rotate(x, (at[:, None] * theta).cos(), (at[:, None] * theta).sin())
            near = turn(q, at) @ turn(k, at).transpose(-1, -2)
            distant = turn(q, far(at) + shift) @ turn(k, far(at)).transpose(-1, -2)
            return torch.where(at[:, None] - at[None] < window, near, distant)
        if self.name == "fope":
            theta = theta[0][2 * math.pi / theta[0] <= self.number("period", 64)]
            angles = places[:, None] * theta
            # `[heads, length, pairs]`, and (1, 0) for pairs that stand still.
            own = [self.coefficients(layer, head, len(theta)) for head in range(self.heads)]
            cos = torch.stack([angles.cos() @ of[0] for of in own])
            sin = torch.stack([angles.sin() @ of[1] for of in own])
            pad = (0, dim // 2 - len(theta))
            cos, sin = nn.functional.pad(cos, pad, value=1.0), nn.functional.pad(sin, pad)
            turn = lambda x: training.rotate(x, cos, sin)
            return turn(q) @ turn(k).transpose(-1, -2)
        # `[heads, length, pairs]`, of the first features.
        angles = places[None, :, None] * theta[:, None]
        turning = 2 * theta.shape[-1]
        turn = lambda x: torch.cat(
            [training.rotate(x[..., :turning], angles.cos(), angles.sin()), x[..., turning:]], dim=-1
        )
        return turn(q) @ turn(k).transpose(-1, -2)

    def along(self, layer, x, q, k):
        """kᵀ·H_(j+1)·…·H_i·q of every pair, `[batch, heads, length, length]`; 0 of keys after the query."""
        length, dim = q.shape[2:]
        w = x @ self.part(layer, "down.weight").T @ self.part(layer, "up.weight").T
        w = w.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        w = w / w.norm(dim=-1, keepdim=True)
        z = x @ self.part(layer, "beta.weight").T + self.part(layer, "beta.bias")
        beta = 2 * torch.sigmoid(z).transpose(1, 2)
        one = torch.eye(dim, dtype=x.dtype)
        maps = one - beta[..., None, None] * w[..., :, None] * w[..., None, :]
        rows = []
        for i in range(length):
            path, row = one.expand(maps[:, :, 0].shape), [torch.zeros_like(beta[:, :, 0])] * length
            for j in range(i, -1, -1):
                row[j] = torch.einsum("bha,bhac,bhc->bh", k[:, :, j], path, q[:, :, i])
                path = maps[:, :, j] @ path
            rows.append(torch.stack(row, dim=-1))
        return torch.stack(rows, dim=2)

    def counted(self, layer, q, scores):
        """q·e[p], with p what the query counts from a key on, `[batch, heads, length, length]`."""
        table = self.part(layer, "weight")
        places = torch.sigmoid(scores).flip(-1).cumsum(-1).flip(-1).clamp(max=table.shape[0] - 1)
        low, high = places.floor(), places.ceil()
        products, part = q @ table.T, places - low
        return products.gather(-1, low.long()) * (1 - part) + products.gather(-1, high.long()) * part

    def frequencies(self, layer, dim):
        """θ `[heads or 1, pairs]`, where something turns."""
        ladder = torch.from_numpy(10000.0 ** (-numpy.arange(0, dim, 2) / dim))[None]
        if self.name == "rotary":
            return torch.cat([self.part(layer, f"frequencies.{head}") for head in range(self.heads)])
        if self.name in ("extend", "fope") or self.name == "forget" and self.settings.get("rotary") == "true":
            return ladder
        if self.name == "selective":
            return torch.from_numpy(self.number("base", 10000) ** (-numpy.arange(0, dim, 2) / dim))
        if self.name == "high":
            pairs = int(self.number("part", 0.5) * dim / 2)
            slowest = 2 * math.pi / self.number("period", 32)
            return torch.tensor([[slowest ** (j / max(pairs - 1, 1)) for j in range(pairs)]], dtype=torch.float64)
        if self.name == "clipped":
            slower = 2 * math.pi / ladder / self.number("period", 64)
            along = torch.log(slower) / math.log(self.number("width", slower.max()))
            return ladder * (1 + torch.cos(math.pi * along.clamp(0, 1))) / 2
        return None

    def coefficients(self, layer, head, pairs):
        """FoPE's, `[frequencies, pairs]`, of cosines and of sines: the identity and what the library draws for a seed."""
        place = mix(int(self.number("seed", 0)))
        for at in (layer, head):
            place = mix(place ^ at)
        draws = lambda which: [normal(mix(place ^ which), at) for at in range(pairs * pairs)]
        deviation = self.number("gain", 0.3) / math.sqrt(pairs)
        both = torch.tensor([draws(0), draws(1)], dtype=torch.float64).view(2, pairs, pairs)
        return torch.eye(pairs, dtype=torch.float64) + deviation * both

    def biases(self, layer, x, length):
        """What is added to scores, `[batch or 1, heads, length, length]`."""
        i, j = torch.arange(length)[:, None], torch.arange(length)[None]
        far = (i - j).clamp(min=0).double()
        if self.name == "forget":
            z = nn.functional.linear(x, self.part(layer, "weight"), self.part(layer, "bias"))
            gate = -torch.relu(z) if self.settings.get("gate") == "relu" else nn.functional.logsigmoid(z)
            # For each pair the sum over the tokens after the key, up to the query.
            t = torch.arange(length)[None, None]
            between = ((t > j[:, :, None]) & (t <= i[:, :, None])).double()
            return torch.einsum("ijt,bth->bhij", between, gate)
        if self.name == "fire":
            c, threshold = self.part(layer, "scale")[0].exp()
            psi = lambda r: torch.log(1 + c * r)
            x = psi(far) / psi(torch.maximum(threshold, i.double()))
            inner, outer = self.part(layer, "inner.weight"), self.part(layer, "outer.weight")
            hidden = torch.relu(x[..., None] * inner[:, 0] + inner[:, 1])
            return torch.einsum("ijs,hs->hij", hidden, outer)[None]
        if self.name == "kerple":
            own = self.part(layer, "weight")
            strength, power = own[:, 0].exp(), 2 * torch.sigmoid(own[:, 1])
            # 0 at a distance of 0, without the logarithm of 0 on the way back.
            logs = far.clamp(min=1).log()
            powers = torch.exp(power[:, None, None] * logs) * (far > 0)
            return -(strength[:, None, None] * powers)[None]
        if self.name == "sandwich":
            n = int(self.number("dim", 128))
            rates = 10000.0 ** (-2 * torch.arange(n // 2, dtype=torch.float64) / n)
            sums = torch.cos(far[..., None] * rates).sum(-1)
            ratios = 8 * torch.arange(1, self.heads + 1).double() / self.heads
            return (sums / ratios[:, None, None])[None]
        return torch.zeros(1, 1, 1, 1, dtype=torch.float64)


def mix(state):
    """SplitMix64's next number after a state."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def normal(state, index):
    """Box and Muller's normal number of a state."""
    unit = lambda bits: ((bits >> 11) + 0.5) / 2**53
    a, b = unit(mix(state ^ 2 * index)), unit(mix(state ^ 2 * index + 1))
    return math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b)


def make_case(label, tensors):
    model = Encoded(label)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.from_numpy(training.hashed(name, parameter.shape)).float()
            if ".frequencies." in name or name.startswith("position.forget") and name.endswith("bias"):
                values = 0.5 + values  # turns that show, and gates that are half open
            parameter.copy_(values)
    model = model.double()
    for name in model.own:
        model.own[name] = nn.Parameter(model.own[name].detach().double())
    random = numpy.random.default_rng(common.fnv1a(label))
    tokens = torch.from_numpy(random.integers(0, SIZES["vocab_size"], (BATCH, LENGTH + 1)))
    ids, targets = tokens[:, :-1], tokens[:, 1:]
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()))
    for name, gradient in zip(named, gradients):
        assert gradient.dtype == torch.float64 and torch.isfinite(gradient).all(), name
        tensors[f"{label}.{name}"] = gradient.contiguous()
    print(f"{label}: a loss of {loss.item():.12f}, {len(named)} tensors")
    return {"label": label, "ids": ids.tolist(), "targets": targets.tolist(), "loss": loss.item()}


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases = [make_case(label, tensors) for label in LABELS]
    sizes = common.line({**SIZES, "batch": BATCH, "length": LENGTH})
    (OUT / "cases.json").write_text(
        '{{"sizes":{},"cases":[\n{}\n]}}\n'.format(sizes, ",\n".join(map(common.line, cases)))
    )
    (OUT / "gradients.safetensors").write_bytes(safetensors.torch.save(tensors))
    manifest.update("encodings")


if __name__ == "__main__":
    main()
