"""Makes the reference data for decoders of the Llama form in `decoder/`.

    python golden/decoder.py

The outputs are those of transformers' model classes, run in f64 and in f32 on
the cases in `decoder_configs.py`. Weights come from an integer hash of their
names, so they are not stored. See README.md for the files that are written.
"""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy
import safetensors.torch
import torch
import transformers

import decoder_configs as configs
import manifest
from roformer import fnv1a, hashed, line, measure, padding, real

OUT = Path(__file__).resolve().parent / "decoder"
# What transformers has in place of MiniMind.
STAND_IN = {configs.MINIMIND: configs.LLAMA, configs.MINIMIND3: configs.QWEN3}
MINIMIND_ONLY = ("inference_rope_scaling",)


# ----------------------------------------------------------------------- models


def minimind_frequencies(dim, fields):
    """MiniMind's own: base 1e6; with `inference_rope_scaling` a YaRN of factor 16 from 2048, no attention factor."""
    base, trained, factor = 1e6, 2048, 16
    theta = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    if not fields["inference_rope_scaling"] or fields["max_position_embeddings"] <= trained:
        return theta

    def pair(turns):
        return dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim // 2 - 1)
    ramp = ((torch.arange(dim // 2).float() - low) / max(high - low, 0.001)).clamp(0, 1)
    return theta * (1 - ramp + ramp / factor)


def class_config(family, fields):
    family = STAND_IN.get(family, family)
    fields = {name: value for name, value in fields.items() if name not in MINIMIND_ONLY}
    # Tokens of these ids are like any other.
    config = getattr(transformers, f"{family}Config")(bos_token_id=None, eos_token_id=None, **fields)
    config._attn_implementation = "eager"
    return config


def build(family, fields, head=True):
    """The model with hashed weights, in f32."""
    is_minimind = family in STAND_IN
    if is_minimind:
        dim = fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]
        fields = {"head_dim": dim, "tie_word_embeddings": True} | fields
    config = class_config(family, fields)
    name = STAND_IN.get(family, family) + ("ForCausalLM" if head else "Model")
    model = getattr(transformers, name)(config).eval()
    prefix = "" if head else "model."
    with torch.no_grad():
        # Parameters that share memory come once, by the name that the others are tied to.
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(hashed(prefix + name, parameter.shape)))
    if is_minimind:
        rotary = model.base_model.rotary_emb
        assert rotary.attention_scaling == 1.0
        rotary.inv_freq.copy_(minimind_frequencies(fields["head_dim"], fields))
    return model


def written(family, fields, model, head):
    """The fields that transformers writes to config.json; for MiniMind those that MiniMind does."""
    if family in STAND_IN:
        return {
            "model_type": "minimind",
            "architectures": ["MiniMindForCausalLM"],
            "hidden_act": "silu",
            "rope_theta": 1e6,
            "tie_word_embeddings": True,
            "use_moe": False,
            "num_experts": 4,
        } | fields
    config = json.loads(model.config.to_json_string())
    del config["transformers_version"]
    return config | {"architectures": [f"{family}{'ForCausalLM' if head else 'Model'}"]}


# ------------------------------------------------------------------------ cases


def make_inputs(case, config):
    random = numpy.random.default_rng(fnv1a(case.name))
    ids = torch.from_numpy(random.integers(0, config.vocab_size, (case.batch, case.length)))
    mask = padding((case.batch,), case.length, case.pad) if case.pad else None
    return ids if mask is None else torch.where(mask == 1, ids, 0), mask


def collect(out):
    state = out.hidden_states[-1] if "last_hidden_state" not in out else out.last_hidden_state
    return {"last_hidden_state": state} | ({"logits": out.logits} if "logits" in out else {})


def run(model, ids, mask, prefill=None):
    """The outputs of one call, or of a call on `prefill` tokens and a call on each later one."""
    with torch.no_grad():
        if prefill is None:
            return collect(model(ids, attention_mask=mask, use_cache=False, output_hidden_states=True))
        past, parts = None, []
        for start, stop in [(0, prefill)] + [(i, i + 1) for i in range(prefill, ids.shape[1])]:
            seen = None if mask is None else mask[:, :stop]
            # Positions count from the first token of the row, as in the call without a cache.
            out = model(
                ids[:, start:stop],
                attention_mask=seen,
                position_ids=torch.arange(start, stop)[None],
                past_key_values=past,
                use_cache=True,
                output_hidden_states=True,
            )
            past = out.past_key_values
            assert past.get_seq_length() == stop
            parts.append(collect(out))
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}


def run_wide(model, *inputs):
    """The same in f64: norms and softmax too, for which the classes name `torch.float32`. Angles stay f32 (`torch.float`)."""
    with mock.patch.object(torch, "float32", torch.float64):
        return run(model.double(), *inputs)


def depends_on_length(case):
    return case.config.get("rope_parameters", {}).get("rope_type") in ("dynamic", "longrope")


def make_case(case, tensors):
    fields = case.config
    model = build(case.family, fields, case.head)
    config = written(case.family, fields, model, case.head)
    ids, mask = make_inputs(case, model.config)
    low = run(model, ids, mask, case.prefill)
    # A new one: a dynamic rule remembers what the first run has seen.
    model = build(case.family, fields, case.head)
    high = run_wide(model, ids, mask, case.prefill)
    if case.prefill and not depends_on_length(case):
        once = run_wide(model, ids, mask)
        for name, value in high.items():
            assert torch.allclose(real(name, value, mask), real(name, once[name], mask), rtol=0, atol=1e-12)
    outputs = measure(low, high, mask)
    tensors |= {f"{case.name}.{part}": value.contiguous().clone() for part, value in high.items()}
    return {
        "name": case.name,
        "config": config,
        "head_norms": case.family in (configs.QWEN3, configs.MINIMIND3),
        "batch": case.batch,
        "length": case.length,
        "ids": ids.tolist(),
        "mask": None if mask is None else mask.tolist(),
        "steps": case.prefill and {"prefill": case.prefill},
        "outputs": outputs,
    }


def make_files(tensors):
    """Small models as transformers saves them."""
    rows = []
    for name, (family, fields, head) in configs.FILES.items():
        path = OUT / name
        shutil.rmtree(path, ignore_errors=True)
        build(family, configs.TINY | fields, head).save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
        case = configs.Case(name, family, configs.TINY | fields, configs.TINY_LENGTH, 2)
        loaded_class = getattr(transformers, family + ("ForCausalLM" if head else "Model"))
        loaded = loaded_class.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        ids, mask = make_inputs(case, loaded.config)
        low, high = run(loaded, ids, mask), run_wide(loaded, ids, mask)
        part = "logits" if head else "last_hidden_state"
        tensors[f"{name}.{part}"] = high[part].contiguous().clone()
        outputs = measure(low, high, None)
        rows.append({"dir": name, "ids": ids.tolist(), "output": part, "outputs": {part: outputs[part]}})
    return rows


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases = [make_case(case, tensors) for case in configs.CASES]
    names = Counter(case["name"] for case in cases)
    assert max(names.values()) == 1, names.most_common(1)
    parts = [",\n".join(map(line, rows)) for rows in (cases, make_files(tensors))]
    (OUT / "cases.json").write_text('{{"cases":[\n{}\n],"files":[\n{}\n]}}\n'.format(*parts))
    (OUT / "outputs.safetensors").write_bytes(safetensors.torch.save(tensors))
    print(f"{len(cases)} cases, {dict(Counter(case['config']['model_type'] for case in cases))}")
    worst = max((row["deviation"] / row["largest"], case["name"]) for case in cases for row in case["outputs"].values())
    print(f"f32 within {worst[0]:.1e} of f64 ({worst[1]})")
    manifest.update("decoder")


if __name__ == "__main__":
    main()
