"""Makes the reference data for training in `training/`: losses and gradients in f64.

    python golden/training.py

The models are transformers' RoFormer, Llama, Qwen2 and Qwen3 and PyTorch's encoder, the gradients are
autograd's, and the training is that of torch.optim.AdamW. Weights come from an integer hash of their names, so they are
not stored. See README.md for the files that are written.
"""

import contextlib
import math
from pathlib import Path
from unittest import mock

import numpy
import safetensors.torch
import torch
import transformers
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers.models.llama import modeling_llama
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.roformer import modeling_roformer

import manifest
import roformer as common
import training_first
import training_pairs

OUT = Path(__file__).resolve().parent / "training"
STEPS = 20
IGNORED = -100
ADAMW = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
CLIP = 0.5
# Gradients smaller than this are zero up to rounding. The smallest row of the others is far larger; it is printed.
TINY = 1e-14


# ---------------------------------------------------------------------- weights


def hashed(name, shape):
    """As in `roformer.py`, with the names that embeddings have in the other models."""
    values = common.hashed(name, shape)
    if name.endswith(("embed_tokens.weight", "embed.weight")):
        return values * 2.0 ** ((shape[1].bit_length() - 1) // 2)  # undoes the scale of a matrix
    return values


def fill(model):
    with torch.no_grad():
        # Parameters that share memory come once, by the name that the others are tied to.
        for name, parameter in trained(model).items():
            assert parameter.dtype == torch.float32  # the values are rounded to f32
            parameter.copy_(torch.from_numpy(hashed(name, parameter.shape)))
    return model.double()


def trained(model):
    return {name: p for name, p in model.named_parameters() if not name.endswith(common.TABLE)}


# ----------------------------------------------------------------- f64 throughout


def table(length, head_dim, base):
    """Cosines and sines, `[length, head_dim / 2]` each."""
    angles = numpy.arange(length)[:, None] / base ** (numpy.arange(0, head_dim, 2) / head_dim)
    return torch.from_numpy(numpy.cos(angles)), torch.from_numpy(numpy.sin(angles))


def exact_roformer(model):
    """Replaces the table, which transformers rounds to f32."""
    weight = model.base_model.encoder.embed_positions.weight
    cos, sin = table(*weight.shape, 10000)
    exact = torch.cat([sin, cos], dim=1)
    change = (weight - exact).abs().max().item()
    assert 0 < change < 2**-24
    weight.data.copy_(exact)
    return change


def exact_rotary(self, x, position_ids):
    config = self.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cos, sin = table(x.shape[1], head_dim, config.rope_parameters["rope_theta"])
    assert torch.equal(position_ids[0], torch.arange(x.shape[1]))
    return torch.cat([cos, cos], dim=1)[None], torch.cat([sin, sin], dim=1)[None]


def exact_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


@contextlib.contextmanager
def exact_llama():
    """Llama and the Qwens compute tables, norms and softmax in f32, whatever the type of the weights."""
    softmax = torch.nn.functional.softmax
    patches = [
        (modeling_llama.LlamaRotaryEmbedding, "forward", exact_rotary),
        (modeling_qwen2.Qwen2RotaryEmbedding, "forward", exact_rotary),
        (modeling_qwen3.Qwen3RotaryEmbedding, "forward", exact_rotary),
        (modeling_llama.LlamaRMSNorm, "forward", exact_norm),
        (modeling_qwen2.Qwen2RMSNorm, "forward", exact_norm),
        (modeling_qwen3.Qwen3RMSNorm, "forward", exact_norm),
        (torch.nn.functional, "softmax", lambda x, dim, dtype: softmax(x, dim)),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(mock.patch.object(*patch))
        yield


class OnlyDoubles(TorchDispatchMode):
    """Stops at an operation whose result has another floating-point type than f64."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                assert leaf.dtype == torch.float64, function
        return out


# ------------------------------------------------------------------ plain encoder


class Plain(nn.Module):
    """PyTorch's encoder with norms first, and rotation of queries and keys if there is a base."""

    def __init__(self, vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
                 layer_norm_eps, rope_theta, causal):  # fmt: skip
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        block = nn.TransformerEncoderLayer(
            hidden_size, num_attention_heads, intermediate_size, 0.0, activation="gelu",
            layer_norm_eps=layer_norm_eps, batch_first=True, norm_first=True,
        )  # fmt: skip
        self.blocks = nn.TransformerEncoder(block, num_hidden_layers, enable_nested_tensor=False)
        self.out = nn.Linear(hidden_size, vocab_size)
        self.heads, self.rope_theta, self.causal = num_attention_heads, rope_theta, causal

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks.layers:
            x = x + self.attend(block.self_attn, block.norm1(x))
            x = x + block.linear2(nn.functional.gelu(block.linear1(block.norm2(x))))
        return self.out(x)

    def attend(self, attention, x):
        batch, length, width = x.shape
        qkv = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        if self.rope_theta is not None:
            cos, sin = table(length, width // self.heads, self.rope_theta)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores.masked_fill(later(length), -torch.inf)
        mixed = scores.softmax(-1) @ v
        return attention.out_proj(mixed.transpose(1, 2).flatten(2))

    def reference(self, ids):
        """The same without rotation by PyTorch's own modules."""
        mask = later(ids.shape[1]) if self.causal else None
        return self.out(self.blocks(self.embed(ids), mask=mask))


def later(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def rotate(x, cos, sin):
    """Elements 2i and 2i + 1 are a pair."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def check_plain(model, ids, targets):
    """Without rotation the lines above are nn.TransformerEncoder; the rotation is that of RoFormer."""
    kept, model.rope_theta = model.rope_theta, None
    own, theirs = (gradients(model, lambda: cross_entropy(f(ids), targets))[1] for f in (model, model.reference))
    with torch.no_grad():
        difference = (model(ids) - model.reference(ids)).abs().max().item()
    model.rope_theta = kept
    slope = max((own[name] - theirs[name]).abs().max().item() for name in own)
    cos, sin = table(ids.shape[1], 8, 10000)
    q = torch.from_numpy(common.hashed("check", (2, 2, ids.shape[1], 8)))
    attention = modeling_roformer.RoFormerSelfAttention
    want, _ = attention.apply_rotary_position_embeddings(torch.cat([sin, cos], dim=-1), q, q)
    turned = (rotate(q, cos, sin) - want).abs().max().item()
    assert max(difference, slope) < 1e-12 and turned < 1e-15
    return f"nn.TransformerEncoder (not rotated): logits {difference:.1e}, gradients {slope:.1e}; rotation {turned:.1e}"


# ------------------------------------------------------------------------- inputs

ROFORMER = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2,
            "intermediate_size": 32, "max_position_embeddings": 16, "type_vocab_size": 3, "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0}  # fmt: skip
ROTARY_VALUE = {"hidden_size": 24, "rotary_value": True}
LLAMA = {"vocab_size": 41, "hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 2, "intermediate_size": 36, "max_position_embeddings": 16,
         "rms_norm_eps": 1e-6}  # fmt: skip
LLAMA |= {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
QWEN2 = LLAMA | {"hidden_size": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
# One layer is enough for what is new in these.
NARROW = ROFORMER | {"embedding_size": 12, "num_hidden_layers": 1, "hidden_act": "gelu_new"}
ONE = ROFORMER | {"num_hidden_layers": 1}
BIASED = LLAMA | {"num_hidden_layers": 1, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
JUDGE = LLAMA | {"num_hidden_layers": 1, "num_labels": 3, "pad_token_id": 0}
QWEN3 = QWEN2 | {"num_hidden_layers": 1, "head_dim": 6, "tie_word_embeddings": True}
PLAIN = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "layer_norm_eps": 1e-5, "rope_theta": None, "causal": False}  # fmt: skip

# Name, class, configuration, batch, length, real tokens of the last row, targets: some places ("masked"), the next
# token ("next", "next-some": not at all places), a class ("class"), any token at every place ("any"), or none: vectors
# of texts that come in pairs, with scores ("scores") or without ("pairs").
CASES = [
    ("roformer-mlm", "RoFormerForMaskedLM", ROFORMER, 3, 8, 5, "masked"),
    ("roformer-causal", "RoFormerForCausalLM", ROFORMER | {"is_decoder": True}, 2, 9, 9, "next"),
    ("roformer-classifier", "RoFormerForSequenceClassification", ROFORMER | {"num_labels": 3}, 3, 7, 4, "class"),
    ("roformer-rotary-value", "RoFormerForMaskedLM", ROFORMER | ROTARY_VALUE, 2, 8, 6, "masked"),
    ("llama-tied", "LlamaForCausalLM", LLAMA | {"tie_word_embeddings": True}, 2, 9, 9, "next"),
    ("llama-untied", "LlamaForCausalLM", LLAMA | {"tie_word_embeddings": False}, 3, 7, 7, "next-some"),
    ("qwen2", "Qwen2ForCausalLM", QWEN2 | {"tie_word_embeddings": True}, 2, 8, 8, "next"),
    ("plain", "Plain", PLAIN, 2, 8, 8, "any"),
    ("plain-rotary", "Plain", PLAIN | {"rope_theta": 10000.0}, 2, 8, 8, "any"),
    ("plain-causal-rotary", "Plain", PLAIN | {"rope_theta": 10000.0, "causal": True}, 2, 8, 8, "next"),
    ("roformer-narrow", "RoFormerForMaskedLM", NARROW, 2, 7, 5, "masked"),
    ("roformer-pairs", "RoFormerModel", ONE, 8, 6, 6, "pairs"),
    ("roformer-scores", "RoFormerModel", ONE, 6, 7, 7, "scores"),
    ("llama-biases", "LlamaForCausalLM", BIASED, 2, 7, 7, "next"),
    ("llama-classifier", "LlamaForSequenceClassification", JUDGE, 3, 7, 4, "class"),
    ("qwen3", "Qwen3ForCausalLM", QWEN3, 2, 8, 8, "next"),
]  # fmt: skip


def make_inputs(name, fields, batch, length, last, kind):
    random = numpy.random.default_rng(common.fnv1a(name))
    # Token 0 is RoFormer's padding. transformers gives its row no gradient where it is looked up, so it is not used
    # at real places; nor are the next few, so that some rows have no gradient in all cases.
    tokens = torch.from_numpy(random.integers(4, fields["vocab_size"], (batch, length + 1)))
    ids, targets = tokens[:, :-1].clone(), tokens[:, 1:].clone()
    mask = types = None
    if fields.get("type_vocab_size"):
        types = torch.from_numpy(random.integers(0, 2, ids.shape))  # type 2 is not used
    if last < length:
        mask = torch.ones_like(ids)
        mask[-1, last:] = 0
        ids[mask == 0] = 0
    counted = torch.from_numpy(random.random(ids.shape) < 0.5)
    counted[:, 1] = True
    if kind == "masked":
        targets = torch.from_numpy(random.integers(1, fields["vocab_size"], ids.shape))
        targets[~counted | (False if mask is None else mask == 0)] = IGNORED
    elif kind == "next-some":
        # The ends of the rows too: what stands there is not seen by any counted place.
        counted[0, -3:] = counted[-1, -2:] = False
        targets[~counted] = IGNORED
    elif kind == "class":
        targets = torch.arange(batch) * 2 % fields["num_labels"]
    elif kind == "any":
        targets = torch.from_numpy(random.integers(0, fields["vocab_size"], ids.shape))
    return ids, types, mask, targets


# -------------------------------------------------------------------------- models


def make_model(kind, fields):
    """The model in training mode, its configuration as written, and what was changed to make it exact."""
    if kind == "Plain":
        return fill(Plain(**fields)).train(), dict(fields), None
    head = training_pairs.Vectors if kind == "RoFormerModel" else getattr(transformers, kind)
    config = head.config_class(**fields)
    written = common.written(config)
    config._attn_implementation = "eager"
    model = fill(head(config)).train()
    assert all(module.p == 0 for module in model.modules() if isinstance(module, nn.Dropout))
    return model, written, exact_roformer(model) if is_roformer(model) else None


def is_roformer(model):
    return isinstance(model, (modeling_roformer.RoFormerPreTrainedModel, training_pairs.Vectors))


def cross_entropy(logits, targets):
    if targets.dim() == 2:
        logits = logits.flatten(0, 1)
    return nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)


def loss_of(model, ids, types, mask, targets):
    """A function of no arguments that gives the loss."""
    if isinstance(model, Plain):
        return lambda: cross_entropy(model(ids), targets)
    rest = {} if types is None else {"token_type_ids": types}
    if not is_roformer(model) or model.config.is_decoder:
        rest["use_cache"] = False
    # A mask of ones is no mask. transformers would make it in f32.
    rest["attention_mask"] = torch.ones_like(ids) if mask is None else mask
    return lambda: cross_entropy(model(input_ids=ids, **rest).logits, targets)


def gradients(model, loss):
    model.zero_grad(set_to_none=True)
    value = loss()
    value.backward()
    return value.item(), {name: p.grad.clone() for name, p in trained(model).items()}


def train(model, loss, clip, nudge=0.0):
    """Losses before each update, and how many gradients were clipped. The model is as before at the end."""
    parameters = trained(model)
    before = {name: p.detach().clone() for name, p in parameters.items()}
    with torch.no_grad():
        for name, p in parameters.items():
            p.add_(torch.from_numpy(hashed(f"nudge.{name}", p.shape)), alpha=nudge)
    if clip is None:
        groups = list(parameters.values())
    else:
        groups = [{"params": [p for p in parameters.values() if p.dim() > 1]},
                  {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses, clipped = [], 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if clip is not None:
            clipped += nn.utils.clip_grad_norm_(list(parameters.values()), clip).item() > clip
        optimizer.step()
        losses.append(value.item())
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(before[name])
    return losses, clipped


def slope_error(model, loss, grads):
    """The relative difference of the derivative along a line from the central difference."""
    line = {name: torch.from_numpy(common.hashed(f"line.{name}", g.shape)) for name, g in grads.items()}
    values = []
    for step in (1e-5, -2e-5, 1e-5):  # the last one goes back
        with torch.no_grad():
            for name, p in trained(model).items():
                p.add_(line[name], alpha=step)
            values.append(loss().item())
    want = sum((line[name] * g).sum() for name, g in grads.items()).item()
    return abs((values[0] - values[1]) / 2e-5 / want - 1)


# --------------------------------------------------------------------------- zeros


def ranges(rows):
    """Sorted numbers as half-open ranges."""
    out = []
    for row in rows:
        if out and out[-1][1] == row:
            out[-1][1] += 1
        else:
            out.append([row, row + 1])
    return out


def zeros(kind, fields, ids, types, mask, targets, causal, tied):
    """Rows whose gradient must be zero, from the structure alone."""
    # A token has an effect if a counted place of its row can see it.
    seen = torch.ones_like(ids) if mask is None else mask.clone()
    if targets.dim() == 2:
        counted = targets != IGNORED
        assert counted.any(dim=1).all()
        if causal:
            seen &= counted.flip(1).cummax(dim=1).values.flip(1).long()
    rows, width = [], fields["hidden_size"]

    def unused(name, used, count):
        absent = sorted(set(range(count)) - set(used[seen == 1].tolist()))
        if absent:
            rows.append({"name": name, "rows": ranges(absent), "exact": True})

    if not tied:
        name = "embed.weight" if kind == "Plain" else "model.embed_tokens.weight"
        if types is not None:
            name = "roformer.embeddings.word_embeddings.weight"
        unused(name, ids, fields["vocab_size"])
    if types is not None:
        unused("roformer.embeddings.token_type_embeddings.weight", types, fields["type_vocab_size"])
    if kind == "Plain" and fields["rope_theta"] is None:
        # A key bias adds the same number to all scores of a query. Where keys are turned it does not.
        for layer in range(fields["num_hidden_layers"]):
            name = f"blocks.layers.{layer}.self_attn.in_proj_bias"
            rows.append({"name": name, "rows": [[width, 2 * width]], "exact": False})
    return rows


def check_zeros(grads, rows):
    """The listed rows are zero and no others.

    Returns the largest number of those that are zero up to rounding, and that of the smallest other row."""
    listed = {(row["name"], i): row["exact"] for row in rows for start, end in row["rows"] for i in range(start, end)}
    largest, smallest = 0.0, math.inf
    for name, grad in grads.items():
        for i, size in enumerate(grad.reshape(grad.shape[0], -1).abs().amax(dim=1).tolist()):
            exact = listed.get((name, i))
            if exact is None:
                smallest = min(smallest, size)
            elif exact:
                assert size == 0, (name, i)
            else:
                largest = max(largest, size)
    assert largest < TINY < 1e3 * TINY < smallest, (largest, smallest)
    return largest, smallest


# --------------------------------------------------------------------------- cases


def make_case(name, kind, fields, batch, length, last, goal, tensors):
    model, config, change = make_model(kind, fields)
    notes = [] if change is None else [f"table changed by {change:.1e}"]
    scores = None
    if goal in ("pairs", "scores"):
        ids, types, mask, scores = training_pairs.make_inputs(name, fields, batch, length, goal == "scores")
        targets = torch.zeros(0, dtype=torch.long)
        loss = training_pairs.loss_of(model, ids, types, mask, scores)
    else:
        ids, types, mask, targets = make_inputs(name, fields, batch, length, last, goal)
        loss = loss_of(model, ids, types, mask, targets)
    form = "plain" if kind == "Plain" else "roformer" if is_roformer(model) else "llama"
    with contextlib.ExitStack() as stack:
        if form == "llama":
            before, rounded = gradients(model, loss)
            stack.enter_context(exact_llama())
        with OnlyDoubles():  # not around the training: AdamW counts its steps in f32, which is exact
            value, grads = gradients(model, loss)
        if form == "llama":
            moved = max((rounded[n] - g).abs().max().item() for n, g in grads.items())
            notes.append(f"f32 parts moved the loss by {abs(before - value):.1e} and gradients by {moved:.1e}")
            assert abs(before - value) < 1e-6
        losses, _ = train(model, loss, None)
        clipped_losses, count = train(model, loss, CLIP)
        again = gradients(model, loss)
        assert again[0] == value == losses[0] == clipped_losses[0]
        nudged = [train(model, loss, clip, 1e-12)[0] for clip in (None, CLIP)]
        error = slope_error(model, loss, grads)
    assert error < 1e-7, error
    if form == "llama":
        notes.append(check_sdpa(model, loss, value, grads))
    if form == "plain":
        notes.append(check_plain(model, ids, targets))

    assert all(g.dtype == torch.float64 and torch.isfinite(g).all() for g in grads.values())
    causal = form == "llama" or fields.get("is_decoder", False) or fields.get("causal", False)
    tied = form != "plain" and targets.dim() == 2 and config["tie_word_embeddings"]
    zero = zeros(kind, fields, ids, types, mask, targets, causal, tied)
    largest, smallest = check_zeros(grads, zero)
    norm = math.sqrt(sum(g.pow(2).sum().item() for g in grads.values()))
    spread = max(abs(a - b) for pair in zip((losses, clipped_losses), nudged) for a, b in zip(*pair))
    tensors |= {f"{name}.{part}": g.contiguous() for part, g in grads.items()}
    print(f"{name}: {sum(g.numel() for g in grads.values())} numbers in {len(grads)} tensors")
    print(f"  loss {value:.12f}, the last {losses[-1]:.6f}; clipped {count} times, the last {clipped_losses[-1]:.6f}")
    print(f"  gradient {norm:.6f}, rows {smallest:.1e} and up, rounded zeros {largest:.1e}, slope {error:.1e}")
    print(f"  weights nudged by 1e-12: losses {spread:.1e}")
    for note in notes:
        print(f"  {note}")
    return {
        "name": name,
        "form": form,
        "class": kind,
        "config": config,
        "batch": batch,
        "length": length,
        "ids": ids.tolist(),
        "token_types": None if types is None else types.tolist(),
        "mask": None if mask is None else mask.tolist(),
        "targets": targets.tolist(),
        "scores": None if scores is None else scores.tolist(),
        "causal": causal,
        "tied": tied,
        "loss": value,
        "gradient_norm": norm,
        "losses": losses,
        "clipped_losses": clipped_losses,
        "zero": zero,
    }


def check_sdpa(model, loss, value, grads):
    """The same with torch's scaled_dot_product_attention in place of the patched softmax."""
    with exact_llama():
        model.config._attn_implementation = "sdpa"
        other, theirs = gradients(model, loss)
    apart = max((theirs[n] - g).abs().max().item() for n, g in grads.items())
    assert abs(other - value) < 1e-12 and apart < 1e-12
    return f"scaled_dot_product_attention: loss {abs(other - value):.1e}, gradients {apart:.1e}"


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases = [make_case(*case, tensors) for case in CASES]
    first = common.line(training_first.first_losses(Plain, cross_entropy))
    assert len({case["name"] for case in cases}) == len(cases)
    optimizer = common.line({"steps": STEPS, **ADAMW, "clip": CLIP})
    (OUT / "cases.json").write_text(
        '{{"optimizer":{},"first":{},"cases":[\n{}\n]}}\n'.format(
            optimizer, first, ",\n".join(map(common.line, cases))
        )
    )
    (OUT / "gradients.safetensors").write_bytes(safetensors.torch.save(tensors))
    manifest.update("training")


if __name__ == "__main__":
    main()
