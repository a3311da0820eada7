"""The frequency rules in real arithmetic, by mpmath.

Numbers of a configuration are taken as the exact values of their f64s.
"""

import math

from mpmath import mp, mpf


def yarn_range(params, dim):
    """The ends of YaRN's ramp, in f64 as transformers computes them."""
    log_base, original = math.log(params["rope_theta"]), params["original_max_position_embeddings"]

    def pair_that_turns(times):
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * log_base)

    low, high = pair_that_turns(params.get("beta_fast") or 32), pair_that_turns(params.get("beta_slow") or 1)
    if params.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return low, high + 0.001 if low == high else high


def exact_frequencies(rope, seq_len):
    """The frequencies of a rule in real arithmetic, at the working precision of mpmath."""
    params, dim, rule = rope.params, rope.rotary_dim, rope.rope_type
    theta, factor = mpf(params["rope_theta"]), params.get("factor")
    if rule == "dynamic":
        length = max(seq_len or rope.max_positions, rope.max_positions)
        growth = mpf(factor) * length / rope.max_positions - (mpf(factor) - 1)
        theta *= growth ** (mpf(dim) / (dim - 2))
    plain = [theta ** (-mpf(2 * i) / dim) for i in range(dim // 2)]

    if rule in ("default", "dynamic"):
        return plain
    if rule == "linear":
        return [f / factor for f in plain]
    if rule == "proportional":
        turned = int(params.get("partial_rotary_factor", 1.0) * rope.head_dim // 2)
        return [f / (factor or 1) if i < turned else mpf(0) for i, f in enumerate(plain)]
    original = params["original_max_position_embeddings"]
    if rule == "longrope":
        long = seq_len is not None and seq_len > original
        return [f / mpf(e) for f, e in zip(plain, params["long_factor" if long else "short_factor"])]
    if rule == "yarn":
        factor = mpf(rope.max_positions) / original if factor is None else mpf(factor)
        low, high = (mpf(x) for x in yarn_range(params, dim))
        ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(dim // 2)]
        return [f * (1 - r) + f / factor * r for f, r in zip(plain, ramp)]
    assert rule == "llama3", rule
    low, high = mpf(params["low_freq_factor"]), mpf(params["high_freq_factor"])

    def stretched(f):
        turns = original * f / (2 * mp.pi)  # of this pair over the original length
        if turns > high:
            return f
        if turns < low:
            return f / factor
        smooth = (turns - low) / (high - low)
        return (1 - smooth) * f / factor + smooth * f

    return [stretched(f) for f in plain]
