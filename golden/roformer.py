"""Makes the reference data for RoFormer models in `roformer/`.

    python golden/roformer.py

The outputs are those of transformers' model classes, run in f64 and in f32 on
the cases in `roformer_configs.py`. Weights come from an integer hash of their
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
from transformers.models.roformer import modeling_roformer as modeling

import manifest
import roformer_configs as configs

OUT = Path(__file__).resolve().parent / "roformer"
TABLE = "encoder.embed_positions.weight"


# ---------------------------------------------------------------------- weights


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


# How the names of norms' weights end.
NORMS = ("LayerNorm.weight", "norm.weight", "norm1.weight", "norm2.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight", "emb_ln.weight")


def hashed(name, shape):
    """The values of the tensor `name`, before rounding to f32."""
    u64, golden = numpy.uint64, numpy.uint64(0x9E3779B97F4A7C15)
    z = u64(fnv1a(name)) ^ (numpy.arange(math.prod(shape), dtype=u64) * golden)
    z = z + golden
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    z = z ^ (z >> u64(31))
    f = ((z >> u64(40)).astype(numpy.int64) - 2**23) / 2**23
    if name.endswith(NORMS):
        f = 1 + f / 4
    elif len(shape) == 1:
        f = f / 8
    elif "embeddings" not in name:
        f = f * 2.0 ** -((shape[-1].bit_length() - 1) // 2)
    return f.reshape(shape)


def build(head, fields):
    """The model with hashed weights, in f32."""
    config = transformers.RoFormerConfig(**fields)
    config._attn_implementation = "eager"
    model = getattr(modeling, f"RoFormer{head}")(config).eval()
    prefix = "roformer." if head == "Model" else ""
    with torch.no_grad():
        # Parameters that share memory come once, by the name that the others are tied to.
        for name, parameter in model.named_parameters():
            if not name.endswith(TABLE):
                parameter.copy_(torch.from_numpy(hashed(prefix + name, parameter.shape)))
    check_table(model.base_model.encoder.embed_positions.weight)
    return model


def check_table(table):
    """The table is made in f64 and rounded to f32."""
    rows, dim = table.shape
    angles = numpy.arange(rows)[:, None] / 10000 ** (numpy.arange(0, dim, 2) / dim)
    want = numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=1)
    assert table.dtype == torch.float32
    assert (table - torch.from_numpy(want)).abs().max() < 2**-24


# ------------------------------------------------------------------------ cases


def padding(shape, length, side):
    """A mask whose first row is full and whose others are shorter (a single row is padded)."""
    rows = math.prod(shape)
    real = [length - (i + (rows == 1)) * length // 3 % length for i in range(rows)]
    counts = torch.tensor([length if side == "none" else n for n in real]).reshape(*shape, 1)
    positions = torch.arange(length)
    keep = positions >= length - counts if side == "left" else positions < counts
    return keep.long()


def make_inputs(case, config):
    random = numpy.random.default_rng(fnv1a(case.name))
    rows = (case.batch,) if case.choices is None else (case.batch, case.choices)
    ids = torch.from_numpy(random.integers(0, config.vocab_size, (*rows, case.length)))
    types = torch.from_numpy(random.integers(0, config.type_vocab_size, ids.shape)) if case.types else None
    mask = states = encoder_mask = None
    if case.pad:
        mask = padding(rows, case.length, case.pad)
        ids = torch.where(mask == 1, ids, config.pad_token_id)
    if case.encoder:
        states = random.standard_normal((case.batch, case.encoder, config.hidden_size), dtype=numpy.float32)
        states = torch.from_numpy(states)
        if case.encoder_pad:
            encoder_mask = padding(rows, case.encoder, "right")
    return {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": mask,
        "encoder_hidden_states": states,
        "encoder_attention_mask": encoder_mask,
    }


def collect(out):
    logits = out.get("logits")
    if "start_logits" in out:
        logits = torch.stack([out.start_logits, out.end_logits], dim=-1)
    return {"last_hidden_state": out.hidden_states[-1]} | ({} if logits is None else {"logits": logits})


def run(model, inputs, prefill=None):
    """The outputs of one call, or of a call on `prefill` tokens and a call on each later one."""
    inputs = {name: value for name, value in inputs.items() if value is not None}
    if "encoder_hidden_states" in inputs:
        inputs["encoder_hidden_states"] = inputs["encoder_hidden_states"].to(model.dtype)
    if model.config.is_decoder:
        inputs["use_cache"] = prefill is not None
    with torch.no_grad():
        if prefill is None:
            return collect(model(**inputs, output_hidden_states=True))
        length, past, parts = inputs["input_ids"].shape[-1], None, []
        for start, stop in [(0, prefill)] + [(i, i + 1) for i in range(prefill, length)]:
            step = dict(inputs)
            for name in ("input_ids", "token_type_ids"):
                if name in step:
                    step[name] = step[name][:, start:stop]
            if "attention_mask" in step:
                step["attention_mask"] = step["attention_mask"][:, :stop]
            out = model(**step, past_key_values=past, output_hidden_states=True)
            past = out.past_key_values
            assert past.get_seq_length() == stop
            parts.append(collect(out))
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}


def real(name, value, mask):
    """The part of an output that belongs to real positions."""
    if mask is None or (name == "logits" and value.shape[: mask.dim()] != mask.shape):
        return value
    return value[mask.reshape(-1, mask.shape[-1]) == 1]


def measure(low, high, mask, most=1e-5):
    """How far the f32 run is from the f64 run, and the size of the values, at real positions."""
    rows = {}
    for name, value in high.items():
        assert value.dtype == torch.float64 and torch.isfinite(value).all()
        a, b = real(name, low[name].double(), mask), real(name, value, mask)
        deviation, largest = (a - b).abs().max().item(), b.abs().max().item()
        assert deviation < most * largest, (name, deviation, largest)
        rows[name] = {"deviation": deviation, "largest": largest}
    return rows


def written(config):
    """The fields that transformers writes to config.json."""
    fields = json.loads(config.to_json_string())
    del fields["transformers_version"]
    return fields


def make_case(case, tensors):
    fields = dict(case.config)
    if case.table_rows:
        fields["max_position_embeddings"] = case.table_rows
    model = build(case.head, fields)
    config = transformers.RoFormerConfig(**case.config)
    inputs = make_inputs(case, config)
    low = run(model, inputs, case.prefill)
    model.double()
    high = run(model, inputs, case.prefill)
    mask = inputs["attention_mask"]
    if case.prefill:
        once = run(model, inputs)
        for name, value in high.items():
            assert torch.allclose(real(name, value, mask), real(name, once[name], mask), rtol=0, atol=1e-12)
    outputs = measure(low, high, mask)
    if case.encoder:
        high["encoder_hidden_states"] = inputs["encoder_hidden_states"].double()
    tensors |= {f"{case.name}.{part}": value.contiguous().clone() for part, value in high.items()}
    lists = {name: None if value is None else value.tolist() for name, value in inputs.items()}
    return {
        "name": case.name,
        "head": f"RoFormer{case.head}",
        "config": written(config),
        "batch": case.batch,
        "choices": case.choices,
        "length": case.length,
        "ids": lists["input_ids"],
        "token_types": lists["token_type_ids"],
        "mask": lists["attention_mask"],
        "encoder_length": case.encoder,
        "encoder_mask": lists["encoder_attention_mask"],
        "steps": case.prefill and {"prefill": case.prefill},
        "outputs": outputs,
    }


def make_base(tensors):
    """The base size: only the first tokens are stored."""
    model = build("Model", configs.BASE)
    config = written(model.config)
    case = configs.Case("base", "Model", configs.BASE, configs.BASE_LENGTH)
    inputs = make_inputs(case, model.config)
    low, high = run(model, inputs), run(model.double(), inputs)
    outputs = measure(low, high, None)
    state = high["last_hidden_state"]
    outputs["last_hidden_state"] |= {"tokens": configs.BASE_TOKENS, "norm": state.norm().item()}
    tensors["base.last_hidden_state"] = state[:, : configs.BASE_TOKENS].float().contiguous()
    return {
        "name": "base",
        "head": "RoFormerModel",
        "config": config,
        "batch": 1,
        "length": case.length,
        "ids": inputs["input_ids"].tolist(),
        "outputs": outputs,
    }


# ------------------------------------------------------------------ model files


def legacy_save(value, path):
    """torch's format before 1.6, with storages numbered where torch puts their addresses."""
    numbers = {}

    class Text(str):
        def __new__(cls, address):
            return str(numbers.setdefault(address, 100000 + len(numbers)))

    with mock.patch.object(torch.serialization, "str", Text, create=True), path.open("wb") as file:
        torch.save(value, file, _use_new_zipfile_serialization=False)


def folder(name, config=None):
    path = OUT / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    if config is not None:
        config.save_pretrained(path)
    return path


def make_files(tensors):
    """One model in the file formats that are in use."""
    model = build("ForMaskedLM", configs.TINY)
    model.save_pretrained(folder("tiny-safetensors"))
    model.save_pretrained(folder("tiny-sharded"), max_shard_size="12KB")
    assert len(list((OUT / "tiny-sharded").glob("*.safetensors"))) == 3
    torch.save(model.state_dict(), folder("tiny-bin", model.config) / "pytorch_model.bin")
    legacy_save(model.state_dict(), folder("tiny-legacy-bin", model.config) / "pytorch_model.bin")
    half = build("ForMaskedLM", configs.TINY).half()
    half.config.architectures, half.config.dtype = model.config.architectures, torch.float16
    torch.save(half.state_dict(), folder("tiny-bin-f16", half.config) / "pytorch_model.bin")

    inputs = make_inputs(configs.Case("tiny", "ForMaskedLM", configs.TINY, configs.TINY_LENGTH, 2), model.config)
    names = ("tiny-safetensors", "tiny-bin", "tiny-bin-f16", "tiny-sharded", "tiny-legacy-bin")
    rows, want = [], run(model.double(), inputs)["logits"]
    for name in names:
        loaded = modeling.RoFormerForMaskedLM.from_pretrained(OUT / name, dtype=torch.float32).eval()
        low, high = run(loaded, inputs), run(loaded.double(), inputs)
        row = {"dir": name, "ids": inputs["input_ids"].tolist(), "logits": f"{name}.logits"}
        tensors[row["logits"]] = high["logits"].contiguous().clone()
        if name == "tiny-bin-f16":
            # Again with the exact table in place of the one that was rounded to f16 with the weights.
            loaded.base_model.encoder.embed_positions.weight.data.copy_(model.base_model.encoder.embed_positions.weight)
            row["logits_own_table"] = f"{name}.logits_own_table"
            tensors[row["logits_own_table"]] = run(loaded, inputs)["logits"].contiguous().clone()
        else:
            assert torch.equal(high["logits"], want)
        rows.append(row | {"outputs": measure(low, high, None)})
    return rows


def line(row):
    return json.dumps(row, allow_nan=False, separators=(",", ":"))


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases = [make_case(case, tensors) for case in configs.CASES]
    names = Counter(case["name"] for case in cases)
    assert max(names.values()) == 1, names.most_common(1)
    base, files = make_base(tensors), make_files(tensors)
    parts = [",\n".join(map(line, rows)) for rows in (cases, [base], files)]
    (OUT / "cases.json").write_text('{{"cases":[\n{}\n],"base":\n{},\n"files":[\n{}\n]}}\n'.format(*parts))
    (OUT / "outputs.safetensors").write_bytes(safetensors.torch.save(tensors))
    print(f"{len(cases)} cases, {dict(Counter(case['head'] for case in cases))}")
    worst = max((row["deviation"] / row["largest"], case["name"]) for case in cases for row in case["outputs"].values())
    print(f"f32 within {worst[0]:.1e} of f64 ({worst[1]})")
    manifest.update("roformer")


if __name__ == "__main__":
    main()
