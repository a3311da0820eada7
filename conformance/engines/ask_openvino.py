"""OpenVINO on the CPU: the operation RotaryEmbedding of `com.microsoft` through its reader of ONNX. Cosines and sines are the caller's."""

import io

import numpy
import openvino
from ask_onnxruntime import KINDS, model, table
from kit import as_numpy, from_numpy, run

CORE = openvino.Core()


def turn(case, positions, q, k):
    rope = case.rope
    if positions.ndim > 1 or rope.pairing == "interleaved_to_half" or rope.rotary_offset:
        raise NotImplementedError
    cos, sin = table(rope, positions, q.dtype)
    at = numpy.arange(len(positions))[None]

    def rotate(x):
        data = model(rope, x.shape[1], x.shape[2], KINDS[str(x.dtype)], len(positions))
        try:
            read = CORE.read_model(io.BytesIO(data))
        except RuntimeError as error:  # what its reader does not convert
            raise NotImplementedError from error
        # Without the hint it computes in bf16 on CPUs that have it.
        compiled = CORE.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return numpy.array(compiled({"x": x, "at": at, "cos": cos, "sin": sin})[0])

    return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["openvino", "onnx"], dtypes=("f32", "f16"), give=as_numpy, take=from_numpy)
