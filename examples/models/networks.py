"""What transformers has no classes for: RoFormer-Sim and RoFormerV2."""

import math

import torch
from torch.nn import functional
from transformers.models.roformer import modeling_roformer as modeling

from tokens import PAD, SEP, padded


# ------------------------------------------------------------------ RoFormer-Sim


def sim_outputs(model, pooler, ids, types):
    """Logits and sentence vectors. A first part is seen whole, a second part up to each token."""
    order = types.cumsum(-1)
    seen = (order[:, None, :] <= order[:, :, None]) & (ids != PAD)[:, None, :]
    # transformers takes any mask that has four dimensions, and adds it to the scores.
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
    states = model.roformer(ids, attention_mask=mask, token_type_ids=types).last_hidden_state
    return model.cls(states), functional.normalize(pooler(states[:, 0]), dim=-1)


def sentence_vectors(model, pooler, tokenizer, texts):
    ids = padded(tokenizer(texts)["input_ids"])
    return sim_outputs(model, pooler, ids, torch.zeros_like(ids))[1]


def paraphrase(model, pooler, tokenizer, text, count, top_p=0.95, longest=32):
    """Sentences drawn from the model, with repeats."""
    source = tokenizer(text)["input_ids"]
    ids = torch.tensor([source] * count)
    while ids.shape[1] < len(source) + longest and not (ids[:, len(source) :] == SEP).any(1).all():
        types = (torch.arange(ids.shape[1]) >= len(source)).long().expand_as(ids)
        probabilities = sim_outputs(model, pooler, ids, types)[0][:, -1].softmax(-1)
        ordered, order = probabilities.sort(descending=True)
        ordered[ordered.cumsum(-1) - ordered >= top_p] = 0
        ids = torch.cat([ids, order.gather(1, torch.multinomial(ordered, 1))], dim=1)
    rows = [row[: row.index(SEP)] if SEP in row else row for row in ids[:, len(source) :].tolist()]
    return [tokenizer.decode(row).replace(" ", "") for row in rows]


# -------------------------------------------------------------------- RoFormerV2


def v2_weights(config):
    """RoFormerV2 has no biases and no weights in its norms; the output is tied to the embedding."""
    h, f = config.hidden_size, config.intermediate_size
    shapes = {"embeddings.word_embeddings": (config.vocab_size, h), "embeddings.token_type_embeddings": (2, h)}
    for i in range(config.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        shapes |= {f"{layer}.attention.self.{part}": (h, h) for part in ("query", "key", "value")}
        shapes |= {f"{layer}.attention.output.dense": (h, h)}
        shapes |= {f"{layer}.intermediate.dense": (f, h), f"{layer}.output.dense": (h, f)}
    return {
        f"roformer.{name}.weight": torch.nn.Parameter(torch.randn(shape) * config.initializer_range)
        for name, shape in shapes.items()
    }


def v2_logits(weights, config, ids, mask):
    def linear(x, name):
        return functional.linear(x, weights[f"roformer.{name}.weight"])

    def norm(x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + config.layer_norm_eps)

    def heads(x):
        return x.unflatten(-1, (config.num_attention_heads, -1)).transpose(1, 2)

    words = weights["roformer.embeddings.word_embeddings.weight"]
    # Every token has type 0.
    x = norm(words[ids] + weights["roformer.embeddings.token_type_embeddings.weight"][0])
    dim = config.hidden_size // config.num_attention_heads
    table = modeling.RoFormerSinusoidalPositionalEmbedding(ids.shape[1], dim).create_weight()
    rotate = modeling.RoFormerSelfAttention.apply_rotary_position_embeddings
    scores_mask = torch.where(mask.bool(), 0.0, torch.finfo(torch.float32).min)[:, None, None, :]
    for i in range(config.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        q, k, v = (heads(linear(x, f"{layer}.attention.self.{part}")) for part in ("query", "key", "value"))
        q, k = rotate(table, q, k)
        mixed = ((q @ k.mT / math.sqrt(dim) + scores_mask).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = norm(x + linear(mixed, f"{layer}.attention.output.dense"))
        x = norm(x + linear(linear(x, f"{layer}.intermediate.dense").relu(), f"{layer}.output.dense"))
    return x @ words.T
