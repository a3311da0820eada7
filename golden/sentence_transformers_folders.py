"""Folders of sentence-transformers, and what the library makes of them.

    python golden/sentence_transformers_folders.py
    python golden/sentence_transformers_folders.py --sweep target/release/roformer [--count 30]

Makes `sentence-transformers/`: small models with random weights, saved by
SentenceTransformer and CrossEncoder or, for forms that they no longer write,
by hand. `cases.json` lists calls of `encode` and `rank`, and
`outputs.safetensors` has their results. The folders are loaded again for that,
as a user would, and run in f64; the script stops where f32 differs by more
than 2e-6. The sweep saves random folders and compares what `roformer embed` and
`roformer rank` make of them.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from unittest import mock

import numpy
import safetensors.torch
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers import __version__ as version
from sentence_transformers.sentence_transformer import modules as models
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import BertTokenizer, PreTrainedTokenizerFast

import manifest
from families import with_random_weights

OUT = Path(__file__).resolve().parent / "sentence-transformers"
OLD = "sentence_transformers.models."

TEXTS = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "",
    "a",
    "the river and the sea",
    "Là-bas, l'été, ÉCOLE NAÏVE; İstanbul.",
    "今天天气很好，我们去公园散步。",
    "🦀 crab [MASK] [SEP] tail",
    "  many\tblanks \n here  ",
    "the sea " * 45,
    "query: the weather",
]
WORDS = """the weather is lovely today it so sunny outside he drove to stadium a river and sea many here query document
crab tail blank ##s ##y ##er ##ad ##ium l été ecole école naive naïve là bas la ete The He It ÉCOLE i ##stanbul""".split()
LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,;:!?'-今天气很好我们去公园散步，。"]


def vocabulary():
    pieces = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *pieces, *WORDS]
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def pieces_tokenizer(**options):
    return BertTokenizer(vocab=vocabulary(), **options)


def words_tokenizer(marks, template, **options):
    """Whole words; `marks` are the special tokens by role, `template` what stands around one text and around two."""
    words = [*LETTERS, *(word for word in WORDS if not word.startswith("##"))]
    tokens = dict.fromkeys([*marks.values(), *words])
    ids = {token: number for number, token in enumerate(tokens)}
    inner = Tokenizer(WordLevel(ids, unk_token=marks["unk_token"]))
    inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    single, pair = template
    special = [(token, ids[token]) for token in marks.values() if token in single]
    inner.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=inner, **marks, **options)


def roberta_tokenizer():
    marks = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    marks |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return words_tokenizer(marks, ("<s> $A </s>", "<s> $A </s> </s> $B </s>"), model_max_length=40)


def decoder_tokenizer():
    marks = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "<eos>"}
    return words_tokenizer(marks, ("$A <eos>", "$A $B <eos>"), padding_side="left")


def config(kind, tokenizer, layers=1, **fields):
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 40,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return getattr(transformers, f"{kind}Config")(**sizes | fields)


def transformer(name, kind, tokenizer, head="Model", **fields):
    """A folder with a model and its tokenizer, and nothing of sentence-transformers."""
    folder = OUT / ".parts" / name
    model = getattr(transformers, kind + head)(config(kind, tokenizer, **fields))
    with_random_weights(model, sum(name.encode())).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def random_dense(seed, inputs, outputs, activation, bias=True):
    torch.manual_seed(seed)
    dense = models.Dense(inputs, outputs, bias=bias, activation_function=activation)
    torch.nn.init.normal_(dense.linear.weight, std=inputs**-0.5)
    return dense


def saved(name, part, modules, is_safe=True, **options):
    inner = models.Transformer(str(part))
    model = SentenceTransformer(modules=[inner, *modules], device="cpu", **options)
    model.save_pretrained(str(OUT / name), create_model_card=False, safe_serialization=is_safe)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def flags(*active):
    """A pooling's configuration as it was written before version 6."""
    names = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    return {f"pooling_mode_{name}": name in active for name in names}


def make_folders():
    bert, prompts = pieces_tokenizer(), {"query": "query: ", "passage": "document: the "}
    part = transformer("mean", "Bert", bert, layers=2)
    saved("mean", part, [models.Pooling(32, "mean"), models.Normalize()])

    dense = random_dense(2, 32, 20, torch.nn.Tanh())
    saved("cls-dense", transformer("cls", "Bert", bert), [models.Pooling(32, "cls"), dense])

    denses = [random_dense(3, 32, 24, torch.nn.Identity(), bias=False), random_dense(4, 24, 16, torch.nn.GELU())]
    part = transformer("max", "Roberta", roberta_tokenizer(), type_vocab_size=1, max_position_embeddings=42)
    saved("max-two-dense", part, [models.Pooling(32, "max"), *denses], similarity_fn_name="dot")

    # The names of the modules and of the pooling are those of older versions; so is the type of the files of Dense.
    part = transformer("all", "Bert", bert)
    denses = [random_dense(5, 192, 24, torch.nn.ReLU()), random_dense(6, 24, 24, torch.nn.Sigmoid(), bias=False)]
    saved("all-poolings", part, [models.Pooling(32, "mean"), *denses, models.Normalize()], is_safe=False)
    every = flags("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    write(OUT / "all-poolings/1_Pooling/config.json", {"word_embedding_dimension": 32} | every)
    kinds = ["Transformer", "Pooling", "Dense", "Dense", "Normalize"]
    paths = ["", "1_Pooling", "2_Dense", "3_Dense", "4_Normalize"]
    rows = [{"idx": n, "name": str(n), "path": path, "type": OLD + kind} for n, (path, kind) in enumerate(zip(paths, kinds))]
    write(OUT / "all-poolings/modules.json", rows)
    shutil.rmtree(OUT / "all-poolings/4_Normalize", ignore_errors=True)
    save_as_bin(OUT / "all-poolings")

    part = transformer("prompts", "Bert", bert)
    pooling = models.Pooling(32, "mean", include_prompt=False)
    saved("prompts", part, [pooling], prompts=prompts, default_prompt_name="passage", similarity_fn_name="manhattan")

    part = transformer("weighted", "Bert", bert)
    pooling = models.Pooling(32, ("weightedmean", "cls", "lasttoken"), include_prompt=False)
    prompts = {"query": "query: ", "document": "document: the "}
    saved("weighted-prompts", part, [pooling], prompts=prompts, similarity_fn_name="euclidean")

    # Letters are kept by the tokenizer and made small by sentence_bert_config.json.
    part = transformer("short", "Bert", pieces_tokenizer(do_lower_case=False))
    saved("short", part, [models.Pooling(32, "mean_sqrt_len_tokens")], truncate_dim=24)
    write(OUT / "short/sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": True})

    part = transformer("last", "Qwen3", decoder_tokenizer(), head_dim=8, num_key_value_heads=2)
    saved("last-left", part, [models.Pooling(32, "lasttoken"), models.Normalize()], prompts={"query": "the query: "})

    # As versions before 2 wrote it: the transformer in a folder of its own, and no config_sentence_transformers.json.
    part = transformer("old", "XLMRoberta", roberta_tokenizer(), type_vocab_size=1, max_position_embeddings=42)
    shutil.copytree(part, OUT / "old-form/0_Transformer")
    save_as_bin(OUT / "old-form/0_Transformer")
    write(OUT / "old-form/0_Transformer/sentence_xlm-roberta_config.json", {"max_seq_length": 30, "do_lower_case": True})
    write(OUT / "old-form/1_Pooling/config.json", {"word_embedding_dimension": 32} | flags("cls_token", "max_tokens"))
    rows = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    rows = [{"idx": n, "name": str(n), "path": path, "type": OLD + kind} for n, (path, kind) in enumerate(rows)]
    write(OUT / "old-form/modules.json", rows)

    part = transformer("cross", "Bert", bert, "ForSequenceClassification", num_labels=1)
    cross = CrossEncoder(str(part), device="cpu", prompts={"judge": "document: "}, default_prompt_name="judge")
    cross.save_pretrained(str(OUT / "cross-encoder"))

    # As versions before 4 wrote it: nothing beside the model, and the activation in its config.json.
    part = transformer("pairs", "Roberta", roberta_tokenizer(), "ForSequenceClassification", num_labels=1, type_vocab_size=1, max_position_embeddings=42)
    shutil.copytree(part, OUT / "cross-encoder-old")
    path = OUT / "cross-encoder-old/config.json"
    extra = {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
    write(path, json.loads(path.read_text()) | extra)


def save_as_bin(folder):
    """The weights of a transformer as PyTorch's file."""
    torch.save(safetensors.torch.load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def tidy():
    """Leaves out what is not read, and versions, which would differ from machine to machine."""
    shutil.rmtree(OUT / ".parts")
    for name in ["README.md", "special_tokens_map.json"]:
        for path in OUT.rglob(name):
            path.unlink()
    for path in OUT.rglob("config_sentence_transformers.json"):
        fields = json.loads(path.read_text())
        fields.pop("__version__", None)
        if path.parent.name == "prompts":
            # Older versions wrote no empty prompts.
            fields["prompts"] = {name: prompt for name, prompt in fields["prompts"].items() if prompt}
        write(path, fields)


# --------------------------------------------------------------------- results


def wide(model, work):
    with mock.patch.object(torch, "float32", torch.float64), torch.no_grad():
        return work(model.double())


def calls(folder):
    """What is asked of a folder: the method, and its arguments."""
    yield "encode", {}
    yield "encode_query", {}
    yield "encode_document", {}
    yield "encode", {"prompt": "the sea "}
    yield "encode", {"truncate_dim": 7, "normalize_embeddings": True}
    if "prompts" in folder:
        yield "encode", {"prompt_name": "query"}


def encoded(folder, tensors):
    rows, worst = [], 0.0
    for number, (method, arguments) in enumerate(calls(folder)):
        results = []
        for is_wide in (False, True):
            model = SentenceTransformer(str(OUT / folder), device="cpu")
            work = lambda model: getattr(model, method)(TEXTS, convert_to_tensor=True, **arguments)
            results.append(wide(model, work) if is_wide else work(model))
        low, high = results
        assert high.dtype == torch.float64, (folder, method)
        worst = max(worst, (low.double() - high).abs().max().item())
        tensors[f"{folder}.{number}"] = high.contiguous()
        rows.append({"method": method, "arguments": arguments, "tensor": f"{folder}.{number}"})
    model = SentenceTransformer(str(OUT / folder), device="cpu")
    alike = lambda model: model.similarity(
        model.encode_query(TEXTS[:3], convert_to_tensor=True), model.encode_document(TEXTS, convert_to_tensor=True)
    )
    tensors[f"{folder}.similarity"] = wide(model, alike).contiguous()
    assert worst < 2e-6 * max(1, tensors[f"{folder}.0"].abs().max().item()), (folder, worst)
    print(f"{folder}: f32 within {worst:.1e} of f64")
    entry = {"folder": folder, "calls": rows, "similarity": model.similarity_fn_name, "prompts": model.prompts}
    return entry | {"longest": model.get_max_seq_length()}


def ranked(folder):
    rows = []
    for query in TEXTS[:3] + TEXTS[9:11]:
        for arguments in ({}, {"prompt": "the sea "}):
            orders = []
            for is_wide in (False, True):
                model = CrossEncoder(str(OUT / folder), device="cpu")
                work = lambda model: model.rank(query, TEXTS, **arguments)
                orders.append(wide(model, work) if is_wide else work(model))
            low, high = orders
            assert [row["corpus_id"] for row in low] == [row["corpus_id"] for row in high], folder
            order = [[row["corpus_id"], row["score"]] for row in high]
            rows.append({"query": query, "arguments": arguments, "order": order})
    return {"folder": folder, "ranked": rows}


# ----------------------------------------------------------------------- sweep


def random_texts(random):
    parts = [*WORDS, *LETTERS, *TEXTS[:9], " ", " ", " ", "[MASK]", "É", "ß", "\u0130"]
    return [" ".join(random.choice(parts, random.integers(0, 20))) for _ in range(20)] + TEXTS


def draw(random, seed, folder):
    """A random folder, and what is asked of it."""
    kind = str(random.choice(["Bert", "Roberta", "XLMRoberta", "RoFormer", "Llama", "Qwen3"]))
    is_small = bool(random.integers(2))
    tokenizer, fields = pieces_tokenizer(do_lower_case=is_small), {}
    if "Roberta" in kind:
        tokenizer, fields = roberta_tokenizer(), {"type_vocab_size": 1, "max_position_embeddings": 42}
    if kind in ("Llama", "Qwen3"):
        tokenizer, fields = decoder_tokenizer(), {"head_dim": 8, "num_key_value_heads": 2}
        tokenizer.padding_side = str(random.choice(["left", "right"]))
    if kind == "RoFormer":
        fields["embedding_size"] = 32
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}Model")(config(kind, tokenizer, **fields))
    # RoFormer's table of positions is no parameter.
    tables = {name: table.clone() for name, table in model.state_dict().items() if "embed_positions" in name}
    with_random_weights(model, seed).load_state_dict(tables, strict=False)
    model.save_pretrained(folder / "part")
    tokenizer.save_pretrained(folder / "part")

    modes = list(models.Pooling.POOLING_MODES)
    chosen = [str(mode) for mode in random.choice(modes, random.integers(1, 4))]
    pooling = models.Pooling(32, chosen, include_prompt=bool(random.integers(2)))
    modules, width = [models.Transformer(str(folder / "part")), pooling], 32 * len(chosen)
    for _ in range(random.integers(0, 3)):
        activation = random.choice([torch.nn.Tanh, torch.nn.Identity, torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU])()
        modules.append(random_dense(seed, width, 24, activation, bias=bool(random.integers(2))))
        width = 24
    if random.integers(2):
        modules.insert(int(random.integers(2, len(modules) + 1)), models.Normalize())
    prompts = {"query": "query: ", "document": "the sea: ", "other": str(random.choice(WORDS))}
    default = str(random.choice(["query", "other", ""])) or None
    alike = str(random.choice(["cosine", "dot", "euclidean", "manhattan"]))
    options = {"prompts": prompts, "default_prompt_name": default, "similarity_fn_name": alike}
    SentenceTransformer(modules=modules, device="cpu", **options).save_pretrained(
        str(folder / "saved"), create_model_card=False, safe_serialization=bool(random.integers(2))
    )
    if random.integers(2):
        small = {"max_seq_length": int(random.integers(4, 30)), "do_lower_case": bool(random.integers(2))}
        write(folder / "saved/sentence_bert_config.json", small)
    return f"{kind} {chosen} {len(modules)} modules"


def asked(binary, folder, command, texts, *arguments):
    # Lines of JSON: a text may hold a break.
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    command = [binary, command, "--model", str(folder), "--json", "--jsonl", "--input", "-", *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def sweep(arguments):
    worst, count = (0.0, ""), 0
    for seed in range(arguments.count):
        random = numpy.random.default_rng(seed)
        texts = random_texts(random)
        with tempfile.TemporaryDirectory() as name:
            what, folder = draw(random, seed, Path(name)), Path(name) / "saved"
            model = SentenceTransformer(str(folder), device="cpu")
            cases = [({}, []), ({"prompt_name": "other"}, ["--prompt-name", "other"]), ({"prompt": "a sea "}, ["--prompt", "a sea "])]
            cases.append(({"truncate_dim": 5, "normalize_embeddings": True}, ["--dimensions", "5", "--normalize"]))
            for options, flags in cases:
                wanted = model.encode(texts, **options)
                given = asked(arguments.sweep, folder, "embed", texts, *flags)
                got = numpy.array([row["embedding"] for row in given])
                error = float((abs(got - wanted) / numpy.maximum(1, abs(wanted))).max())
                worst, count = max(worst, (error, f"{seed}: {what} {options}")), count + len(texts)
            query = texts[0]
            scores = model.similarity(model.encode_query([query]), model.encode_document(texts))[0]
            rows = asked(arguments.sweep, folder, "rank", texts, "--top-k", str(len(texts)), query)
            got = {row["line"] - 1: row["score"] for row in rows}
            error = max(abs(got[n] - score) / max(1, abs(score)) for n, score in enumerate(scores.tolist()))
            worst = max(worst, (error, f"{seed}: {what} rank"))
        print(f"{seed}: {what}: worst so far {worst[0]:.1e}", flush=True)
    print(f"{count} vectors of {arguments.count} folders, the worst off by {worst[0]:.1e} ({worst[1]})")
    assert worst[0] < 1e-5, worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", metavar="BINARY")
    parser.add_argument("--count", type=int, default=30)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if arguments.sweep:
        return sweep(arguments)
    shutil.rmtree(OUT, ignore_errors=True)
    make_folders()
    tidy()
    folders = sorted(path.name for path in OUT.iterdir() if path.is_dir())
    tensors = {}
    vectors = [encoded(folder, tensors) for folder in folders if not folder.startswith("cross")]
    pairs = [ranked(folder) for folder in folders if folder.startswith("cross")]
    write(OUT / "cases.json", {"texts": TEXTS, "vectors": vectors, "pairs": pairs})
    safetensors.torch.save_file(tensors, OUT / "outputs.safetensors")
    manifest.update("sentence-transformers", sentence_transformers=version)


if __name__ == "__main__":
    main()
