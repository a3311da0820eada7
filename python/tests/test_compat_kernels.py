"""The folder that the package `kernels` loads."""

import importlib.util
import sys

import pytest

torch = pytest.importorskip("torch")

from torch_cases import close, expected, tables  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.compat.kernels import PATH  # noqa: E402


@pytest.fixture(scope="module")
def kernel():
    """By `kernels` where it is installed, else as it would import it."""
    try:
        from kernels import get_local_kernel
    except ImportError:
        folder = PATH / "build" / "torch-universal"
        spec = importlib.util.spec_from_file_location(
            "rotary_kernel", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        module = sys.modules["rotary_kernel"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return get_local_kernel(PATH)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("conj", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_apply_rotary(kernel, dtype, conj, in_place):
    x = torch.randn(2, 5, 3, 16).to(dtype)
    cos, sin = (table[:, None] for table in tables(5, 8, dtype))
    wanted = expected(x, cos.float(), sin.float(), inverse=conj)
    x1, x2 = x[..., :8], x[..., 8:]
    out1, out2 = (x1, x2) if in_place else (torch.empty_like(x1), torch.empty_like(x2))
    assert kernel.apply_rotary(x1, x2, cos, sin, out1, out2, conj) is None
    close(torch.cat([out1, out2], -1), wanted)
    other = [torch.empty_like(out1), torch.empty_like(out2)]
    y = torch.randn_like(x)
    kernel.apply_rotary(
        y[..., :8], y[..., 8:], cos[None].expand(2, 5, 3, 8), sin[None].expand(2, 5, 3, 8), *other, conj
    )
    close(torch.cat(other, -1), expected(y, cos.float(), sin.float(), inverse=conj))
    with pytest.raises(RotaryError, match="out2 has shape"):
        kernel.apply_rotary(x1, x2, cos, sin, out1, out2[:1], conj)


def test_apply_rotary_transformers(kernel):
    q, k = torch.randn(2, 3, 5, 20, requires_grad=True), torch.randn(2, 1, 5, 20)
    cos, sin = tables(5, 8)
    twice = [torch.cat([table, table], -1)[None] for table in (cos, sin)]
    got = kernel.apply_rotary_transformers(q, k, *twice)
    close(got[0].detach(), expected(q.detach(), cos, sin))
    close(got[1], expected(k, cos, sin))
    layer = kernel.layers.apply_rotary_transformers
    assert layer.can_torch_compile and layer.has_backward
    assert torch.equal(layer()(q, k, *twice)[0], got[0])
    (gradient,) = torch.autograd.grad(got[0].sum(), q)
    close(gradient, expected(torch.ones_like(gradient), cos, sin, inverse=True))


def test_a_model_with_the_kernel():
    kernels = pytest.importorskip("kernels")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=99
    )
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.randint(0, 99, (1, 7))
    with torch.no_grad():
        wanted = model(tokens).logits
        repository = kernels.LocalLayerRepository(PATH, layer_name="apply_rotary_transformers")
        with kernels.use_kernel_mapping({"rotary_pos_emb": {"cpu": repository}}):
            model = kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device="cpu")
        got = model(tokens).logits
    torch.testing.assert_close(
        got, wanted, rtol=0, atol=100 * torch.finfo(torch.float32).eps * wanted.abs().max().item()
    )
