"""The operations as torch knows them, `torch.ops.rotary.*`: schemas, kernels, shapes and gradients.

Each is there for one tensor and for a pair, which shares one pass; new memory or in place.
"""

import torch

from . import _plain
from ._memory import on_cpu

_HOW = (
    "Tensor cos, Tensor sin, Tensor? position_ids, Tensor? cu_seqlens, SymInt offset, int pairing, bool inverse, "
    "bool heads_first, int? rotary_dim, int rotary_offset"
)
_LIBRARY = torch.library.Library("rotary", "DEF")
# Inductor must hand over tensors whose features are contiguous, as the caller's are.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
_LIBRARY.define(f"rotate(Tensor x, {_HOW}) -> Tensor", tags=_TAGS)
_LIBRARY.define(f"rotate_pair(Tensor q, Tensor k, {_HOW}) -> (Tensor, Tensor)", tags=_TAGS)
_LIBRARY.define(f"rotate_(Tensor(a!) x, {_HOW}) -> ()", tags=_TAGS)
_LIBRARY.define(f"rotate_pair_(Tensor(a!) q, Tensor(b!) k, {_HOW}) -> ()", tags=_TAGS)

_OPS = torch.ops.rotary


def _rotate_cpu(x, *how):
    y = torch.empty_like(x)
    on_cpu(x, None, y, None, *how)
    return y


def _rotate_pair_cpu(q, k, *how):
    to_q, to_k = torch.empty_like(q), torch.empty_like(k)
    on_cpu(q, k, to_q, to_k, *how)
    return to_q, to_k


def _in_place_cpu(x, *how):
    on_cpu(x, None, None, None, *how)


def _pair_in_place_cpu(q, k, *how):
    on_cpu(q, k, None, None, *how)


def _rotate_plain(x, *how):
    return torch.empty_like(x).copy_(_plain.rotate(x, *how))


def _rotate_pair_plain(q, k, *how):
    return _rotate_plain(q, *how), _rotate_plain(k, *how)


def _in_place_plain(x, *how):
    x.copy_(_plain.rotate(x, *how))


def _pair_in_place_plain(q, k, *how):
    _in_place_plain(q, *how)
    _in_place_plain(k, *how)


for _name, _kernel, _fallback in [
    ("rotate", _rotate_cpu, _rotate_plain),
    ("rotate_pair", _rotate_pair_cpu, _rotate_pair_plain),
    ("rotate_", _in_place_cpu, _in_place_plain),
    ("rotate_pair_", _pair_in_place_cpu, _pair_in_place_plain),
]:
    _LIBRARY.impl(_name, _kernel, "CPU")
    for _key in ("MPS", "XPU", "PrivateUse1"):
        _LIBRARY.impl(_name, _fallback, _key)


@torch.library.register_fake("rotary::rotate", lib=_LIBRARY)
def _(x, *how):
    return torch.empty_like(x)


@torch.library.register_fake("rotary::rotate_pair", lib=_LIBRARY)
def _(q, k, *how):
    return torch.empty_like(q), torch.empty_like(k)


@torch.library.register_fake("rotary::rotate_", lib=_LIBRARY)
def _(x, *how):
    return None


@torch.library.register_fake("rotary::rotate_pair_", lib=_LIBRARY)
def _(q, k, *how):
    return None


# The gradient is the rotation back, by the same operation: so it has a gradient itself.

_TABLES = 4  # cos, sin, position_ids, cu_seqlens
_INVERSE = 6


def back(how):
    """The arguments of the rotation back."""
    return (*how[:_INVERSE], not how[_INVERSE], *how[_INVERSE + 1 :])


def rotate_back(grad_q, grad_k, how):
    """Gradients, either of which may be None, turned back."""
    grad_q, grad_k = (
        grad if grad is None or grad.stride(-1) == 1 or grad.shape[-1] == 1 else grad.contiguous() for grad in (grad_q, grad_k)
    )
    if grad_q is not None and grad_k is not None:
        return _OPS.rotate_pair(grad_q, grad_k, *back(how))
    return tuple(None if grad is None else _OPS.rotate(grad, *back(how)) for grad in (grad_q, grad_k))


def _keep(ctx, inputs, output, count):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[count : count + _TABLES])
    ctx.how = inputs[count + _TABLES :]


def _rotate_keep(ctx, inputs, output):
    _keep(ctx, inputs, output, 1)


def _rotate_pair_keep(ctx, inputs, output):
    _keep(ctx, inputs, output, 2)


def _rotate_backward(ctx, grad):
    how = (*ctx.saved_tensors, *ctx.how)
    return (rotate_back(grad, None, how)[0], *(None,) * len(how))


def _rotate_pair_backward(ctx, grad_q, grad_k):
    how = (*ctx.saved_tensors, *ctx.how)
    return (*rotate_back(grad_q, grad_k, how), *(None,) * len(how))


torch.library.register_autograd("rotary::rotate", _rotate_backward, setup_context=_rotate_keep, lib=_LIBRARY)
torch.library.register_autograd("rotary::rotate_pair", _rotate_pair_backward, setup_context=_rotate_pair_keep, lib=_LIBRARY)


class InPlace(torch.autograd.Function):
    """The rotation in place for tensors that need a gradient: nothing of the input is kept."""

    @staticmethod
    def forward(ctx, q, k, *how):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*how[:_TABLES])
        ctx.how = how[_TABLES:]
        if k is None:
            _OPS.rotate_(q, *how)
            ctx.mark_dirty(q)
            return q
        _OPS.rotate_pair_(q, k, *how)
        ctx.mark_dirty(q, k)
        return q, k

    @staticmethod
    def backward(ctx, grad_q, grad_k=None):
        how = (*ctx.saved_tensors, *ctx.how)
        return (*rotate_back(grad_q, grad_k, how), *(None,) * len(how))
