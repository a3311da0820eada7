"""Vectors of texts that come in pairs, and their losses, for `training.py`."""

import numpy
import torch
import transformers
from torch import nn

import roformer as common

SCALE = 20.0


class Vectors(nn.Module):
    """RoFormer with the mean over real tokens, scaled to length 1."""

    config_class = transformers.RoFormerConfig

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.roformer = transformers.RoFormerModel(config)

    @property
    def base_model(self):
        return self.roformer

    def forward(self, ids, types, mask):
        hidden = self.roformer(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        real = mask[..., None].to(hidden.dtype)
        # A row without a real token belongs to a pair that is left out.
        mean = (hidden * real).sum(1) / real.sum(1).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)


def make_inputs(name, fields, batch, length, is_scored):
    """Rows of different lengths. Where there are no scores, the last pair has no real token and is left out."""
    random = numpy.random.default_rng(common.fnv1a(name))
    ids = torch.from_numpy(random.integers(4, fields["vocab_size"], (batch, length)))
    types = torch.from_numpy(random.integers(0, 2, ids.shape))
    lengths = torch.from_numpy(random.integers(2, length + 1, batch))
    if not is_scored:
        lengths[-2:] = 0
    mask = (torch.arange(length) < lengths[:, None]).long()
    ids[mask == 0] = 0
    # Hundredths, so that they are the same in f32 and in the file up to its rounding.
    scores = torch.from_numpy(random.integers(-100, 101, batch // 2) / 100).float() if is_scored else None
    return ids, types, mask, scores


def loss_of(model, ids, types, mask, scores):
    """A function of no arguments that gives the loss."""
    present = mask.any(dim=1)
    partners = torch.arange(len(ids)) ^ 1
    assert torch.equal(present, present[partners])
    # Pairs stay next to each other.
    rows = present.nonzero().flatten()
    own = torch.eye(len(rows), dtype=torch.bool)

    def loss():
        vectors = model(ids, types, mask)[rows]
        if scores is not None:
            cosines = nn.functional.cosine_similarity(vectors[0::2], vectors[1::2], dim=-1)
            return nn.functional.mse_loss(cosines, scores.double())
        cosines = (vectors @ vectors.T).masked_fill(own, -torch.inf)
        return nn.functional.cross_entropy(SCALE * cosines, torch.arange(len(rows)) ^ 1)

    return loss
