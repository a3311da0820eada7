"""Makes the reference data for RoFormerV2, RoFormer-Sim and RoFormer-GPT in `variants/`.

    python golden/variants.py

The outputs are those of the package `roformer`, run in f64 and in f32 on the
cases in `variants_configs.py`. Weights are made as in `roformer.py`. The package
runs with an older transformers: see `requirements-variants.txt`, and README.md
for the files that are written.
"""

import json
import logging
import sys
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import safetensors.torch
import torch
import transformers

import manifest
import roformer as common  # roformer.py beside this file
import roformer_configs
import variants_configs as configs

# The package has the same name.
del sys.modules["roformer"]
sys.path.pop(0)
import roformer.configuration_roformer as configuration  # noqa: E402
import roformer.modeling_roformer as modeling  # noqa: E402

OUT = common.OUT = Path(__file__).resolve().parent / "variants"
OWN_FIELDS = ("use_bias", "norm_type", "pooler_activation")  # transformers does not have these


def build(head, fields):
    """The package's model with hashed weights, in f32."""
    model = getattr(modeling, f"RoFormer{head}")(configuration.RoFormerConfig(**fields)).eval()
    prefix = "roformer." if head == "Model" else ""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith(common.TABLE):
                parameter.copy_(torch.from_numpy(common.hashed(prefix + name, parameter.shape)))
    common.check_table(model.base_model.encoder.embed_positions.weight)
    return model


def make_inputs(case, config):
    inputs = common.make_inputs(case, config)
    if case.reach == "prefix":
        inputs["token_type_ids"] = (torch.arange(case.length) >= torch.tensor(case.targets)[:, None]).long()
    return {name: inputs[name] for name in ("input_ids", "token_type_ids", "attention_mask")}


def square(inputs, reach):
    """The mask `[batch, query, key]`: what a token attends to, less padding."""
    ids, types, mask = inputs.values()
    order = torch.arange(ids.shape[1]).expand(ids.shape) if reach == "causal" else types.cumsum(1)
    allowed = (order[:, None, :] <= order[:, :, None]).long()
    return allowed if mask is None else allowed * mask[:, None, :]


def collect(out):
    pooled = out.get("pooler_output")
    return common.collect(out) | ({} if pooled is None else {"pooler_output": pooled})


def once(model, inputs, reach):
    """The outputs of one call."""
    mask = inputs["attention_mask"] if reach == "all" else square(inputs, reach)
    with torch.no_grad():
        return collect(model(**inputs | {"attention_mask": mask}, output_hidden_states=True))


def stepped(model, inputs, reach, prefill):
    """The outputs of a call on `prefill` tokens and a call on each later one.

    The package itself makes the mask for "prefix". For "causal" it is given.
    """
    length, past, parts = inputs["input_ids"].shape[1], None, []
    for start, stop in [(0, prefill)] + [(i, i + 1) for i in range(prefill, length)]:
        step = {name: None if value is None else value[:, start:stop] for name, value in inputs.items()}
        if reach == "causal":
            step["attention_mask"] = square(inputs, reach)[:, start:stop, :stop]
        elif inputs["attention_mask"] is not None:
            step["attention_mask"] = inputs["attention_mask"][:, :stop]
        with torch.no_grad():
            out = model(**step, past_key_values=past, use_cache=True, output_hidden_states=True)
        past = out.past_key_values
        assert past[0][0].shape[2] == stop
        parts.append(collect(out))
    joined = {name: torch.cat([part[name] for part in parts], dim=1) for name in ("last_hidden_state", "logits")}
    return joined | {"pooler_output": parts[0]["pooler_output"]}


def run(model, inputs, case):
    out = stepped(model, inputs, case.reach, case.prefill) if case.prefill else once(model, inputs, case.reach)
    # RoFormer-GPT has no pooler, and a left-padded row does not begin with its first token.
    if case.variant == "gpt" or case.pad == "left":
        out.pop("pooler_output", None)
    return out


def measure(low, high, mask):
    pooled = {"pooler_output"} & high.keys()
    rows = common.measure(low, {name: high[name] for name in high.keys() - pooled}, mask)
    rows |= common.measure(low, {name: high[name] for name in pooled}, None)
    return {name: rows[name] for name in high}


def agree(a, b, mask):
    """Whether two runs in f64 are the same but for rounding, at real positions."""
    for name in a.keys() & b.keys():
        rows = None if name == "pooler_output" else mask
        difference = common.real(name, a[name], rows) - common.real(name, b[name], rows)
        assert difference.abs().max() < 1e-12, name


def check(case, inputs, model, high):
    """One call with the mask spelled out, and transformers' own classes, give the same."""
    mask = inputs["attention_mask"]
    if case.prefill:
        agree(high, once(model, inputs, case.reach), mask)
    if model.config.use_bias and model.config.norm_type == "layer_norm":
        fields = {name: value for name, value in case.config.items() if name not in OWN_FIELDS}
        # As a decoder it is always causal.
        theirs = common.build(case.head, fields | {"is_decoder": case.reach == "causal"}).double()
        masked = inputs | ({"attention_mask": square(inputs, "prefix")} if case.reach == "prefix" else {})
        agree(high, common.run(theirs, masked), mask)
        return 1
    return 0


def written(config):
    fields = common.written(config) | {"is_decoder": config.is_decoder}
    fields.pop("_attn_implementation_autoset", None)
    return dict(sorted(fields.items()))


def make_case(case, tensors):
    model = build(case.head, case.config)
    inputs = make_inputs(case, model.config)
    low = run(model, inputs, case)
    high = run(model.double(), inputs, case)
    outputs = measure(low, high, inputs["attention_mask"])
    checked = check(case, inputs, model, high)
    tensors |= {f"{case.name}.{part}": value.contiguous().clone() for part, value in high.items()}
    lists = {name: None if value is None else value.tolist() for name, value in inputs.items()}
    row = {
        "name": case.name,
        "variant": case.variant,
        "reach": case.reach,
        "head": f"RoFormer{case.head}",
        "config": written(model.config),
        "batch": case.batch,
        "choices": case.choices,
        "length": case.length,
        "ids": lists["input_ids"],
        "token_types": lists["token_type_ids"],
        "mask": lists["attention_mask"],
        "steps": case.prefill and {"prefill": case.prefill},
        "outputs": outputs,
    }
    return row, checked


# --------------------------------------------------------------------- generation


def joined(source, tokens, reach):
    """The inputs for a text and its continuation."""
    ids = torch.tensor([source + tokens])
    types = (torch.arange(ids.shape[1]) >= len(source)).long()[None]
    return {"input_ids": ids, "token_type_ids": types if reach == "prefix" else None, "attention_mask": None}


def greedy(model, source, count, reach):
    tokens = []
    for _ in range(count):
        logits = stepped(model, joined(source, tokens, reach), reach, len(source))["logits"]
        tokens.append(logits[0, -1].argmax().item())
    return tokens


def make_greedy(name, source, count):
    case = next(case for case in configs.CASES if case.name == name)
    model = build(case.head, case.config)
    tokens = greedy(model, source, count, case.reach)
    assert tokens == greedy(model.double(), source, count, case.reach)
    logits = once(model, joined(source, tokens, case.reach), case.reach)["logits"][0, len(source) - 1 : -1]
    assert logits.argmax(-1).tolist() == tokens
    best = logits.topk(2).values
    return {
        "name": f"{name}-greedy",
        "variant": case.variant,
        "reach": case.reach,
        "head": f"RoFormer{case.head}",
        "config": written(model.config),
        "source": source,
        "continuation": tokens,
        "margin": (best[:, 0] - best[:, 1]).min().item(),
    }


# ------------------------------------------------------------------- model files


def save(name, head, fields):
    """A folder as the package saves it, with the files that published models have."""
    model = build(head, fields)
    path = common.folder(name)
    model.save_pretrained(path, safe_serialization=False)
    (path / "generation_config.json").unlink(missing_ok=True)
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "pytorch_model.bin"]
    return model


def load(name, head, **fields):
    model = getattr(modeling, f"RoFormer{head}").from_pretrained(OUT / name, **fields).eval()
    common.check_table(model.base_model.encoder.embed_positions.weight)
    return model


def make_file(name, head, fields, pad, tensors):
    model = save(name, head, fields)
    inputs = make_inputs(configs.Case(name, head, fields, configs.TINY_LENGTH, 2, pad=pad, variant=""), model.config)
    row = {"dir": name, "ids": inputs["input_ids"].tolist(), "mask": pad and inputs["attention_mask"].tolist()}
    want = once(model.double(), inputs, "all")
    own = {}
    if head == roformer_configs.CAUSAL:
        # Published files do not say how to pool.
        path = OUT / name / "config.json"
        config = json.loads(path.read_text())
        own = {"pooler_activation": config.pop("pooler_activation")}
        assert "is_decoder" not in config
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    loaded = load(name, head, **own)
    low, high = once(loaded, inputs, "all"), once(loaded.double(), inputs, "all")
    agree(want, high, None)
    del low["last_hidden_state"], high["last_hidden_state"]
    if own:
        loaded = load(name, head)
        assert loaded.config.pooler_activation == "tanh"
        low["pooler_output_tanh"] = once(loaded, inputs, "all")["pooler_output"]
        high["pooler_output_tanh"] = once(loaded.double(), inputs, "all")["pooler_output"]
        assert torch.equal(high["pooler_output_tanh"], high["pooler_output"].tanh())
    outputs = {}
    for part, value in high.items():
        row[part] = f"{name}.{part}"
        tensors[row[part]] = value.contiguous().clone()
        outputs |= common.measure(low, {part: value}, inputs["attention_mask"] if part == "logits" else None)
    return row | {"outputs": outputs}


def main():
    transformers.logging.set_verbosity_error()
    logging.getLogger("roformer").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="The `device` argument is deprecated")
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases, checked = zip(*(make_case(case, tensors) for case in configs.CASES))
    names = Counter(case["name"] for case in cases)
    assert max(names.values()) == 1, names.most_common(1)
    continued = [make_greedy(*row) for row in configs.GREEDY]
    files = [
        make_file("tiny-v2", roformer_configs.MLM, configs.TINY_V2, None, tensors),
        make_file("tiny-sim", roformer_configs.CAUSAL, configs.TINY_SIM, "right", tensors),
    ]
    parts = [",\n".join(map(common.line, rows)) for rows in (cases, continued, files)]
    (OUT / "cases.json").write_text('{{"cases":[\n{}\n],"greedy":[\n{}\n],"files":[\n{}\n]}}\n'.format(*parts))
    (OUT / "outputs.safetensors").write_bytes(safetensors.torch.save(tensors))
    print(f"{len(cases)} cases, {dict(Counter(case['variant'] for case in cases))}")
    print(f"{sum(checked)} of them are the same with transformers {transformers.__version__}")
    worst = max((row["deviation"] / row["largest"], case["name"]) for case in cases for row in case["outputs"].values())
    print(f"f32 within {worst[0]:.1e} of f64 ({worst[1]})")
    for row in continued:
        print(row["name"], row["continuation"], f"margin {row['margin']:.2g}")
    # The manifest's own versions are those of the other scripts.
    kept = json.loads((OUT.parent / "manifest.json").read_text())
    del kept["files"]
    own = {"roformer": version("roformer"), "transformers": transformers.__version__}
    manifest.update("variants", **kept | {"variants": own})


if __name__ == "__main__":
    main()
