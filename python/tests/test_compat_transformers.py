"""`rotary.compat.transformers` against transformers' own functions and models."""

import importlib

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.0")

from rotary import RotaryError  # noqa: E402
from rotary.compat.transformers import apply_rotary_pos_emb, form_of, patch, unpatch  # noqa: E402

EPS = torch.finfo(torch.float32).eps


def original(kind, name="apply_rotary_pos_emb"):
    return getattr(importlib.import_module(f"transformers.models.{kind}.modeling_{kind}"), name)


# Each kind with its form: how it pairs features, and what turns of 16 features.
KINDS = {
    "llama": "half",
    "qwen3": "half",
    "mistral": "half",
    "gemma": "half",
    "modernbert": "half",
    "gpt_neox": "half",
    "phi3": "half",
    "olmo2": "half",
    "gpt_oss": "half",
    "esm": "half",
    "cohere": "interleaved",
    "glm": "interleaved",
    "ernie4_5": "interleaved",
    "gptj": "interleaved",
    "gemma3n": "half",
    "nanochat": "half, turned back",
    "deepseek_v4": "interleaved",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_functions_of_transformers(kind, dtype):
    function = original(kind)
    form = form_of(function)
    assert str(form).startswith(KINDS[kind])
    ours = form.function(function)
    width = 8 if form.columns == "once" else 16
    angles = 6 * torch.rand(2, 5, 8)
    angles = {"twice": torch.cat([angles, angles], -1), "neighbours": angles.repeat_interleave(2, -1), "once": angles}[
        form.columns
    ]
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    assert cos.shape[-1] == width
    shape = (2, 5, 3, 16) if form.arguments == "swapped" else (2, 3, 5, 16)
    inputs = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(2 if form.arguments == "pair" else 1)]
    tables = (sin, cos) if form.arguments == "swapped" else (cos, sin)
    weights = [torch.randn_like(x) for x in inputs]
    results = []
    for apply in (function, ours):
        outputs = apply(*inputs, *tables)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = sum((y.float() * w.float()).sum() for y, w in zip(outputs, weights))
        results.append([y.detach() for y in outputs] + list(torch.autograd.grad(loss, inputs)))
    # transformers rounds both products and their sum, and some round q first: three half units of numbers below 5 each.
    for want, got in zip(*results):
        bound = 3 * torch.finfo(dtype).eps * want.abs().max()
        assert (want.double() - got.double()).abs().max() <= bound


def test_part_of_the_features_and_the_other_layout():
    q, k = torch.randn(2, 5, 3, 20), torch.randn(2, 5, 1, 20)
    angles = torch.rand(2, 5, 8)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    for function, interleaved in ((original("gpt_neox"), False), (original("glm"), True)):
        wanted = function(q, k, cos, sin, unsqueeze_dim=2)
        for got, want in zip(apply_rotary_pos_emb(q, k, cos, sin, 2, interleaved=interleaved), wanted):
            torch.testing.assert_close(got, want, rtol=0, atol=3 * EPS * q.abs().max().item())
    with pytest.raises(RotaryError, match="unsqueeze_dim is 3"):
        apply_rotary_pos_emb(q, k, cos, sin, 3)


def test_interleaved_to_half():
    form = form_of(original("deepseek_v3", "apply_rotary_pos_emb_interleave"))
    assert str(form) == "interleaved to half"


def test_every_function_is_known_or_left_alone():
    """Of all models of transformers: those whose form is known are nearly all."""
    import pkgutil

    known, unknown = [], []
    for module in pkgutil.iter_modules(importlib.import_module("transformers.models").__path__):
        try:
            function = original(module.name)
        except Exception:  # No such function, or a library that it needs is missing.
            continue
        (unknown if form_of(function) is None else known).append(module.name)
    assert len(known) > 100
    assert len(unknown) < 0.15 * len(known), unknown


SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 99,
    "pad_token_id": 0,
}
MODELS = {
    "LlamaForCausalLM": lambda: transformers.LlamaConfig(**SMALL, num_key_value_heads=2),
    "Qwen3ForCausalLM": lambda: transformers.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16),
    "GlmForCausalLM": lambda: transformers.GlmConfig(**SMALL, num_key_value_heads=2, head_dim=16),
    "ModernBertForMaskedLM": lambda: transformers.ModernBertConfig(
        **SMALL, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2
    ),
    "GPTJForCausalLM": lambda: transformers.GPTJConfig(
        n_embd=64, n_layer=2, n_head=4, rotary_dim=8, vocab_size=99, bos_token_id=1, eos_token_id=2
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    torch.manual_seed(0)
    model = getattr(transformers, name)._from_config(MODELS[name]()).eval()
    tokens = torch.randint(3, 99, (2, 12))

    def run():
        model.zero_grad()
        logits = model(tokens).logits
        logits.square().mean().backward()
        return logits.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    logits, gradients = run()
    patched = patch(model)
    try:
        assert len(patched) == 1 and name.split("For")[0].lower() in str(patched)
        assert patch(model) == patched  # Once more changes nothing.
        got_logits, got_gradients = run()
    finally:
        assert unpatch(model) == list(patched)
    # The rotation differs in the last bit at most; sums of some hundred numbers in two layers follow it.
    torch.testing.assert_close(got_logits, logits, rtol=0, atol=100 * EPS * logits.abs().max().item())
    for got, want in zip(got_gradients, gradients):
        torch.testing.assert_close(got, want, rtol=0, atol=200 * EPS * want.abs().max().item() + 1e-9)
    again, _ = run()
    assert torch.equal(again, logits)


def test_a_patched_model_is_served_and_compiles():
    from rotary.torch import _rotate

    model = transformers.LlamaForCausalLM(MODELS["LlamaForCausalLM"]()).eval()
    tokens = torch.randint(3, 99, (1, 12))
    calls = []
    patch(model)
    kept, _rotate._directly = _rotate._directly, lambda *given: (calls.append(1), kept(*given))[1]
    try:
        with torch.no_grad():
            wanted = model(tokens).logits
            assert len(calls) == 2  # One for each layer.
            generated = model.generate(tokens, max_new_tokens=4, do_sample=False)
            assert generated.shape == (1, 16)
            torch._dynamo.reset()
            got = torch.compile(model, fullgraph=True)(tokens).logits
        torch.testing.assert_close(got, wanted, rtol=0, atol=100 * EPS * wanted.abs().max().item())
    finally:
        _rotate._directly = kept
        unpatch(model)


def test_what_cannot_be_patched():
    with pytest.raises(RotaryError, match="nothing of Linear could be patched"):
        patch(torch.nn.Linear(2, 2))
    with pytest.raises(RotaryError, match="model is a dict"):
        patch({})
