"""Reference values of model families.

    python golden/families.py                        makes the data in `families/`
    python golden/families.py --sweep target/release/roformer [--count 30] [FAMILY ...]
    python golden/families.py --hand-over target/release/roformer [FAMILY ...]

The cases are those of `families_configs.py`. The data are the outputs of
transformers' classes, run in f64 and in f32, with weights from an integer hash
of their names, so that they are not stored. The sweep saves random models with
`save_pretrained`, as safetensors and as PyTorch files, and compares what
`roformer forward` makes of the folders. The last trains a small model of each
family for three steps with `roformer train`, loads what that hands over in
transformers, where no tensor may be missing or left over, and compares both.
"""

import argparse
import contextlib
import copy
import dataclasses
import json
import subprocess
import tempfile
from pathlib import Path
from unittest import mock

import numpy
import safetensors.torch
import tokenizers
import torch
import transformers
import transformers.models.deberta_v2.modeling_deberta_v2 as deberta
from transformers.models.t5.modeling_t5 import T5Attention

import families_configs as configs
import manifest
from roformer import collect, fnv1a, hashed, line, measure, padding, real

OUT = Path(__file__).resolve().parent / "families"
# By how much f32 may deviate from f64 at most, as a part of the largest number: norms of heads of two features magnify.
MOST = 1e-4
# A target that counts for nothing.
IGNORED = 2**32 - 1
# Cases of each family that are stored.
STORED = 6


def build(case):
    """The model, in f32, with weights that are torch's own."""
    config = getattr(transformers, configs.CONFIGS.get(case.family, f"{case.family}Config"))(**case.config)
    config._attn_implementation = "eager"
    model = getattr(transformers, configs.class_of(case.family, case.head))(config).eval()
    return untied(model) if is_untied(case) else model


def is_untied(case):
    return case.head == "ForConditionalGeneration" and case.config.get("tie_word_embeddings") is False


def stored(model):
    """The tensors of a model under the names that it is saved with, which are not always those of its modules."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return safetensors.torch.load_file(Path(folder) / "model.safetensors")


def untied(model):
    """An output of its own, as files of T5's version 1.1 have it; the class ties it until a file has another."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def prefix(model, case):
    """What a model with a head has before the names of a bare one."""
    is_bare = case.head.endswith("Model") and "LM" not in case.head or case.head == "ForConditionalGeneration"
    return f"{model.base_model_prefix}." if is_bare else ""


def canonical(name):
    """The name of a tensor, where a class has two for the same."""
    head = "lm_predictions.lm_head."
    if not name.startswith(head):
        return name
    part = name.removeprefix(head)
    return "cls.predictions." + (part if part == "bias" else f"transform.{part}")


def with_hashed_weights(model, case):
    before, tensors = prefix(model, case), {}
    for name, tensor in stored(model).items():
        # Gemma's weights of norms are kept less 1.
        less = 1 if "Gemma" in case.family and name.endswith("norm.weight") else 0
        tensors[name] = torch.from_numpy(hashed(before + canonical(name), tensor.shape)).float() - less
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        safetensors.torch.save_file(tensors, Path(folder) / "model.safetensors", {"format": "pt"})
        return type(model).from_pretrained(folder, attn_implementation="eager").eval()


def with_random_weights(model, seed):
    """Weights far from those at first, so that everything shows: norms near 1, all else of size about 1/√inputs."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                inputs = 1 if "embed" in name else parameter.shape[-1]
                parameter.normal_(0, 0.7 * inputs**-0.5)
            else:
                # Gemma's weights are those of norms less 1.
                is_norm = "norm" in name.lower() and name.endswith("weight") and "Gemma" not in type(model).__name__
                parameter.normal_(1.0 if is_norm else 0.0, 0.2)
    return model


def make_inputs(case, config):
    random = numpy.random.default_rng(fnv1a(case.name))
    rows = (case.batch,) if case.choices is None else (case.batch, case.choices)
    ids = torch.from_numpy(random.integers(0, config.vocab_size, (*rows, case.length)))
    # A padding token within a text would be counted as none by the classes that count.
    pad = config.pad_token_id if config.pad_token_id is not None else 0
    ids[ids == pad] = (pad + 1) % config.vocab_size
    inputs = {"input_ids": ids}
    if case.family == "T5" and case.head in configs.T5_WRITERS:
        written = random.integers(0, config.vocab_size, (*rows, int(random.integers(1, 12))))
        inputs["decoder_input_ids"] = torch.from_numpy(written)
    if case.types:
        # XLNet only compares them.
        kinds = getattr(config, "type_vocab_size", 3)
        inputs["token_type_ids"] = torch.from_numpy(random.integers(0, kinds, ids.shape))
    if case.pad:
        mask = padding(rows, case.length, case.pad)
        inputs |= {"input_ids": torch.where(mask == 1, ids, pad), "attention_mask": mask}
    return inputs


def run(model, inputs):
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    pooled = out.get("pooler_output")
    if "encoder_last_hidden_state" in out:
        parts = {"last_hidden_state": out.decoder_hidden_states[-1], "logits": out.get("logits")}
        parts["encoder_last_hidden_state"] = out.encoder_last_hidden_state
        return {name: value for name, value in parts.items() if value is not None}
    return collect(out) | ({} if pooled is None else {"pooler_output": pooled})


@contextlib.contextmanager
def wide():
    """Whatever a class does in f32 is done in f64."""
    names = [mock.patch.object(torch, name, torch.float64) for name in ("float32", "float")]
    # Compiled, DeBERTa's factor of scores is rounded to f32 whatever stands for it.
    root = lambda layer, count: torch.tensor(float(layer.size(-1) * count), dtype=torch.float64).sqrt()
    scale = mock.patch.object(deberta, "scaled_size_sqrt", root)
    with names[0], names[1], scale, mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        yield


def widened(model):
    """The same model in f64, frequencies and tables of positions too, which a model in f32 has rounded."""
    # Asked for, because within `wide` its name stands for f64.
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with wide():
            config = copy.deepcopy(model.config)
            config.dtype = torch.float64
            # XLNet asks for f32 whatever is said.
            twin = type(model)(config).eval().double()
            if hasattr(model, "lm_head") and hasattr(model, "shared") and model.lm_head.weight is not model.shared.weight:
                twin = untied(twin)
    finally:
        torch.set_default_dtype(usual)
    twin.load_state_dict(model.state_dict())
    return twin


def run_wide(model, inputs):
    """The same in f64, softmax and norms too."""
    twin = widened(model)
    with wide():
        return run(twin, inputs)


def measured(low, high, mask):
    """As `measure`; what has no padding apart."""
    whole = [name for name in low if rows_of(name, low, mask) is None]
    pooled = [{name: out[name] for name in whole} for out in (low, high)]
    rest = [{name: value for name, value in out.items() if name not in whole} for out in (low, high)]
    return measure(*rest, mask, MOST) | measure(*pooled, None, MOST)


def rows_of(name, out, mask):
    """The mask of an output: a pooled one has no padding, and with a decoder its encoder's alone has."""
    is_decoded = "encoder_last_hidden_state" in out and name != "encoder_last_hidden_state"
    return None if name == "pooler_output" or is_decoded else mask


def written(model, case):
    config = json.loads(model.config.to_json_string())
    config.pop("transformers_version", None)
    if is_untied(case):
        config["tie_word_embeddings"] = False
    return config | {"architectures": [type(model).__name__]}


def make_case(case, tensors):
    model = with_hashed_weights(build(case), case)
    config, inputs = written(model, case), make_inputs(case, model.config)
    low, high = run(model, inputs), run_wide(model, inputs)
    mask = inputs.get("attention_mask")
    outputs = measured(low, high, mask)
    tensors |= {f"{case.name}.{part}": value.contiguous().clone() for part, value in high.items()}
    return {
        "name": case.name,
        "config": config,
        "length": case.length,
        "ids": inputs["input_ids"].tolist(),
        "token_types": inputs["token_type_ids"].tolist() if case.types else None,
        "mask": None if mask is None else mask.tolist(),
        "outputs": outputs,
    } | ({"decoder_ids": inputs["decoder_input_ids"].tolist()} if "decoder_input_ids" in inputs else {})


# -------------------------------------------------------------------- gradients


def following(tokens):
    """What a causal model is to say at each place: the next token, and nothing at the last."""
    return torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], IGNORED)], dim=1)


def make_gradients(case, tensors):
    """The loss of one batch and its gradients, in f64, without dropout."""
    model = widened(with_hashed_weights(build(case), case))
    inputs = make_inputs(case, model.config)
    random = numpy.random.default_rng(fnv1a(case.name) + 1)
    more = {}
    if case.head == "ForConditionalGeneration":
        # The last text is shorter, and every token is told from those before it.
        targets = torch.from_numpy(random.integers(0, model.config.vocab_size, (case.batch, case.length)))
        targets[-1, case.length // 2 :] = -100
        inputs["decoder_input_ids"] = model._shift_right(targets)
        more = {"decoder_ids": inputs["decoder_input_ids"].tolist(), "mask": inputs["attention_mask"].tolist()}
    elif "ForSequence" in case.head:
        targets = torch.from_numpy(random.integers(0, model.config.num_labels, case.batch))
    else:
        most = model.config.vocab_size if "LM" in case.head else model.config.num_labels
        targets = torch.from_numpy(random.integers(0, most, (case.batch, case.length)))
    with wide():
        loss = model(**inputs, labels=targets).loss
    assert loss.dtype == torch.float64
    loss.backward()
    # In place of the numbers, so that gradients are saved under the names of their tensors.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.zeros(()) if parameter.grad is None else parameter.grad)
    is_causal = "LM" in case.head and not configs.is_masked(case.family, case.head)
    before = prefix(model, case)
    tensors |= {f"{case.name}.{before}{canonical(name)}": tensor for name, tensor in stored(model).items()}
    return {
        "name": case.name,
        "config": written(model, case),
        "batch": case.batch,
        "ids": inputs["input_ids"].tolist(),
        "token_types": inputs["token_type_ids"].tolist() if case.types else None,
        "targets": torch.where(targets == -100, IGNORED, following(targets) if is_causal else targets).tolist(),
        "loss": loss.item(),
    } | more


# ------------------------------------------------------------------------ files


def make_files():
    """Small models as transformers saves them."""
    for name, (family, head, config) in configs.FILES.items():
        case = configs.Case(name, family, head, config, batch=1, length=1, pad=None, types=False)
        with_hashed_weights(build(case), case).save_pretrained(OUT / name)


def t5_buckets():
    """T5's buckets of the distances to 200, by the place of the key less that of the query, as they are in f32."""
    rule, places = T5Attention._relative_position_bucket, torch.arange(-200, 201)
    for buckets, furthest in configs.BUCKETS:
        both, causal = (rule(places, is_both, buckets, furthest).tolist() for is_both in (True, False))
        yield {"buckets": buckets, "furthest": furthest, "both": both, "causal": causal}


def t5_texts():
    """What the small T5 writes, the likeliest token each time, and its tokenizer: a letter is a token."""
    letters = [chr(ord("a") + n) for n in range(configs.T5_SIZES["vocab_size"] - 3)]
    vocabulary = {token: n for n, token in enumerate(["<pad>", "</s>", "<unk>", *letters])}
    rule = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    rule.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    rule.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokens = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=rule, **tokens)
    tokenizer.save_pretrained(OUT / "tiny-t5")
    model = transformers.T5ForConditionalGeneration.from_pretrained(OUT / "tiny-t5").eval()
    for text in ["a b c", "d", "n m l k j i h", "e e e e", "f g a h"]:
        ids = tokenizer(text, return_tensors="pt").input_ids
        # Tokens that are no text are not chosen here either.
        chosen = model.generate(ids, do_sample=False, max_new_tokens=12, suppress_tokens=[0, 2], use_cache=False)
        yield {"text": text, "ids": ids[0].tolist(), "written": tokenizer.decode(chosen[0], skip_special_tokens=True)}


def make_t5():
    parts = {"buckets": t5_buckets(), "texts": t5_texts()}
    rows = [f'"{name}":[\n' + ",\n".join(map(line, part)) + "\n]" for name, part in parts.items()]
    (OUT / "t5.json").write_text("{" + ",\n".join(rows) + "}\n")


# ------------------------------------------------------------------------ sweep


def save(model, folder, is_bin):
    if not is_bin:
        return model.save_pretrained(folder)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    torch.save(stored(model), folder / "pytorch_model.bin")


def forward(binary, folder, inputs):
    """What `roformer forward --json` gives."""
    command = [binary, "forward", "--model", str(folder), "--json"]
    flags = {"input_ids": "--ids", "token_type_ids": "--token-types", "attention_mask": "--mask"}
    flags |= {"decoder_input_ids": "--decoder-ids"}
    for name, values in inputs.items():
        for row in values.reshape(-1, values.shape[-1]).tolist():
            command += [flags[name], ",".join(map(str, row))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def compare(case, model, given, inputs):
    """The largest difference of each output, as a part of what is allowed: twice the deviation of f32 from f64."""
    low, high = run(model, inputs), run_wide(model, inputs)
    parts, mask = {}, inputs.get("attention_mask")
    for name, row in measured(low, high, mask).items():
        if given.get(name) is None:
            assert name == "pooler_output", f"{case.name}: no {name}"
            continue
        got = torch.tensor(given[name], dtype=torch.float64).reshape(high[name].shape)
        rows = rows_of(name, high, mask)
        difference = (real(name, got, rows) - real(name, high[name], rows)).abs().max().item()
        parts[name] = difference / max(2 * row["deviation"], 5e-6 * row["largest"])
    return parts


def sweep(arguments):
    for family in arguments.families:
        worst, count = (0.0, ""), 0
        for number in range(arguments.count):
            case = configs.draw(family, 1000 + number)
            if case.choices is not None:
                case = dataclasses.replace(case, batch=1)
            model = with_random_weights(build(case), number)
            inputs = make_inputs(case, model.config)
            for is_bin in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    save(model, Path(folder), is_bin)
                    given = forward(arguments.sweep, folder, inputs)
                for name, part in compare(case, model, given, inputs).items():
                    worst, count = max(worst, (part, f"{case.name} {case.head} {name}")), count + 1
        print(f"{family}: {count} outputs, the worst at {worst[0]:.2f} of what is allowed ({worst[1]})")
        assert worst[0] <= 1, worst


# -------------------------------------------------------------------- hand-over


def caps(case):
    """How many soft caps a case has."""
    return sum("softcapping" in field and value is not None for field, value in case.config.items())


def hand_over(arguments):
    for family in arguments.families:
        drawn = (configs.draw(family, n) for n in range(100))
        # The first, or the first with soft caps where the family has them.
        written = ("LM", "ForConditionalGeneration")
        case = max((case for case in drawn if any(name in case.head for name in written)), key=caps, default=None)
        if case is None:
            continue
        config = json.loads(build(case).config.to_json_string()) | {"vocab_size": 300}
        is_masked, is_read = configs.is_masked(case.family, case.head), case.head == "ForConditionalGeneration"
        tokenizer = ["wordpiece", "--vocab-size", "200"] if is_masked else ["characters"]
        task = "sequences" if is_read else "masked" if is_masked else "causal"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config))
            data = Path("golden/README.md")
            if is_read:
                lines = [text for text in data.read_text().splitlines() if text]
                data = Path(folder, "pairs.jsonl")
                pairs = (json.dumps({"source": a, "target": b}) for a, b in zip(lines, lines[1:]))
                data.write_text("\n".join(pairs))
            command = [arguments.hand_over, "train", "--config", f"{folder}/config.json", "--data", str(data),
                       "--task", task, "--steps", "3", "--block", "20", "--batch", "4", "--tokenizer", *tokenizer,
                       "--out", f"{folder}/out"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)}: {done.stderr}")
            model, info = getattr(transformers, configs.class_of(case.family, case.head)).from_pretrained(
                f"{folder}/out/last", attn_implementation="eager", output_loading_info=True)
            assert not any(info.values()), info
            inputs = {"input_ids": torch.arange(5, 24).reshape(1, -1)}
            if is_read:
                inputs["decoder_input_ids"] = torch.arange(7, 19).reshape(1, -1)
            given = torch.tensor(forward(arguments.hand_over, f"{folder}/out/last", inputs)["logits"])
        with torch.no_grad():
            exact = model.eval()(**inputs).logits
        difference = (given.reshape(exact.shape) - exact).abs().max() / exact.abs().max()
        print(f"{family}: handed over, {difference:.1e} from what transformers makes of it")
        assert difference < 5e-6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", metavar="BINARY")
    parser.add_argument("--hand-over", metavar="BINARY")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("families", nargs="*", default=list(configs.FAMILIES))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if arguments.sweep:
        return sweep(arguments)
    if arguments.hand_over:
        return hand_over(arguments)
    OUT.mkdir(exist_ok=True)
    tensors = {}
    cases = [make_case(configs.draw(family, n), tensors) for family in configs.FAMILIES for n in range(STORED)]
    gradients = [make_gradients(case, tensors) for case in configs.gradient_cases()]
    parts = [",\n".join(map(line, rows)) for rows in (cases, gradients)]
    (OUT / "cases.json").write_text('{{"cases":[\n{}\n],"gradients":[\n{}\n]}}\n'.format(*parts))
    make_files()
    make_t5()
    (OUT / "outputs.safetensors").write_bytes(safetensors.torch.save(tensors))
    worst = max((row["deviation"] / row["largest"], case["name"]) for case in cases for row in case["outputs"].values())
    print(f"{len(cases)} cases; f32 within {worst[0]:.1e} of f64 ({worst[1]})")
    manifest.update("families")


if __name__ == "__main__":
    main()
