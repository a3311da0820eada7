"""Arrays as the bytes of a safetensors file, and back: 8 bytes of length, a JSON header, the numbers."""

from __future__ import annotations

import json
import struct
from typing import Any

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
}  # fmt: skip


def pack(tensors: dict[str, Any]) -> bytes:
    """The file of these tensors, of torch or numpy."""
    header, chunks, at = {}, [], 0
    for name, tensor in tensors.items():
        kind, data = _bytes(name, tensor)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        chunks.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)


def _bytes(name: str, tensor: Any) -> tuple[str, bytes]:
    kind = _NAMES.get(str(getattr(tensor, "dtype", "")).removeprefix("torch."))
    if kind is None:
        got = getattr(tensor, "dtype", type(tensor).__name__)
        raise TypeError(f"the answer {name} is of type {got}; expected a tensor of the type that was given")
    if hasattr(tensor, "detach"):
        import torch

        tensor = tensor.detach().cpu().contiguous()
        return kind, tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return kind, tensor.tobytes()


def unpack(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """The type, the shape and the bytes of each tensor of a file."""
    (length,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], rest[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }
