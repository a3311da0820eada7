"""`rotate` and `rotate_`: what people call."""

import torch
from torch.autograd import forward_ad

from .. import RotaryError
from .._rotary import direct as _direct_device
from .._rotary import rotate_directly as _on_cpu
from . import _ops, _plain
from ._memory import KINDS, bump, cuda_kernels
from ._plain import HALF, INTERLEAVED

_compiling = torch.compiler.is_compiling
_modes = torch._C._len_torch_dispatch_stack
_traced = torch._C._get_tracing_state
_transformed = torch._C._are_functorch_transforms_active
_grad_enabled = torch.is_grad_enabled


def rotate(
    q,
    k,
    cos,
    sin,
    *,
    position_ids=None,
    cu_seqlens=None,
    offset=0,
    interleaved=False,
    inverse=False,
    heads_first=True,
    rotary_dim=None,
    rotary_offset=0,
):
    """Rotates queries and keys into new tensors. Returns both, or the queries alone where `k` is None.

    q: `[batch, heads, length, head_dim]`, or `[batch, length, heads, head_dim]` with `heads_first=False`; the batch may be left out.
        Any strides whose features are contiguous. float32, float64, float16 or bfloat16; 16-bit numbers are rotated in float32 and
        rounded once.
    k: the same with its own number of heads, or None.
    cos, sin: `[rows, pairs]`, of any floating type and any strides, or `[rows, 2 * pairs]` whose second half repeats the first, as
        transformers has it. Token i takes row `offset + i`. With a batch, `[batch, length, pairs]`, each token has its own row.
    position_ids: `[length]` or `[batch, length]`, int32 or int64: token i takes row `position_ids[i]` instead.
    cu_seqlens: `[sequences + 1]`, int32 or int64: the cumulative lengths of sequences packed into a batch of one; rows are counted
        from 0 in each.
    interleaved: features 2j and 2j + 1 are a pair (GPT-J, GLM, Cohere) instead of j and j + pairs (GPT-NeoX, Llama, Qwen).
    inverse: turns back. Undoes the rotation where cos² + sin² = 1.
    rotary_dim, rotary_offset: how many features of a head turn, and the first of them; all from the first on if not given.

    >>> import torch
    >>> from rotary.torch import rotate
    >>> q = torch.tensor([3.0, 4.0]).view(1, 1, 1, 2)
    >>> rotate(q, None, torch.zeros(1, 1), torch.ones(1, 1)).flatten()
    tensor([-4.,  3.])
    """
    pairing = INTERLEAVED if interleaved else HALF
    return turned(
        q, k, cos, sin, position_ids, cu_seqlens, offset, pairing, inverse, heads_first, rotary_dim, rotary_offset
    )


def rotate_(
    q,
    k,
    cos,
    sin,
    *,
    position_ids=None,
    cu_seqlens=None,
    offset=0,
    interleaved=False,
    inverse=False,
    heads_first=True,
    rotary_dim=None,
    rotary_offset=0,
):
    """As `rotate`, in place: writes to `q` and `k` and returns them. No two of their vectors may share memory.

    >>> import torch
    >>> from rotary.torch import rotate_
    >>> q = torch.tensor([3.0, 4.0]).view(1, 1, 1, 2)
    >>> rotate_(q, None, torch.zeros(1, 1), torch.ones(1, 1)) is q, q.flatten()
    (True, tensor([-4.,  3.]))
    """
    pairing = INTERLEAVED if interleaved else HALF
    return turned_(
        q, k, cos, sin, position_ids, cu_seqlens, offset, pairing, inverse, heads_first, rotary_dim, rotary_offset
    )


def turned(q, k, cos, sin, position_ids, cu_seqlens, *how):
    """`rotate` with all arguments in the order of the operations."""
    if not _compiling():
        found = _directly(q, k, cos, sin, position_ids, cu_seqlens, how, False)
        if found is not None:
            return found
    _check(q, k, cos, sin, position_ids, cu_seqlens)
    if _is_differentiated():
        how = (cos, sin, position_ids, cu_seqlens, *how)
        return _plain.rotate(q, *how) if k is None else (_plain.rotate(q, *how), _plain.rotate(k, *how))
    if k is None:
        return torch.ops.rotary.rotate(q, cos, sin, position_ids, cu_seqlens, *how)
    return torch.ops.rotary.rotate_pair(q, k, cos, sin, position_ids, cu_seqlens, *how)


def turned_(q, k, cos, sin, position_ids, cu_seqlens, *how):
    """`rotate_` with all arguments in the order of the operations."""
    if not _compiling():
        found = _directly(q, k, cos, sin, position_ids, cu_seqlens, how, True)
        if found is not None:
            return found
    _check(q, k, cos, sin, position_ids, cu_seqlens)
    how = (cos, sin, position_ids, cu_seqlens, *how)
    needs_grad = _grad_enabled() and (q.requires_grad or (k is not None and k.requires_grad))
    if needs_grad or _is_differentiated():
        if _compiling() or _is_differentiated():
            # Compiled, the copy is fused away or cheap; in-place functions of autograd's are not compiled.
            y = turned(q, k, *how)
            return q.copy_(y) if k is None else (q.copy_(y[0]), k.copy_(y[1]))
        return _ops.InPlace.apply(q, k, *how)
    if k is None:
        torch.ops.rotary.rotate_(q, *how)
        return q
    torch.ops.rotary.rotate_pair_(q, k, *how)
    return q, k


def _directly(q, k, cos, sin, position_ids, cu_seqlens, how, in_place):
    """What was rotated, where that can be done without torch's dispatcher in between: tensors of one device that has kernels, nobody who
    traces or transforms, and no gradient to be recorded. A token then costs a few microseconds. Else None, and nothing was done."""
    try:
        if getattr(q, "is_cpu", True):
            return _on_cpu(q, k, cos, sin, position_ids, cu_seqlens, *how, in_place)
        kernels = _on_gpu(q, k, cos, sin, position_ids, cu_seqlens)
        if kernels is None or in_place and q.is_inference():
            return None
        to_q, to_k = (None, None) if in_place else (torch.empty_like(q), None if k is None else torch.empty_like(k))
        kernels(q, k, to_q, to_k, cos, sin, position_ids, cu_seqlens, *how)
    except (RuntimeError, KeyError, BufferError):  # Tensors that have no address, or whose type is not known.
        _check(q, k, cos, sin, position_ids, cu_seqlens)
        raise
    if in_place:
        bump(q) if k is None else bump(q, k)
        to_q, to_k = q, k
    return to_q if k is None else (to_q, to_k)


def _on_gpu(q, k, cos, sin, position_ids, cu_seqlens):
    """The function that rotates tensors of a GPU like these, where torch's dispatcher need not be in between."""
    if _modes() or _transformed() or _traced() is not None or forward_ad._current_level >= 0:
        return None
    device = _direct_device(q, k, cos, sin, position_ids, cu_seqlens, _grad_enabled())
    return None if device is None or device < 0 else cuda_kernels(q, device)


def _is_differentiated():
    """Whether torch.func or forward derivatives are at work, which operations from outside of torch do not take part in: plain torch
    then does it."""
    return not _compiling() and (_transformed() or forward_ad._current_level >= 0)


def _check(q, k, cos, sin, position_ids, cu_seqlens):
    """Refuses by name what the kernels are not handed at all."""
    named = {"q": q, "k": k, "cos": cos, "sin": sin, "position_ids": position_ids, "cu_seqlens": cu_seqlens}
    for name, tensor in named.items():
        if tensor is None and name in ("k", "position_ids", "cu_seqlens"):
            continue
        if not isinstance(tensor, torch.Tensor):
            raise RotaryError(f"{name} is a {type(tensor).__name__}; expected a tensor")
        if tensor.layout is not torch.strided:
            raise RotaryError(f"{name} has the layout {tensor.layout}; expected torch.strided")
        if tensor.dtype not in KINDS:
            raise RotaryError(
                f"{name} has type {tensor.dtype}; expected one of {', '.join(str(kind)[6:] for kind in KINDS)}"
            )
        if tensor.device != q.device:
            raise RotaryError(f"{name} is on {tensor.device}; expected the device of q, {q.device}")
    for name in ("cos", "sin"):
        if named[name].requires_grad and _grad_enabled():
            raise RotaryError(
                f"{name} requires a gradient, which the rotation does not give; expected {name}.detach(), "
                "or RotaryEmbedding(learnable=True)"
            )
    for name in ("q", "k"):
        tensor = named[name]
        if tensor is None:
            continue
        if tensor.dim() not in (3, 4):
            raise RotaryError(f"{name} has {tensor.dim()} axes; expected 3 or 4")
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1 and tensor.numel() > 0:
            raise RotaryError(
                f"the features of {name} are {tensor.stride(-1)} apart; expected contiguous ones: {name}.contiguous()"
            )
