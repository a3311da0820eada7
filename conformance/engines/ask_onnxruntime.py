"""ONNX Runtime on the CPU: the operation RotaryEmbedding of `com.microsoft`. Cosines and sines are the caller's: exact ones here."""

import numpy
from onnx import TensorProto, helper

from kit import as_numpy, from_numpy, run

# The graph is what OpenVINO reads too, so that the engine itself comes in where it is used.
KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def table(rope, positions, kind):
    angles = positions[:, None].astype(numpy.float64) * numpy.array(rope.inv_freq)
    return [(rope.attention_factor * wave(angles)).astype(kind) for wave in (numpy.cos, numpy.sin)]


def model(rope, heads, tokens, kind, rows):
    attributes = {"interleaved": int(rope.pairing == "interleaved")}
    if rope.rotary_dim != rope.head_dim:
        attributes |= {"rotary_embedding_dim": rope.rotary_dim, "num_heads": heads}
    node = helper.make_node("RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], domain="com.microsoft", **attributes)
    shape = [1, heads, tokens, rope.head_dim]
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)  # noqa: E731
    half = [rows, rope.rotary_dim // 2]
    ins = [value("x", kind, shape), value("at", TensorProto.INT64, [1, tokens]), value("cos", kind, half), value("sin", kind, half)]
    graph = helper.make_graph([node], "rope", ins, [value("y", kind, shape)])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=sets, ir_version=8)
    return made.SerializeToString()


def turn(case, positions, q, k):
    rope = case.rope
    if positions.ndim > 1 or rope.pairing == "interleaved_to_half" or rope.rotary_offset or positions.max() > 10**6:
        raise NotImplementedError
    cos, sin = table(rope, positions, q.dtype)
    # Row t of the table is token t's, so that no table of a million rows is needed.
    at = numpy.arange(len(positions))[None]

    import onnxruntime

    def rotate(x):
        data = model(rope, x.shape[1], x.shape[2], KINDS[str(x.dtype)], len(positions))
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x, "at": at, "cos": cos, "sin": sin})[0]

    return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["onnxruntime", "onnx"], dtypes=("f32", "f16"), give=as_numpy, take=from_numpy)
