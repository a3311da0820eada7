"""ggml, what llama.cpp computes with, on the CPU: `ggml_rope_ext` with the settings that llama.cpp gives it.

Frequencies of Llama 3 and LongRoPE are divided by a list of factors, which llama.cpp's converter writes into the file and its loader
chooses; here the list is the one that follows from the configuration. YaRN is ggml's own.
"""

import ctypes
import math

import ggml
import numpy
from kit import as_numpy, from_numpy, run

NEOX = 2


def turn(case, positions, q, k):
    rope, parameters = case.rope, case.parameters
    rule = parameters["rope_type"]
    if positions.ndim > 1 or rope.pairing == "interleaved_to_half" or rope.rotary_offset or positions.max() >= 2**31:
        raise NotImplementedError
    scale, extend, attention, original = 1.0, 0.0, 1.0, 0
    factors = None
    base = parameters["rope_theta"]
    if rule == "linear":
        scale = 1.0 / parameters["factor"]
    elif rule == "yarn" and "truncate" not in parameters:
        scale, extend = 1.0 / parameters["factor"], 1.0
        original = parameters["original_max_position_embeddings"]
        # ggml multiplies by 0.1·ln(factor) + 1 of its own; llama.cpp divides by it beforehand.
        attention = rope.attention_factor / (1.0 + 0.1 * math.log(parameters["factor"]))
    elif rule in ("llama3", "longrope", "proportional"):
        plain = base ** (-numpy.arange(0, rope.rotary_dim, 2) / rope.rotary_dim)
        exact = numpy.array(rope.inv_freq)
        factors = numpy.where(exact > 0, plain / numpy.maximum(exact, 1e-30), 1e30).astype(numpy.float32)
        attention = rope.attention_factor
    elif rule != "default":
        raise NotImplementedError
    settings = (rope.rotary_dim, NEOX if rope.pairing == "half" else 0, original, base, scale, extend, attention, 32.0, 1.0)
    return rotate(q, positions, factors, settings), rotate(k, positions, factors, settings)


def rotate(x, positions, factors, settings):
    # ggml's axes run the other way: features, heads, tokens.
    data = numpy.ascontiguousarray(x[0].transpose(1, 0, 2))
    kind = {"float32": ggml.GGML_TYPE_F32, "float16": ggml.GGML_TYPE_F16}[str(x.dtype)]
    context = ggml.ggml_init(ggml.ggml_init_params(mem_size=16 << 20, mem_buffer=None, no_alloc=False))
    tokens, heads, dim = data.shape

    def fill(tensor, array):
        ctypes.memmove(ggml.ggml_get_data(tensor), array.ctypes.data, array.nbytes)
        return tensor

    a = fill(ggml.ggml_new_tensor_3d(context, kind, dim, heads, tokens), data)
    at = fill(ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_I32, tokens), positions.astype(numpy.int32))
    list_ = None
    if factors is not None:
        list_ = fill(ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_F32, len(factors)), factors)
    out = ggml.ggml_rope_ext(context, a, at, list_, *settings)
    graph = ggml.ggml_new_graph(context)
    ggml.ggml_build_forward_expand(graph, out)
    ggml.ggml_graph_compute_with_ctx(context, graph, 1)
    result = numpy.empty_like(data)
    ctypes.memmove(result.ctypes.data, ggml.ggml_get_data(out), result.nbytes)
    ggml.ggml_free(context)
    return numpy.ascontiguousarray(result.transpose(1, 0, 2))[None]


if __name__ == "__main__":
    run(turn, ["ggml-python"], dtypes=("f32", "f16"), give=as_numpy, take=from_numpy)
