"""The first losses of the networks that `roformer bench train` measures, for `training.py`.

Weights and ids are made by the rules of `crates/engine/src/graph/parameters.rs` and `crates/cli/src/bench/timing/train.rs`, written here once
more: SplitMix64, and normal numbers by Box and Muller.
"""

import math

import numpy
import torch

import roformer as common

# Batch, length, width, layers and vocabulary: those of bench/peers/train_cpu.py.
SHAPES = [(32, 40, 64, 2, 64), (16, 128, 128, 4, 64), (12, 64, 128, 4, 65), (4, 128, 256, 6, 12000)]
HEAD_DIM = 32
SEED = 1
DEVIATION = 0.02


def mix(value):
    u64 = numpy.uint64
    z = value + u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


def unit(bits):
    return ((bits >> numpy.uint64(11)).astype(numpy.float64) + 0.5) / 2.0**53


def normal(name, shape):
    """Rounded to f32, as they are trained."""
    u64 = numpy.uint64
    state = mix(mix(numpy.full(1, SEED, u64)) ^ u64(common.fnv1a(name)))
    index = numpy.arange(math.prod(shape), dtype=u64)
    a, b = unit(mix(state ^ (u64(2) * index))), unit(mix(state ^ (u64(2) * index + u64(1))))
    values = DEVIATION * (numpy.sqrt(-2 * numpy.log(a)) * numpy.cos(2 * math.pi * b))
    return values.astype(numpy.float32).reshape(shape)


def ids(seed, batch, length, vocab):
    index = numpy.arange(batch * length, dtype=numpy.uint64)
    chosen = mix(numpy.uint64(seed) ^ index) % numpy.uint64(vocab)
    return torch.from_numpy(chosen.astype(numpy.int64).reshape(batch, length))


def first_losses(plain, cross_entropy):
    """For each shape the loss before any update, in f64; `plain` makes the model."""
    out = []
    for batch, length, width, layers, vocab in SHAPES:
        model = plain(vocab, width, layers, width // HEAD_DIM, 4 * width, 1e-5, 10000.0, False).double()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    parameter.copy_(torch.from_numpy(normal(name, parameter.shape)))
                else:
                    parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            loss = cross_entropy(model(ids(1 << 32, batch, length, vocab)), ids(2 << 32, batch, length, vocab)).item()
        print(f"first loss of {batch} x {length}, width {width}, {layers} layers, vocabulary {vocab}: {loss:.12f}")
        out.append({"shape": [batch, length, width, layers, vocab], "loss": loss})
    return out
