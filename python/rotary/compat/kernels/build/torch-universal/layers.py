"""The rotation as a layer, as `kernels` puts it into models."""

import torch

from rotary.compat.transformers import apply_rotary_pos_emb


class apply_rotary_transformers(torch.nn.Module):  # noqa: N801 - the name that transformers asks for
    has_backward = True
    can_torch_compile = True

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        return apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
