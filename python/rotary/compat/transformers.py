"""transformers' `apply_rotary_pos_emb`, and `patch`, which puts it into a model that is loaded.

from rotary.compat.transformers import patch
print(patch(model))
"""

import itertools
import sys
from dataclasses import dataclass

import torch

from .. import RotaryError
from ..torch import _plain
from ..torch._rotate import turned

_ARGUMENTS = ("pair", "one", "swapped", "vision")
_NAMES = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave", "apply_rotary_pos_emb_vision")


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1, *, interleaved=False):
    """Queries and keys rotated, as transformers' models do it.

    q, k: `[batch, heads, length, head_dim]`, or `[batch, length, heads, head_dim]` with `unsqueeze_dim=2`.
    cos, sin: `[batch, length, rotary_dim]`, a batch of one for all sequences; each number twice, as the models' rotary embedding makes
        them. Where `rotary_dim` is less than `head_dim`, the features after it stay.
    interleaved: the models that pair neighbours (GLM, Cohere, Ernie 4.5). GLM's tables repeat the first half, Cohere's each number;
        these take GLM's: give `cos[..., ::2]` twice for Cohere's, or `patch` the model, which finds out.
    """
    form = Form("pair", "twice", _plain.INTERLEAVED if interleaved else _plain.HALF)
    return form.apply(q, k, cos, sin, unsqueeze_dim)


@dataclass(frozen=True)
class Form:
    """One of the ways in which transformers' models write the rotation."""

    # pair: (q, k, cos, sin, unsqueeze_dim); one: (x, cos, sin, unsqueeze_dim); swapped: (tensor, sin, cos) beside
    # [batch, length, heads, head_dim]; vision: (q, k, cos, sin) beside [length, heads, head_dim].
    arguments: str
    # The columns of cos: "twice" (all, then all again; some read the first half alone), "neighbours" (each twice), "once".
    columns: str
    pairing: int
    inverse: bool = False
    # Whether the last features turn instead of the first.
    is_last: bool = False

    def __str__(self):
        pairing = ["half", "interleaved", "interleaved to half"][self.pairing]
        return pairing + (", turned back" if self.inverse else "") + (", last features" if self.is_last else "")

    def apply(self, q, k, cos, sin, unsqueeze_dim):
        if unsqueeze_dim not in (1, 2):
            raise RotaryError(f"unsqueeze_dim is {unsqueeze_dim}; expected 1 or 2")
        rotary_dim = cos.shape[-1] * (2 if self.columns == "once" else 1)
        if self.columns == "neighbours":
            cos, sin = cos[..., ::2], sin[..., ::2]
        first = q.shape[-1] - rotary_dim if self.is_last else 0
        q, k = _features_together(q), None if k is None else _features_together(k)
        return turned(q, k, cos, sin, None, None, 0, self.pairing, self.inverse, unsqueeze_dim == 1, rotary_dim, first)

    def function(self, original):
        """The function in this form. What it is called with that it was not compared on goes to the original."""
        if self.arguments == "pair":

            def rotated(q, k, cos, sin, *args, **kwargs):
                unsqueeze_dim = kwargs.get("unsqueeze_dim", 1)
                if args or kwargs.keys() - {"unsqueeze_dim"} or k is None or not _takes(q, k, cos, unsqueeze_dim):
                    return original(q, k, cos, sin, *args, **kwargs)
                return self.apply(q, k, cos, sin, unsqueeze_dim)

        elif self.arguments == "one":

            def rotated(x, cos, sin, unsqueeze_dim=1):
                if not _takes(x, x, cos, unsqueeze_dim):
                    return original(x, cos, sin, unsqueeze_dim)
                return self.apply(x, None, cos, sin, unsqueeze_dim)

        elif self.arguments == "swapped":

            def rotated(tensor, sin, cos):
                if not _takes(tensor, tensor, cos, 2):
                    return original(tensor, sin, cos)
                return self.apply(tensor, None, cos, sin, 2)

        else:

            def rotated(q, k, cos, sin):
                if q.dim() != 3 or k.dim() != 3 or q.shape[0] != k.shape[0] or cos.dim() != 2:
                    return original(q, k, cos, sin)
                return self.apply(q, k, cos, sin, 2)

        rotated.__wrapped__, rotated.form = original, self
        return rotated

    def agrees(self, original):
        """Whether a function gives the numbers of this form for numbers by chance."""
        chance = torch.Generator().manual_seed(0)
        width, rows = 8, 5
        shapes = {"swapped": (2, rows, 3), "vision": (rows, 3)}
        shape = shapes.get(self.arguments, (2, 3, rows))
        table = (rows,) if self.arguments == "vision" else (2, rows)
        angles = 6 * torch.rand(*table, width // 2, generator=chance)
        if self.columns == "twice":
            angles = torch.cat([angles, angles], -1)
        elif self.columns == "neighbours":
            angles = angles.repeat_interleave(2, -1)
        features = width + 4 if self.is_last else width
        q, k = torch.randn(*shape, features, generator=chance), torch.randn(*shape, features, generator=chance)
        given = (q, k) if self.arguments in ("pair", "vision") else (q,)
        tables = (angles.sin(), angles.cos()) if self.arguments == "swapped" else (angles.cos(), angles.sin())

        def another(*_, **__):
            raise RotaryError("not in this form")

        try:
            with torch.no_grad():
                wanted, got = original(*given, *tables), self.function(another)(*given, *tables)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
        wanted, got = (x if isinstance(x, (tuple, list)) else (x,) for x in (wanted, got))
        bound = 4 * torch.finfo(torch.float32).eps * max(x.abs().max().item() for x in given)
        return all(x.shape == y.shape and (x - y).abs().max() <= bound for x, y in zip(wanted, got))


def _takes(q, k, cos, unsqueeze_dim):
    """Whether shapes are those of the comparison: queries and keys beside each other, rows for a batch."""
    if not (q.dim() == k.dim() == 4 and cos.dim() == 3 and unsqueeze_dim in (1, 2) and q.is_floating_point()):
        return False
    length = 3 - unsqueeze_dim
    return (
        q.shape[0] == k.shape[0]
        and q.shape[length] == k.shape[length] == cos.shape[1]
        and (cos.shape[0] == 1 or cos.shape[0] == q.shape[0])
        and q.dtype == k.dtype
        and not cos.requires_grad
    )


def _features_together(x):
    return x if x.stride(-1) == 1 else x.contiguous()


def form_of(function):
    """The form in which a function of transformers' is written, found by comparing numbers; None for another."""
    pairings = (_plain.HALF, _plain.INTERLEAVED, _plain.INTERLEAVED_TO_HALF)
    settings = itertools.product(_ARGUMENTS, (False, True), (False, True), ("twice", "neighbours", "once"), pairings)
    for arguments, is_last, inverse, columns, pairing in settings:
        form = Form(arguments, columns, pairing, inverse, is_last)
        if form.agrees(function):
            return form
    return None


class Patched(dict):
    """What was patched: names of functions with the form that they have. Printed one a line."""

    def __str__(self):
        return "\n".join(f"{name}: {form}" for name, form in self.items())


def patch(model):
    """Puts this library's rotation into a model of transformers that is loaded, and returns which functions were replaced.

    What a model calls is a function of the Python module that defines it, so all models of that kind in the process are served, until
    `unpatch`. A function is replaced where the numbers agree with one of the forms known here; a model without any is an error.
    """
    done, seen = Patched(), []
    for module in _python_modules(model):
        for name in _NAMES:
            function = getattr(module, name, None)
            if function is None:
                continue
            seen.append(f"{module.__name__}.{name}")
            form = getattr(function, "form", None) or form_of(function)
            if form is None:
                continue
            if not hasattr(function, "form"):
                setattr(module, name, form.function(function))
            done[f"{module.__name__}.{name}"] = form
    if not done:
        found = ", ".join(seen) or f"no function named {_NAMES[0]}"
        raise RotaryError(
            f"nothing of {type(model).__name__} could be patched: found {found}; expected a rotation in a known form"
        )
    return done


def unpatch(model):
    """Puts back what `patch` replaced, and returns the names."""
    names = []
    for module in _python_modules(model):
        for name in _NAMES:
            function = getattr(module, name, None)
            if hasattr(function, "form"):
                setattr(module, name, function.__wrapped__)
                names.append(f"{module.__name__}.{name}")
    return names


def _python_modules(model):
    if not isinstance(model, torch.nn.Module):
        raise RotaryError(f"model is a {type(model).__name__}; expected a torch.nn.Module")
    names = dict.fromkeys(type(part).__module__ for part in model.modules())
    return [sys.modules[name] for name in names if name in sys.modules and not name.startswith("torch.")]
