"""`RotaryEmbedding`: a module that makes its tables and rotates with them."""

import json
import os

import torch

from .. import Rope, RotaryError
from .._rotary import features, fill_table, frequencies
from . import _plain
from ._rotate import turned, turned_


class RotaryEmbedding(torch.nn.Module):
    """Rotates queries and keys by their positions.

    head_dim: features of a head.
    base: the base of the frequencies, `rope_theta`.
    rotary_dim, rotary_offset: how many features turn, and the first of them; all if not given.
    interleaved: features 2j and 2j + 1 are a pair, instead of j and j + rotary_dim / 2.
    scaling: a rule as a `config.json` writes it, such as `{"rope_type": "linear", "factor": 4.0}`.
    max_positions: for how many positions tables are made at first. They grow when an offset, or ids on the CPU, ask for more; ids on a
        GPU are not looked at, and a vector at a position without a row comes out as NaN.
    learnable: frequencies are a parameter, `inv_freq`. The rotation is then in plain torch.

    The cosines and sines are the float32 numbers nearest to the true ones at every position, whatever the module is cast to. They are
    no part of the `state_dict`.

    >>> import torch
    >>> from rotary.torch import RotaryEmbedding
    >>> rotary = RotaryEmbedding(64, base=500_000.0)
    >>> q, k = torch.randn(1, 8, 10, 64), torch.randn(1, 2, 10, 64)
    >>> q, k = rotary(q, k)
    >>> step = rotary(torch.randn(1, 8, 1, 64), offset=10)
    """

    def __init__(
        self,
        head_dim,
        *,
        base=10_000.0,
        rotary_dim=None,
        rotary_offset=0,
        interleaved=False,
        scaling=None,
        max_positions=4096,
        learnable=False,
    ):
        super().__init__()
        if max_positions < 1:
            raise RotaryError(f"max_positions is {max_positions}; expected at least 1")
        rotary_dim = head_dim - rotary_offset if rotary_dim is None else rotary_dim
        if rotary_offset < 0 or rotary_offset + rotary_dim > head_dim:
            raise RotaryError(
                f"rotary_offset is {rotary_offset} with rotary_dim {rotary_dim}; expected a slice within {head_dim}"
            )
        # The frequencies depend on the features that turn alone.
        config = {"model_type": "llama", "head_dim": rotary_dim, "max_position_embeddings": max_positions}
        config["rope_parameters"] = {"rope_type": "default", **(scaling or {}), "rope_theta": base}
        pairing = _plain.INTERLEAVED if interleaved else _plain.HALF
        self._setup(json.dumps(config), None, (head_dim, rotary_dim, rotary_offset, pairing), max_positions, learnable)

    @classmethod
    def from_config(cls, config, layer_type=None, *, max_positions=None, learnable=False):
        """The embedding of a model: `config` is a path to its `config.json` or the folder, a dict, or a configuration of
        transformers. Of a model whose layers differ, that of `layer_type`.

        >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0}
        >>> RotaryEmbedding.from_config(config).head_dim
        128
        """
        config = _read(config)
        if max_positions is None:
            longest = config.get("max_position_embeddings")
            max_positions = min(longest, 32_768) if isinstance(longest, int) else 4096
        module = cls.__new__(cls)
        torch.nn.Module.__init__(module)
        module._setup(json.dumps(config, default=str), layer_type, None, max_positions, learnable)
        return module

    def _setup(self, config, layer_type, layout, max_positions, learnable):
        self._config, self._layer_type, self._layout, self.max_positions = config, layer_type, layout, max_positions
        self._make_rope()
        self.inv_freq = (
            torch.nn.Parameter(torch.tensor(frequencies(self.rope), dtype=torch.float32)) if learnable else None
        )
        # A parameter that may be None is looked for in several places each time that it is asked for.
        self._is_learned = learnable
        self._tables = {}
        if not learnable:
            self._grow(max_positions, torch.device("cpu"), torch.float32)

    def _make_rope(self):
        self.rope = Rope.from_json(self._config, self._layer_type)
        *layout, self.attention_factor = features(self.rope)
        self.head_dim, self.rotary_dim, self.rotary_offset, self._pairing = self._layout or layout

    def extra_repr(self):
        turning = f", rotary_dim={self.rotary_dim}" if self.rotary_dim != self.head_dim else ""
        pairing = ["", ", interleaved=True", ", interleaved to half"][self._pairing]
        return f"head_dim={self.head_dim}{turning}{pairing}, positions={self.max_positions}"

    def forward(
        self,
        q,
        k=None,
        position_ids=None,
        offset=0,
        *,
        cu_seqlens=None,
        sequence_length=None,
        heads_first=True,
        in_place=False,
    ):
        """Rotates `q` and `k` as `rotary.torch.rotate` does: token i stands at `offset + i`, or at `position_ids[i]`, or where
        `cu_seqlens` says. Returns both, or `q` alone without `k`.

        sequence_length: how long the whole text is, for the rules that change with it (`dynamic`, `longrope`); the length that the
        model was trained at if not given.
        """
        if self._is_learned:
            return self._learned(q, k, position_ids, cu_seqlens, offset, heads_first)
        key = (q.device, torch.float64 if q.dtype == torch.float64 else torch.float32)
        tables = self._tables.get(key)
        needed = offset + q.shape[-2 if heads_first else -3] if position_ids is None else _longest(position_ids)
        if tables is None or needed > tables[0].shape[0] or sequence_length != tables[2]:
            tables = self._grow(needed, *key, sequence_length)
        cos, sin, _ = tables
        turn = turned_ if in_place else turned
        return turn(
            q,
            k,
            cos,
            sin,
            position_ids,
            cu_seqlens,
            offset,
            self._pairing,
            False,
            heads_first,
            self.rotary_dim,
            self.rotary_offset,
        )

    def _grow(self, needed, device, dtype, sequence_length=None):
        """Tables for at least so many positions on a device: cosines, sines, and the length that they are for."""
        if torch.compiler.is_compiling():
            raise RotaryError(
                f"tables for {needed} positions on {device} are needed, and none are made while compiling; expected a larger "
                "max_positions, or one call before"
            )
        # Doubled, so that text of growing length does not make a table for every token.
        rows = self.max_positions
        while rows < needed:
            rows *= 2
        table = torch.empty(2, rows, self.rotary_dim // 2, dtype=dtype, device="cpu")
        fill_table(self.rope, rows, sequence_length, dtype == torch.float64, table[0].data_ptr(), table[1].data_ptr())
        if device.type != "cpu":
            # A row's cosines, then its sines: as the kernels of GPUs read them.
            table = table.transpose(0, 1).contiguous().to(device).transpose(0, 1)
        self._tables[device, dtype] = (table[0], table[1], sequence_length)
        return self._tables[device, dtype]

    def _learned(self, q, k, position_ids, cu_seqlens, offset, heads_first):
        length = q.shape[-2 if heads_first else -3]
        if position_ids is None:
            position_ids = torch.arange(offset, offset + length, device=q.device)
            if cu_seqlens is not None:
                position_ids = _plain.rows(position_ids[:, None].double(), 1, None, cu_seqlens, 0, length)[:, 0]
        # In float64, so that far positions do not lose what the frequencies learn.
        angles = position_ids[..., None].double() * self.inv_freq.double()
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        cos, sin = ((self.attention_factor * value).to(wide) for value in (angles.cos(), angles.sin()))
        how = (cos, sin, None, None, 0, self._pairing, False, heads_first, self.rotary_dim, self.rotary_offset)
        turned_q = _plain.rotate(q, *how)
        return turned_q if k is None else (turned_q, _plain.rotate(k, *how))

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        # Tables stay what they are whatever the module is cast to; where it goes, they are made beforehand.
        device = fn(torch.empty(0)).device
        if self.inv_freq is None and device.type not in ("cpu", "meta") and (device, torch.float32) not in self._tables:
            self._grow(0, device, torch.float32)
        return self

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_tables"] = {}
        state.pop("rope")
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self._is_learned = self.inv_freq is not None
        self._make_rope()
        if self.inv_freq is None:
            self._grow(0, torch.device("cpu"), torch.float32)


def _longest(position_ids):
    """How many positions ids reach, where looking at them costs nothing much: a GPU is not waited for."""
    if torch.compiler.is_compiling() or not position_ids.is_cpu or position_ids.numel() == 0:
        return 0
    return int(position_ids.max()) + 1


def _read(config):
    """A configuration as a dict."""
    if isinstance(config, (str, os.PathLike)):
        path = os.fspath(config)
        with open(os.path.join(path, "config.json") if os.path.isdir(path) else path, encoding="utf-8") as file:
            return json.load(file)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, dict):
        raise RotaryError(
            f"config is a {type(config).__name__}; expected a path, a dict or a configuration of transformers"
        )
    return config
