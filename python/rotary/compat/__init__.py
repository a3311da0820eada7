"""Other libraries' functions, with their names, shapes and defaults, on this library's kernels.

flash_attn    flash_attn.layers.rotary
transformers  apply_rotary_pos_emb, and `patch(model)` for models that are loaded
vllm          vLLM's `rotary_embedding`
lucidrains    rotary-embedding-torch
kernels       a folder that the package `kernels` loads for `rotary_pos_emb`
"""
