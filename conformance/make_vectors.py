"""Makes the vectors of `conformance/vectors` from the cases that `roformer conform cases` writes, in 300-bit arithmetic.

    roformer conform cases conformance/vectors
    python conformance/make_vectors.py conformance/vectors

What the configuration means comes from transformers' own classes and the formulas of `golden/rope_exact.py`, not from this project's
library. The script compares every number with the one that the library wrote, stops on a difference, and writes the nearest f64 of
its own in place of it. `--check` writes nothing; it takes the full set too (`roformer conform cases --full`), in two minutes.
"""

import json
import sys
from pathlib import Path

import numpy
from mpmath import mp, mpf

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "golden"), str(ROOT / "conformance/engines")]

import kit  # noqa: E402
from rope import resolve  # noqa: E402
from rope_exact import exact_frequencies  # noqa: E402

# Of the model types of the small set. Those of the full set are what transformers' own functions have been asked about, see
# `engines/ask_transformers.py`.
PAIRING = {
    "llama": "half", "qwen2": "half", "stablelm": "half", "phi3": "half", "qwen2_vl_text": "half", "qwen3_vl_text": "half",
    "qwen3_5_text": "half", "cohere": "interleaved", "glm": "interleaved", "deepseek_v3": "interleaved_to_half",
    "mistral4": "interleaved_to_half",
}  # fmt: skip


def axis_of_pair(case, pairs):
    """Which row of positions each pair turns by, as transformers' M-RoPE has it."""
    sections = case.parameters.get("mrope_section")
    if sections is None:
        return [0] * pairs
    if not case.parameters.get("mrope_interleaved"):
        return [axis for axis, size in enumerate(sections) for _ in range(size)]
    axes = [0] * pairs
    for axis in (1, 2):
        for pair in range(axis, 3 * sections[axis], 3):
            axes[pair] = axis
    return axes


def exact(case, inputs):
    """The tensors of a case at 300 bits: by name, as nearest f64."""
    tokens = len(case.positions[0])
    calls = case.calls or [tokens]
    ends = [sum(calls[: i + 1]) for i in range(len(calls)) for _ in range(calls[i])]
    length_to = lambda end: 1 + max(at for row in case.positions for at in row[:end])  # noqa: E731
    lengths = {"q": [length_to(end) for end in ends], "k": [length_to(tokens)] * tokens}
    found = {}

    def frequencies(length):
        if length not in found:
            rope = resolve(case.config, case.layer_type, length if case.parameters["rope_type"] in ("dynamic", "longrope") else None)
            found[length] = exact_frequencies(rope, length), rope.attention_factor
        return found[length]

    last = frequencies(lengths["k"][0])
    pairs, factor = len(last[0]), mpf(last[1])
    pairing = PAIRING.get(case.config["model_type"], case.rope.pairing)
    offset = case.rope.head_dim - 2 * pairs if case.config["model_type"] == "mistral4" else 0
    axes = axis_of_pair(case, pairs)
    read = (lambda j: (j, j + pairs)) if pairing == "half" else (lambda j: (2 * j, 2 * j + 1))
    write = (lambda j: (2 * j, 2 * j + 1)) if pairing == "interleaved" else (lambda j: (j, j + pairs))
    out = {}
    for side in "qk":
        x = inputs[f"{case.name}.{side}"]
        y = x.astype(numpy.float64)
        table = {name: numpy.empty((tokens, pairs)) for name in ("cos", "sin")}
        for token in range(tokens):
            theta, _ = frequencies(lengths[side][token])
            for j in range(pairs):
                angle = case.positions[axes[j]][token] * theta[j]
                cos, sin = mp.cos(angle), mp.sin(angle)
                table["cos"][token, j], table["sin"][token, j] = float(cos), float(sin)
                (a, b), (c, d) = ([offset + at for at in place(j)] for place in (read, write))
                for head in range(x.shape[1]):
                    x0, x1 = (mpf(float(x[0, head, token, at])) for at in (a, b))
                    y[0, head, token, c] = float(factor * (x0 * cos - x1 * sin))
                    y[0, head, token, d] = float(factor * (x1 * cos + x0 * sin))
        out[f"{case.name}.{side}"] = y
        if side == "k":
            out |= {f"{case.name}.{name}": values for name, values in table.items()}
    assert abs(case.rope.attention_factor - float(factor)) < 1e-15, case.name
    assert case.rope.pairing == pairing and case.rope.rotary_offset == offset, case.name
    for got, want in zip(case.rope.inv_freq, last[0], strict=True):
        assert abs(got - want) <= abs(want) * mpf(2) ** -52, f"{case.name}: {got} {want}"
    return out


def main():
    mp.prec = 300
    folder = Path(sys.argv[1])
    inputs, ours = dict(kit.inputs(folder)), dict(tensors(folder / "expected.safetensors"))
    made, worst = {}, 0.0
    for case in kit.cases(folder):
        for name, values in exact(case, inputs).items():
            # A pair is at most 2.9 long, times a factor of 1.5: a few units of f64.
            error = numpy.abs(values - ours[name]).max()
            assert error < 8 * 2.0**-52, f"{name} differs by {error}"
            worst = max(worst, error)
            made[name] = values
    assert set(made) == set(ours)
    if "--check" not in sys.argv:
        files = {name: ("F64", values.shape, values.tobytes()) for name, values in sorted(made.items())}
        kit.save(folder / "expected.safetensors", files)
    print(f"{len(made)} tensors, the library's within {worst:.1e} of 300-bit arithmetic")


def tensors(path):
    import struct

    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = (8 + length + at for at in entry["data_offsets"])
            yield name, numpy.frombuffer(data[start:end], dtype="<f8").reshape(entry["shape"])


if __name__ == "__main__":
    main()
