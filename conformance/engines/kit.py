"""What every engine's script needs: the cases of a folder, and its answers. numpy and the standard library alone.

A script calls `run` with a function that gets a case, its positions and q and k, and returns the two turned; it raises
NotImplementedError for what the engine does not have.
"""

import json
import struct
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy


def cases(folder):
    """Every case, with `parameters`: the rope dictionary of its config.json, wherever it stands there."""
    for case in json.loads((folder / "cases.json").read_text())["cases"]:
        config = case["config"] | case["config"].get("text_config", {})
        parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        parameters.setdefault("rope_type", parameters.pop("type", "default"))
        parameters.setdefault("rope_theta", config.get("rope_theta", 10000.0))
        rope = SimpleNamespace(**case["rope"])
        yield SimpleNamespace(**{"before": None, "calls": None, "layer_type": None} | case | {"rope": rope, "parameters": parameters})


def inputs(folder):
    data = (folder / "inputs.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + length + at for at in entry["data_offsets"])
            yield name, numpy.frombuffer(data[start:end], dtype="<f4").reshape(entry["shape"]).copy()


def save(path, answers):
    """`answers` holds a type, a shape and bytes by name."""
    header, chunks, at = {}, [], 0
    for name, (kind, shape, data) in answers.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        chunks.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def as_torch(values, dtype):
    import torch

    return torch.from_numpy(values).to({"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype])


def from_torch(tensor):
    import torch

    kind = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}[tensor.dtype]
    tensor = tensor.detach().cpu().contiguous()
    return kind, tensor.shape, tensor.view(torch.uint8).numpy().tobytes()


def as_numpy(values, dtype):
    return values.astype({"f32": "<f4", "f16": "<f2"}[dtype])


def from_numpy(array):
    return {"float32": "F32", "float16": "F16"}[str(array.dtype)], array.shape, array.tobytes()


def run(turn, packages, dtypes=("f32", "f16", "bf16"), give=as_torch, take=from_torch):
    """Asks `turn(case, positions, q, k)` every case of the folder on the command line; writes the answers and versions.json."""
    folder = Path(sys.argv[1])
    tensors, answers = dict(inputs(folder)), {}
    for case in cases(folder):
        if case.calls is not None:  # a cache is not what these functions have
            continue
        positions = numpy.array(case.positions if len(case.positions) > 1 else case.positions[0], dtype=numpy.int64)
        for dtype in dtypes:
            q, k = (give(tensors[f"{case.name}.{side}"], dtype) for side in "qk")
            try:
                if case.before is not None:
                    last = numpy.full_like(positions[..., :1], case.before - 1)
                    turn(case, last, q[:, :, :1], k[:, :, :1])
                turned = turn(case, positions, q, k)
            except NotImplementedError:
                continue
            for side, tensor in zip("qk", turned):
                answers[f"{case.name}.{dtype}.{side}"] = take(tensor)
    save(folder / "answers.safetensors", answers)
    (folder / "versions.json").write_text(json.dumps({name: version(name) for name in packages}))
