"""The operations as torch knows them, `torch.ops.rotary.*`: schemas, kernels, shapes and gradients.

Each is there for one tensor and for a pair, which shares one pass; new memory or in place.
"""

import torch

from . import _plain
from ._memory import bump, cuda_kernels, on_cpu

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


def kernels_for(q):
    """The function that rotates tensors like this one, or None for plain torch."""
    if q.is_cpu:
        return on_cpu
    return cuda_kernels(q, q.get_device()) if q.is_cuda else None


def _rotate(x, *how):
    kernels = kernels_for(x)
    y = torch.empty_like(x)
    if kernels is None:
        return y.copy_(_plain.rotate(x, *how))
    kernels(x, None, y, None, *how)
    return y


def _rotate_pair(q, k, *how):
    kernels = kernels_for(q)
    if kernels is None:
        return _rotate(q, *how), _rotate(k, *how)
    to_q, to_k = torch.empty_like(q), torch.empty_like(k)
    kernels(q, k, to_q, to_k, *how)
    return to_q, to_k


def _rotate_in_place(x, *how):
    kernels = kernels_for(x)
    if kernels is None:
        x.copy_(_plain.rotate(x, *how))
    else:
        kernels(x, None, None, None, *how)


def _rotate_pair_in_place(q, k, *how):
    kernels = kernels_for(q)
    if kernels is None:
        _rotate_in_place(q, *how)
        _rotate_in_place(k, *how)
    else:
        kernels(q, k, None, None, *how)


for _name, _function in [
    ("rotate", _rotate),
    ("rotate_pair", _rotate_pair),
    ("rotate_", _rotate_in_place),
    ("rotate_pair_", _rotate_pair_in_place),
]:
    for _key in ("CPU", "CUDA", "MPS", "XPU", "PrivateUse1"):
        _LIBRARY.impl(_name, _function, _key)


def _say_written(name, count):
    """In place, torch is told that tensors were written to: what was saved of them for a backward pass is not what it was."""
    operation = getattr(_OPS, name).default

    def below(keyset, *args):
        bump(*args[:count])
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return operation.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args)

    _LIBRARY.impl(name, below, "ADInplaceOrView", with_keyset=True)


_say_written("rotate_", 1)
_say_written("rotate_pair_", 2)


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
        grad if grad is None or grad.stride(-1) == 1 or grad.shape[-1] == 1 else grad.contiguous()
        for grad in (grad_q, grad_k)
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
torch.library.register_autograd(
    "rotary::rotate_pair", _rotate_pair_backward, setup_context=_rotate_pair_keep, lib=_LIBRARY
)


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
