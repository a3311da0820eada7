"""`rotate` and `rotate_` under torch.compile, torch.export and torch.func."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import close, expected, tables  # noqa: E402

from rotary.torch import rotate, rotate_  # noqa: E402

LENGTHS = [5, 9, 2]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("interleaved", [False, True])
def test_whole_graph_with_changing_shapes(interleaved):
    def scores(q, k, cos, sin):
        q, k = rotate(q * 2, k + 1, cos, sin, interleaved=interleaved)
        return (q @ k.transpose(-1, -2)).relu()

    compiled = torch.compile(scores, fullgraph=True, dynamic=True)
    for length in LENGTHS:
        for cos, sin in (tables(length, 8), [torch.cat([t, t], -1)[None] for t in tables(length, 8)]):
            q, k = torch.randn(2, 3, length, 16, requires_grad=True), torch.randn(2, 3, length, 16, requires_grad=True)
            got, want = compiled(q, k, cos, sin), scores(q, k, cos, sin)
            torch.testing.assert_close(got, want)
            gradients = [torch.autograd.grad(y.square().sum(), (q, k)) for y in (got, want)]
            torch.testing.assert_close(*gradients)


def test_positions_in_a_graph():
    compiled = torch.compile(
        lambda q, cos, sin, ids: rotate(q, None, cos, sin, position_ids=ids), fullgraph=True, dynamic=True
    )
    cos, sin = tables(30, 8)
    for length in LENGTHS:
        q, ids = torch.randn(1, 3, length, 16), torch.randint(0, 30, (1, length))
        close(compiled(q, cos, sin, ids), expected(q, cos[ids[0]], sin[ids[0]]))


@pytest.mark.parametrize("grad", [False, True])
def test_in_place_in_a_graph(grad):
    def turn(x, cos, sin):
        q, k = x.chunk(2, 1)
        y = q * 2
        rotate_(y, None, cos, sin)
        z = k + 1
        rotate_(z, y, cos, sin)
        return y, z

    compiled = torch.compile(turn, fullgraph=True, dynamic=True)
    for length in LENGTHS:
        x, (cos, sin) = torch.randn(2, 4, length, 16, requires_grad=grad), tables(length, 8)
        got, want = compiled(x, cos, sin), turn(x, cos, sin)
        torch.testing.assert_close(got, want)
        if grad:
            torch.testing.assert_close(*[torch.autograd.grad((y[0] * y[1]).sum(), x) for y in (got, want)])


def test_an_argument_that_is_written_to():
    compiled = torch.compile(lambda q, cos, sin: rotate_(q, None, cos, sin), fullgraph=True)
    q, (cos, sin) = torch.randn(2, 3, 5, 16), tables(5, 8)
    want = rotate(q, None, cos, sin)
    assert torch.equal(compiled(q, cos, sin), want)
    assert torch.equal(q, want)


def test_exported():
    class Turn(torch.nn.Module):
        def forward(self, q, cos, sin):
            return rotate(q, None, cos, sin)

    q, (cos, sin) = torch.randn(2, 3, 5, 16), tables(5, 8)
    program = torch.export.export(Turn(), (q, cos, sin))
    assert any("rotary.rotate" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(q, cos, sin), rotate(q, None, cos, sin))


def test_fake_and_meta_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    cos, sin = tables(5, 8)
    assert rotate(torch.empty(2, 3, 5, 16, device="meta"), None, cos.to("meta"), sin.to("meta")).shape == (2, 3, 5, 16)
    with FakeTensorMode() as mode:
        q, k = rotate(torch.empty(2, 3, 5, 16), torch.empty(2, 1, 5, 16), mode.from_tensor(cos), mode.from_tensor(sin))
        assert k.shape == (2, 1, 5, 16)


def test_functions_of_functions():
    cos, sin = tables(5, 8)
    q, k, tangent = torch.randn(3, 2, 5, 16), torch.randn(3, 1, 5, 16), torch.randn(3, 2, 5, 16)

    def turn(q):
        return rotate(q, None, cos, sin)

    torch.testing.assert_close(torch.func.grad(lambda q: turn(q).square().sum())(q), 2 * q)
    torch.testing.assert_close(torch.func.jvp(turn, (q,), (tangent,))[1], turn(tangent))
    torch.testing.assert_close(torch.func.vmap(turn)(q), turn(q))
    got = torch.func.vmap(lambda q, k: rotate_(q.clone(), k.clone(), cos, sin))(q, k)
    torch.testing.assert_close(got, rotate(q, k, cos, sin))


def test_autocast():
    cos, sin = tables(5, 8)
    q = torch.randn(1, 2, 5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weight = torch.randn(16, 16)
        y = rotate(q @ weight, None, cos, sin)
    assert y.dtype == torch.bfloat16
