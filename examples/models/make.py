"""Makes the tiny models in this folder.

    python examples/models/make.py              # all of them
    python examples/models/make.py tiny-sim     # some of them

Each is trained from nothing on sentences of `corpus.py`, on one core, then read back from its
files and measured. See README.md for what the measurements mean.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from random import Random

import safetensors.torch
import torch
import transformers
from torch.nn import functional
from transformers.models.roformer import modeling_roformer as modeling

import corpus
from networks import paraphrase, sentence_vectors, sim_outputs, v2_logits, v2_weights
from tokens import CLS, MASK, PAD, SEP, SPECIAL, character_tokenizer, is_chinese, padded, word_tokenizer

OUT = Path(__file__).resolve().parent
IGNORED = -100
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 512}
# Without dropout they learn in fewer steps.
DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
HELD_OUT = 500


# ------------------------------------------------------------------------- files


def make_config(head, tokenizer, layers, **fields):
    config = transformers.RoFormerConfig(
        **SIZES, **DROPOUT, vocab_size=len(tokenizer), num_hidden_layers=layers, initializer_range=0.1, **fields
    )
    config.architectures = [f"RoFormer{head}"]
    config._attn_implementation = "eager"
    return config


def save(name, tensors, config, tokenizer):
    """The four files of a model. Weights are in f16."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # The table of positions is left out, as many checkpoints do: in f16 it would be rounded.
    kept = {
        key: value.detach().half().contiguous()
        for key, value in tensors.items()
        if "embed_positions" not in key and "predictions.decoder" not in key
    }
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(kept, {"format": "pt"}))
    fields = json.loads(config.to_json_string()) | {"dtype": "float16"}
    del fields["transformers_version"]
    text = json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", "utf-8")
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(word + "\n" for word, _ in words), "utf-8")
    settings = {"do_lower_case": True, "tokenizer_class": type(tokenizer).__name__}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def read_back(name, head):
    return getattr(modeling, f"RoFormer{head}").from_pretrained(OUT / name, dtype=torch.float32).eval()


# ---------------------------------------------------------------------- training


def cross_entropy(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def train(parameters, loss_of_batch, steps, rate):
    """AdamW with a short warm-up and a linear decay."""
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min((i + 1) / 50, 1) * (1 - i / steps))
    for step in range(steps):
        loss = loss_of_batch()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 200 == 0:
            print(f"    step {step + 1}, loss {loss.item():.4f}", flush=True)


def train_model(model, loss_of_batch, steps, rate):
    model.train()
    train(list(model.parameters()), loss_of_batch, steps, rate)
    model.eval()


def sampled(make, count):
    """Examples to train on, and examples that are not among them."""
    random = Random(count)
    seen, held = [make(random) for _ in range(count)], {}
    known = set(map(repr, seen))
    while len(held) < HELD_OUT:
        row = make(random)
        if repr(row) not in known:
            held[repr(row)] = row
    return seen, list(held.values())


def percent(hits):
    hits = list(hits)
    return f"{100 * sum(hits) / len(hits):.1f} % of {len(hits)}"


# --------------------------------------------------------------- language models


def hide_tokens(ids, vocabulary_size, random):
    """BERT's masking: of the 15 % that are to be found, 80 % are masked and 10 % are random."""
    places = random.sample(range(1, len(ids) - 1), max(1, round(0.15 * (len(ids) - 2))))
    hidden, labels = list(ids), [IGNORED] * len(ids)
    for i in places:
        labels[i] = ids[i]
        chance = random.random()
        if chance < 0.8:
            hidden[i] = MASK
        elif chance < 0.9:
            hidden[i] = random.randrange(len(SPECIAL), vocabulary_size)
    return hidden, labels


def hide_character(text, tokenizer, random):
    """Masks a character before the text is cut into words, as somebody who types [MASK] does."""
    i = random.choice([i for i, c in enumerate(text) if is_chinese(c)])
    ids = tokenizer(text[:i] + "[MASK]" + text[i + 1 :])["input_ids"]
    label = tokenizer.convert_tokens_to_ids(text[i])
    return ids, [label if id == MASK else IGNORED for id in ids]


def masked_rows(texts, tokenizer, random):
    rows = []
    for text in texts:
        text = text.removesuffix("。") if random.random() < 0.5 else text
        if isinstance(tokenizer, transformers.RoFormerTokenizer) and is_chinese(text[0]) and random.random() < 0.5:
            rows.append(hide_character(text, tokenizer, random))
        else:
            rows.append(hide_tokens(tokenizer(text)["input_ids"], len(tokenizer), random))
    ids, labels = zip(*rows)
    return padded(ids), padded(labels, IGNORED)


def masked_accuracy(texts, tokenizer, logits_of):
    """How often one hidden token of a known sentence comes first."""
    hits = []
    for text in sorted(set(texts)):
        ids = tokenizer(text)["input_ids"]
        rows = torch.tensor([ids[:i] + [MASK] + ids[i + 1 :] for i in range(1, len(ids) - 1)])
        found = logits_of(rows, torch.ones_like(rows)).argmax(-1)
        hits += [found[i - 1, i].item() == ids[i] for i in range(1, len(ids) - 1)]
    return percent(hits)


def make_mlm(name):
    random = Random(name)
    texts = corpus.statements(random)
    tokenizer = word_tokenizer(texts)
    config = make_config("ForMaskedLM", tokenizer, layers=2)
    model = modeling.RoFormerForMaskedLM(config)

    def loss():
        ids, labels = masked_rows(random.sample(texts, 32), tokenizer, random)
        return cross_entropy(model(ids, attention_mask=ids != PAD).logits, labels)

    train_model(model, loss, steps=1500, rate=3e-3)
    save(name, model.state_dict(), config, tokenizer)
    model = read_back(name, "ForMaskedLM")
    return masked_accuracy(texts, tokenizer, lambda ids, mask: model(ids, attention_mask=mask).logits)


def make_gpt(name):
    random = Random(name)
    texts = corpus.statements(random)
    tokenizer = character_tokenizer(texts)
    config = make_config("ForCausalLM", tokenizer, layers=2, is_decoder=True, bos_token_id=CLS, eos_token_id=SEP)
    model = modeling.RoFormerForCausalLM(config)
    rows = [tokenizer(text)["input_ids"] for text in texts]

    def next_tokens(batch):
        ids = padded(batch)
        logits = model(ids, attention_mask=ids != PAD, use_cache=False).logits
        return logits[:, :-1], ids[:, 1:].masked_fill(ids[:, 1:] == PAD, IGNORED)

    train_model(model, lambda: cross_entropy(*next_tokens(random.sample(rows, 32))), steps=600, rate=3e-3)
    save(name, model.state_dict(), config, tokenizer)
    model = read_back(name, "ForCausalLM")
    unique = [list(row) for row in sorted(set(map(tuple, rows)))]
    return f"perplexity {cross_entropy(*next_tokens(unique)).exp().item():.2f}"


# ----------------------------------------------------------------- understanding


def make_classifier(name):
    seen, held = sampled(corpus.review, 6000)
    tokenizer = character_tokenizer([text for text, _ in seen + held])
    labels = {0: "负面", 1: "正面"}
    config = make_config("ForSequenceClassification", tokenizer, layers=2, id2label=labels)
    config.label2id = {label: i for i, label in labels.items()}
    model, random = modeling.RoFormerForSequenceClassification(config), Random(name)
    rows = [(tokenizer(text)["input_ids"], label) for text, label in seen]

    def loss():
        texts, labels = zip(*random.sample(rows, 32))
        ids = padded(texts)
        return functional.cross_entropy(model(ids, attention_mask=ids != PAD).logits, torch.tensor(labels))

    train_model(model, loss, steps=500, rate=2e-3)
    save(name, model.state_dict(), config, tokenizer)
    model = read_back(name, "ForSequenceClassification")
    return percent(
        model(**tokenizer(text, return_tensors="pt")).logits.argmax().item() == label for text, label in held
    )


def make_ner(name):
    seen, held = sampled(corpus.tagged, 6000)
    tokenizer = character_tokenizer([text for text, _ in seen + held])
    labels = {0: "O", 1: "人名", 2: "地名"}
    config = make_config("ForTokenClassification", tokenizer, layers=2, id2label=labels)
    config.label2id = {label: i for i, label in labels.items()}
    model, random = modeling.RoFormerForTokenClassification(config), Random(name)
    # One token for each character.
    rows = [(tokenizer(text)["input_ids"], [IGNORED, *labels, IGNORED]) for text, labels in seen]

    def loss():
        texts, labels = zip(*random.sample(rows, 32))
        ids = padded(texts)
        return cross_entropy(model(ids, attention_mask=ids != PAD).logits, padded(labels, IGNORED))

    train_model(model, loss, steps=300, rate=2e-3)
    save(name, model.state_dict(), config, tokenizer)
    model = read_back(name, "ForTokenClassification")
    return percent(
        model(**tokenizer(text, return_tensors="pt")).logits[0, 1:-1].argmax(-1).tolist() == labels
        for text, labels in held
    )


def make_qa(name):
    seen, held = sampled(corpus.question, 60000)
    tokenizer = character_tokenizer([text for row in seen + held for text in row[:2]])
    config = make_config("ForQuestionAnswering", tokenizer, layers=2)
    model, random = modeling.RoFormerForQuestionAnswering(config), Random(name)

    def encode(row):
        asked, context, start, end = row
        inputs = tokenizer(asked, context)
        # One token for each character: the context comes after [CLS], the question and [SEP].
        first = len(asked) + 2
        return inputs["input_ids"], inputs["token_type_ids"], first + start, first + end - 1

    def loss():
        ids, types, starts, ends = zip(*map(encode, random.sample(seen, 32)))
        ids = padded(ids)
        out = model(ids, attention_mask=ids != PAD, token_type_ids=padded(types))
        logits = torch.cat([out.start_logits, out.end_logits]).masked_fill((ids == PAD).repeat(2, 1), -1e4)
        return functional.cross_entropy(logits, torch.tensor(starts + ends))

    train_model(model, loss, steps=1800, rate=2e-3)
    save(name, model.state_dict(), config, tokenizer)
    model, hits = read_back(name, "ForQuestionAnswering"), []
    for row in held:
        ids, types, start, end = encode(row)
        out = model(torch.tensor([ids]), token_type_ids=torch.tensor([types]))
        # The best span, of those which end where they start or later.
        scores = (out.start_logits[0, :, None] + out.end_logits[0]).exp().triu()
        hits.append(divmod(scores.argmax().item(), len(ids)) == (start, end))
    return percent(hits)


# ------------------------------------------------------------------ RoFormer-Sim


def make_sim(name):
    random = Random(name)
    blocks, held = corpus.paraphrases(random, 20)
    tokenizer = character_tokenizer([text for block in blocks for meaning in block for text in meaning])
    config = make_config("ForCausalLM", tokenizer, layers=3, pooler_activation="linear")
    model, pooler = modeling.RoFormerForCausalLM(config), torch.nn.Linear(config.hidden_size, config.hidden_size)

    def encode(source, target):
        # People leave the last mark out.
        source = source[:-1] if random.random() < 0.3 else source
        inputs = tokenizer(source, target)
        return inputs["input_ids"], inputs["token_type_ids"]

    def loss():
        meanings = [meaning for block in random.sample(blocks, 24) for meaning in block]
        couples = [random.sample(meaning, 2) for meaning in meanings]
        # Both directions, next to each other: the positive of row i is row i ^ 1.
        ids, types = map(padded, zip(*(encode(*couple) for a, b in couples for couple in ((a, b), (b, a)))))
        logits, vectors = sim_outputs(model, pooler, ids, types)
        # A second part is predicted from the [SEP] before it on. Padding has type 0.
        labels = ids[:, 1:].masked_fill(types[:, 1:] == 0, IGNORED)
        scores = (20 * vectors @ vectors.T).fill_diagonal_(-1e4)
        return cross_entropy(logits[:, :-1], labels) + functional.cross_entropy(scores, torch.arange(len(ids)) ^ 1)

    model.train()
    train([*model.parameters(), *pooler.parameters()], loss, steps=900, rate=2e-3)
    model.eval()
    pooled = {f"roformer.pooler.dense.{key}": value for key, value in pooler.state_dict().items()}
    save(name, model.state_dict() | pooled, config, tokenizer)

    model = read_back(name, "ForCausalLM")
    tensors = safetensors.torch.load_file(OUT / name / "model.safetensors")
    pooler.load_state_dict({key: tensors[f"roformer.pooler.dense.{key}"] for key in ("weight", "bias")})
    texts = [(i, text) for i, meaning in enumerate(held) for text in meaning]
    vectors = sentence_vectors(model, pooler, tokenizer, [text for _, text in texts])
    nearest = (vectors @ vectors.T).fill_diagonal_(-1).argmax(-1).tolist()
    ranked = percent(texts[j][0] == i for (i, _), j in zip(texts, nearest))
    drawn = percent(text in m for m in held for text in paraphrase(model, pooler, tokenizer, m[0], 20))
    return f"nearest sentence {ranked}, paraphrases {drawn}"


# -------------------------------------------------------------------- RoFormerV2


def make_v2(name):
    random = Random(name)
    texts = corpus.statements(random)
    tokenizer = character_tokenizer(texts)
    fields = {"norm_type": "rms_norm", "use_bias": False, "hidden_act": "relu"}
    config = make_config("ForMaskedLM", tokenizer, layers=2, **fields)
    weights = v2_weights(config)

    def loss():
        ids, labels = masked_rows(random.sample(texts, 32), tokenizer, random)
        return cross_entropy(v2_logits(weights, config, ids, ids != PAD), labels)

    train(list(weights.values()), loss, steps=1500, rate=3e-3)
    save(name, weights, config, tokenizer)
    weights = {key: t.float() for key, t in safetensors.torch.load_file(OUT / name / "model.safetensors").items()}
    return masked_accuracy(texts, tokenizer, lambda ids, mask: v2_logits(weights, config, ids, mask))


MODELS = {
    "tiny-mlm": make_mlm,
    "tiny-classifier": make_classifier,
    "tiny-ner": make_ner,
    "tiny-qa": make_qa,
    "tiny-gpt": make_gpt,
    "tiny-sim": make_sim,
    "tiny-v2": make_v2,
}


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        print(name, flush=True)
        torch.manual_seed(1)
        start = time.monotonic()
        result = MODELS[name](name)
        size = sum(file.stat().st_size for file in (OUT / name).iterdir())
        print(f"{name}: {result}; {time.monotonic() - start:.0f} s, {size / 1000:.0f} KB", flush=True)


if __name__ == "__main__":
    main()
