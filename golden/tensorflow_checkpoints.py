"""Makes small checkpoints of TensorFlow, and the same weights as safetensors, in `tensorflow/`.

    pip install -r golden/requirements-tensorflow.txt
    python golden/tensorflow_checkpoints.py

The checkpoints are laid out and named as the releases of RoFormer, RoFormerV2, RoFormer-Sim and BERT are: variables of
bert4keras in `bert_model.ckpt`, sizes in `bert_config.json`, tokens in `vocab.txt`. `converted/` in each folder has what a
reader should make of them. Files are written by TensorFlow, once by each of the ways that it has for it, and read again by it.
`outputs.safetensors` has what the models give, computed by TensorFlow in f64 from the variables as they are in the checkpoint.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

HERE = Path(__file__).resolve().parent
OUT = HERE / "tensorflow"
CHECKPOINT = "bert_model.ckpt"

WIDTH, HEADS, LAYERS, WIDE = 16, 2, 2, 32
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"今天气很好北京上海是的中国人我你他们在有大小不了"]

IDS = [[2, 7, 4, 9, 3], [2, 5, 28, 1, 3]]
TYPES = [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]

SIZES = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": WIDTH,
    "initializer_range": 0.02,
    "intermediate_size": WIDE,
    "max_position_embeddings": 512,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "type_vocab_size": 2,
    "vocab_size": len(TOKENS),
}


class Weights:
    """Variables of TensorFlow and tensors of transformers, side by side."""

    def __init__(self, seed, has_parts=True):
        self.random = np.random.default_rng(seed)
        self.has_parts = has_parts  # biases and norms
        self.variables, self.tensors = {}, {}

    def numbers(self, *shape):
        return (self.random.standard_normal(shape) / 4).astype(np.float32)

    def add(self, variable, tensor, numbers, transpose=False):
        self.variables[variable] = numbers
        self.tensors[tensor] = np.ascontiguousarray(numbers.T if transpose else numbers)

    def product(self, variable, tensor, inputs, outputs, has_bias=None):
        self.add(f"{variable}/kernel", f"{tensor}.weight", self.numbers(inputs, outputs), transpose=True)
        if self.has_parts if has_bias is None else has_bias:
            self.add(f"{variable}/bias", f"{tensor}.bias", self.numbers(outputs))

    def norm(self, variable, tensor, width):
        if self.has_parts:
            self.add(f"{variable}/gamma", f"{tensor}.weight", 1 + self.numbers(width))
            self.add(f"{variable}/beta", f"{tensor}.bias", self.numbers(width))


def model(seed, family, embedding=WIDTH, has_parts=True, has_pooler=False, positions=0):
    """The variables that `variable_mapping` of bert4keras lists, for a model with the head that it was trained with."""
    made = Weights(seed, has_parts)
    for name, rows in [("word", len(TOKENS)), ("token_type", 2), ("position", positions)]:
        if rows:
            variable, tensor = f"bert/embeddings/{name}_embeddings", f"{family}.embeddings.{name}_embeddings.weight"
            made.add(variable, tensor, made.numbers(rows, embedding))
    made.norm("bert/embeddings/LayerNorm", f"{family}.embeddings.LayerNorm", embedding)
    if embedding != WIDTH:
        made.product("bert/encoder/embedding_hidden_mapping_in", f"{family}.embeddings_project", embedding, WIDTH)
    for layer in range(LAYERS):
        variable, tensor = f"bert/encoder/layer_{layer}", f"{family}.encoder.layer.{layer}"
        for part in ["query", "key", "value"]:
            made.product(f"{variable}/attention/self/{part}", f"{tensor}.attention.self.{part}", WIDTH, WIDTH)
        made.product(f"{variable}/attention/output/dense", f"{tensor}.attention.output.dense", WIDTH, WIDTH)
        made.norm(f"{variable}/attention/output/LayerNorm", f"{tensor}.attention.output.LayerNorm", WIDTH)
        made.product(f"{variable}/intermediate/dense", f"{tensor}.intermediate.dense", WIDTH, WIDE)
        made.product(f"{variable}/output/dense", f"{tensor}.output.dense", WIDE, WIDTH)
        made.norm(f"{variable}/output/LayerNorm", f"{tensor}.output.LayerNorm", WIDTH)
    if has_pooler:
        made.product("bert/pooler/dense", f"{family}.pooler.dense", WIDTH, WIDTH)
    if has_parts:
        made.product("cls/predictions/transform/dense", "cls.predictions.transform.dense", WIDTH, embedding)
        made.norm("cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm", embedding)
        made.add("cls/predictions/output_bias", "cls.predictions.bias", made.numbers(len(TOKENS)))
    return made


def of_training(made):
    """What training leaves in a checkpoint: here the optimizer's numbers for vectors alone, to keep it small."""
    slots = {}
    for name, numbers in made.variables.items():
        if numbers.ndim == 1:
            slots[f"{name}/adam_m"], slots[f"{name}/adam_v"] = made.numbers(*numbers.shape), made.numbers(*numbers.shape) ** 2
    slots["global_step"] = np.int64(1000)
    slots["cls/seq_relationship/output_weights"] = made.numbers(2, WIDTH)
    slots["cls/seq_relationship/output_bias"] = made.numbers(2)
    return slots


def by_saver(prefix, variables):
    """As a session saves variables; this is what bert4keras does."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, numbers in variables.items():
            tf.compat.v1.get_variable(name, initializer=numbers, use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(prefix), write_meta_graph=False)


def by_operation(prefix, variables, slices=None):
    """As the operation behind it does, where no graph is."""
    names = list(variables)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=slices or [""] * len(names),
        tensors=[tf.constant(numbers) for numbers in variables.values()],
    )


def in_two_files(prefix, variables):
    """As a training on several machines does: each writes its own, and one joins the tables."""
    names, parts = sorted(variables), []
    for part in range(2):
        parts.append(f"{prefix}_part{part}")
        by_operation(parts[-1], {name: variables[name] for name in names[part::2]})
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(prefix), delete_old_dirs=False)


def check(prefix, variables):
    """That TensorFlow reads what was written."""
    reader = tf.train.load_checkpoint(str(prefix))
    assert set(reader.get_variable_to_shape_map()) == set(variables)
    for name, numbers in variables.items():
        assert np.array_equal(np.asarray(reader.get_tensor(name)), np.asarray(numbers)), name


def norm(x, variables, name):
    """A layer norm, or RoFormerV2's, which has no parameters."""
    if f"{name}/gamma" not in variables:
        return x / tf.sqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-12)
    x = x - tf.reduce_mean(x, -1, keepdims=True)
    x = x / tf.sqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-12)
    return x * variables[f"{name}/gamma"] + variables[f"{name}/beta"]


def dense(x, variables, name):
    """Keras's Dense: its kernel is `[inputs, outputs]`."""
    return x @ variables[f"{name}/kernel"] + variables.get(f"{name}/bias", 0)


def rotated(x):
    """Features 2j and 2j + 1 turned by position / 10000^(2j/d); x is `[batch, heads, length, d]`."""
    length, width = x.shape[2:]
    angles = np.arange(length)[:, None] * 10000.0 ** (-2 * np.arange(width // 2) / width)
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[..., ::2], x[..., 1::2]
    turned = tf.stack([even * cos - odd * sin, odd * cos + even * sin], -1)
    return tf.reshape(turned, x.shape)


def hidden_states(variables, activation):
    """The last layer's output for `IDS` and `TYPES`, in f64: the layers of bert4keras, written out."""
    variables = {name: tf.constant(numbers, tf.float64) for name, numbers in variables.items() if np.ndim(numbers)}
    table = variables.get("bert/embeddings/position_embeddings")
    x = tf.gather(variables["bert/embeddings/word_embeddings"], IDS)
    x += tf.gather(variables["bert/embeddings/token_type_embeddings"], TYPES)
    x = norm(x if table is None else x + table[: len(IDS[0])], variables, "bert/embeddings/LayerNorm")
    if "bert/encoder/embedding_hidden_mapping_in/kernel" in variables:
        x = dense(x, variables, "bert/encoder/embedding_hidden_mapping_in")
    for layer in range(LAYERS):
        name = f"bert/encoder/layer_{layer}"
        shape = [len(IDS), len(IDS[0]), HEADS, WIDTH // HEADS]
        q, k, v = (
            tf.transpose(tf.reshape(dense(x, variables, f"{name}/attention/self/{part}"), shape), [0, 2, 1, 3])
            for part in ["query", "key", "value"]
        )
        if table is None:
            q, k = rotated(q), rotated(k)
        weights = tf.nn.softmax(q @ tf.transpose(k, [0, 1, 3, 2]) / shape[-1] ** 0.5)
        heads = tf.reshape(tf.transpose(weights @ v, [0, 2, 1, 3]), x.shape)
        x = norm(x + dense(heads, variables, f"{name}/attention/output/dense"), variables, f"{name}/attention/output/LayerNorm")
        wide = activation(dense(x, variables, f"{name}/intermediate/dense"))
        x = norm(x + dense(wide, variables, f"{name}/output/dense"), variables, f"{name}/output/LayerNorm")
    return x.numpy()


def write(name, save, made, extras=None, config=None, expected=None):
    folder = OUT / name
    (folder / "converted").mkdir(parents=True)
    variables = made.variables | (extras or {})
    save(folder / CHECKPOINT, variables)
    check(folder / CHECKPOINT, variables)
    config = SIZES | (config or {})
    (folder / "bert_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    safetensors.numpy.save_file(made.tensors, folder / "converted" / "model.safetensors", {"format": "pt"})
    (folder / "converted" / "config.json").write_text(json.dumps(config | expected, indent=2) + "\n")
    activation = {"gelu": lambda x: tf.nn.gelu(x, approximate=False), "relu": tf.nn.relu}[config["hidden_act"]]
    return {f"{name}.last_hidden_state": hidden_states(made.variables, activation)}


def write_types():
    """One variable of each type, and a text."""
    kinds = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"]
    kinds += ["uint8", "uint16", "uint32", "uint64", "bool"]
    folder = OUT / "types"
    folder.mkdir(parents=True)
    variables = {kind: tf.cast(tf.constant([[0, 1, 2], [3, 4, 5]]), getattr(tf, kind)) for kind in kinds}
    variables |= {"scalar": tf.constant(0.5), "empty": tf.zeros([3, 0]), "text": tf.constant([b"some", b"words"])}
    by_operation(folder / CHECKPOINT, variables)


def write_partitioned():
    """A variable that is cut into two."""
    folder = OUT / "partitioned"
    folder.mkdir(parents=True)
    numbers = np.arange(12, dtype=np.float32).reshape(4, 3)
    for part in range(2):
        rows = slice(2 * part, 2 * part + 2)
        by_operation(folder / f"part{part}", {"cut": numbers[rows]}, [f"4 3 {2 * part},2:-"])
    parts = [str(folder / f"part{part}") for part in range(2)]
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=str(folder / CHECKPOINT), delete_old_dirs=False
    )
    assert np.array_equal(tf.train.load_checkpoint(str(folder / CHECKPOINT)).get_tensor("cut"), numbers)


def update_manifest():
    path = HERE / "manifest.json"
    manifest = json.loads(path.read_text())
    files = {name: entry for name, entry in manifest["files"].items() if not name.startswith("tensorflow/")}
    for file in sorted(path for path in OUT.rglob("*") if path.is_file()):
        data = file.read_bytes()
        name = file.relative_to(HERE).as_posix()
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        print(f"{name}: {len(data)} bytes")
    manifest["tensorflow"] = {"tensorflow": tf.__version__, "numpy": np.__version__}
    manifest["files"] = dict(sorted(files.items()))
    path.write_text(json.dumps(manifest, indent=2) + "\n")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    outputs = {}
    first = model(1, "roformer", embedding=12)
    config = {"embedding_size": 12}
    roformer = {"model_type": "roformer", "architectures": ["RoFormerForMaskedLM"]}
    # The head for the next text is there, and so is what it is read from.
    first.product("bert/pooler/dense", "roformer.pooler.dense", WIDTH, WIDTH)
    pooler = {"add_pooling_layer": True, "pooler_activation": "tanh"}
    outputs |= write("roformer", by_saver, first, of_training(first), config, roformer | pooler)

    second = model(2, "roformer", has_parts=False)
    bare = {"norm_type": "rms_norm", "use_bias": False}
    outputs |= write("roformer-v2", by_operation, second, config={"hidden_act": "relu"}, expected=roformer | bare)

    sim = model(3, "roformer", has_pooler=True)
    pooler = {"add_pooling_layer": True, "pooler_activation": "linear"}
    expected = roformer | pooler | {"architectures": ["RoFormerForCausalLM"]}
    outputs |= write("roformer-sim", in_two_files, sim, expected=expected)

    bert = model(4, "bert", has_pooler=True, positions=24)
    config = {"max_position_embeddings": 24}
    outputs |= write("bert", by_saver, bert, of_training(bert), config, {"model_type": "bert", "architectures": ["BertForMaskedLM"]})

    safetensors.numpy.save_file(outputs, OUT / "outputs.safetensors")
    write_types()
    write_partitioned()
    # The name of the latest checkpoint, with the path of this machine.
    for file in OUT.rglob("checkpoint"):
        file.unlink()
    update_manifest()


if __name__ == "__main__":
    main()
