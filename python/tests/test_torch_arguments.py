"""What `rotate` and `rotate_` take and what they refuse: each error in one line that names the argument."""

import multiprocessing
import random

import pytest

torch = pytest.importorskip("torch")

from torch_cases import DTYPES, close, expected, tables  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.torch import _plain, rotate, rotate_  # noqa: E402


def beside(rows, heads_first):
    """Rows `[(batch,) length, pairs]` as they stand beside vectors."""
    return rows.unsqueeze(-3 if heads_first else -2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("table", DTYPES)
@pytest.mark.parametrize("heads_first", [False, True])
def test_tables_of_any_type_and_layout(dtype, table, heads_first):
    batch, heads, length, pairs = 2, 3, 5, 4
    shape = (batch, heads, length, 8) if heads_first else (batch, length, heads, 8)
    x = torch.randn(shape).to(dtype)
    plain = tables(length, pairs, table)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    wanted = expected(x, *(beside(rows.to(wide), heads_first) for rows in plain))
    twice = [torch.cat([rows, rows], -1) for rows in plain]
    spread = [torch.stack([rows, rows.flip(0)], -1).flatten(-2)[:, ::2] for rows in plain]
    own = [rows.expand(batch, -1, -1) for rows in plain]
    for rows in (plain, twice, [t[None] for t in twice], spread, own, [t.contiguous() for t in own]):
        close(rotate(x, None, *rows, heads_first=heads_first), wanted)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("twice", [False, True])
def test_positions(index, twice):
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8)
    cos, sin = tables(11, 4)
    given = [torch.cat([rows, rows], -1) for rows in (cos, sin)] if twice else (cos, sin)
    one = torch.tensor([10, 0, 3, 4, 4], dtype=index)
    each = torch.tensor([[1, 2, 3, 4, 5], [9, 8, 0, 0, 10]], dtype=index)
    spread = torch.stack([each, each], -1)[..., 0]
    for ids, rows in [
        (one, one),
        (one[None], one),
        (one.expand(2, 5), one),
        (each, each),
        (spread, each),
        (each.flip(0), each.flip(0)),
    ]:
        wanted = [expected(x, beside(cos[rows.long()], True), beside(sin[rows.long()], True)) for x in (q, k)]
        for got, want in zip(rotate(q, k, *given, position_ids=ids), wanted):
            close(got, want)
    close(rotate(q, None, *given, offset=6), expected(q, cos[6:], sin[6:]))

    packed = torch.tensor([0, 2, 2, 5], dtype=index)
    rows = [0, 1, 0, 1, 2]
    for ends in (packed, packed[1:]):
        close(rotate(q[:1], None, *given, cu_seqlens=ends), expected(q[:1], cos[rows], sin[rows]))
        # A batch of one may be left out, as packed sequences have it.
        x = q[0].transpose(0, 1)
        got = rotate(x, None, *given, cu_seqlens=ends, heads_first=False)
        close(got, expected(x, cos[rows][:, None], sin[rows][:, None]))


def test_views_and_parts():
    cos, sin = tables(6, 4)
    fused = torch.randn(2, 6, 5, 12)  # Three heads of queries, one of keys, one of values.
    before = fused.clone()
    q, k = fused[:, :, :3], fused[:, :, 3:4]
    how = {"heads_first": False, "rotary_dim": 8, "rotary_offset": 2}
    wanted = [expected(x, cos[:, None], sin[:, None], rotary_offset=2) for x in (q, k)]
    for got, want in zip(rotate(q, k, cos, sin, **how), wanted):
        close(got, want)
    rotate_(q, k, cos, sin, **how)
    close(q, wanted[0])
    close(k, wanted[1])
    assert torch.equal(fused[:, :, 4:], before[:, :, 4:])
    assert torch.equal(fused[..., :2], before[..., :2]) and torch.equal(fused[..., 10:], before[..., 10:])

    stacked = torch.randn(2, 3, 4, 6, 8)  # Queries, keys and values one after another.
    want = expected(stacked[:, 1], cos, sin)
    rotate_(stacked[:, 0], stacked[:, 1], cos, sin)
    close(stacked[:, 1], want)


def test_nothing_to_rotate():
    cos, sin = tables(4, 4)
    for shape in [(0, 2, 4, 8), (1, 0, 4, 8), (1, 2, 0, 8)]:
        x = torch.empty(shape)
        assert rotate(x, None, cos, sin).shape == shape
        assert rotate_(x, x.clone(), cos, sin)[1].shape == shape
    empty = torch.empty(1, 2, 0, 8)
    assert rotate(empty, None, cos[:0], sin[:0]).shape == (1, 2, 0, 8)
    assert rotate(empty, None, cos, sin, position_ids=torch.empty(1, 0, dtype=torch.int64)).shape == (1, 2, 0, 8)


X = torch.randn(2, 3, 5, 8)
COS, SIN = tables(5, 4)
REFUSED = {
    "the features of q are 5 apart": lambda: rotate(torch.randn(2, 3, 8, 5).transpose(2, 3), None, COS, SIN),
    "the features of k are 5 apart": lambda: rotate_(X.clone(), torch.randn(2, 3, 8, 5).transpose(2, 3), COS, SIN),
    "q has type int64": lambda: rotate(X.long(), None, COS, SIN),
    "q has type torch.complex64": lambda: rotate(X.to(torch.complex64), None, COS, SIN),
    "cos has type int32": lambda: rotate(X, None, COS.int(), SIN),
    "sin has type torch.bool": lambda: rotate(X, None, COS, SIN.bool()),
    "k has type float64; expected that of q, float32": lambda: rotate(X, X.double(), COS, SIN),
    "q is a list": lambda: rotate([1.0], None, COS, SIN),
    "cos is a NoneType": lambda: rotate(X, None, None, SIN),
    "cos is on meta; expected the device of q, cpu": lambda: rotate(X, None, COS.to("meta"), SIN),
    "k is on meta": lambda: rotate(X, X.to("meta"), COS, SIN),
    "position_ids is on meta": lambda: rotate(X, None, COS, SIN, position_ids=torch.arange(5, device="meta")),
    "q has the layout torch.sparse_coo": lambda: rotate(X.to_sparse(), None, COS, SIN),
    r"q has shape \[8\]": lambda: rotate(torch.randn(8), None, COS, SIN),
    "at most 4": lambda: rotate(torch.randn(1, 1, 1, 1, 8), None, COS, SIN),
    r"k has shape \[2, 3, 4, 8\]": lambda: rotate(X, X[:, :, :4], COS, SIN),
    "k has 6 features a head; expected 8": lambda: rotate(X, X[..., :6], COS, SIN),
    "sin has shape": lambda: rotate(X, None, COS, SIN[:4]),
    r"cos has shape \[4\]": lambda: rotate(X, None, COS[0], SIN[0]),
    "cos has 3 columns; expected 4": lambda: rotate(X, None, COS[:, :3], SIN[:, :3]),
    "cos has 4 columns; expected 3": lambda: rotate(X, None, COS, SIN, rotary_dim=6),
    r"cos has shape \[3, 5, 4\]": lambda: rotate(X, None, COS.expand(3, 5, 4), SIN.expand(3, 5, 4)),
    "position 5 is not in the table": lambda: rotate(X, None, COS, SIN, offset=1),
    "position -1 is not in the table": lambda: rotate(X, None, COS, SIN, offset=-1),
    "position 7 is not in the table": lambda: rotate(X, None, COS, SIN, position_ids=torch.tensor([0, 7, 0, 0, 0])),
    "position -2 is not in the table": lambda: rotate(
        X.bfloat16(), None, COS.bfloat16(), SIN, position_ids=torch.full((5,), -2)
    ),
    r"position_ids has shape \[4\]": lambda: rotate(X, None, COS, SIN, position_ids=torch.arange(4)),
    r"position_ids has shape \[3, 5\]": lambda: rotate(X, None, COS, SIN, position_ids=torch.zeros(3, 5).int()),
    "position_ids has type float32": lambda: rotate(X, None, COS, SIN, position_ids=torch.arange(5.0)),
    "position_ids and cu_seqlens": lambda: rotate(
        X, None, COS, SIN, position_ids=torch.arange(5), cu_seqlens=torch.tensor([5])
    ),
    "an offset of 1 beside": lambda: rotate(X, None, COS, SIN, position_ids=torch.arange(5), offset=1),
    "a batch of 2": lambda: rotate(X, None, COS, SIN, cu_seqlens=torch.tensor([0, 5])),
    "cu_seqlens ends with 4": lambda: rotate(X[:1], None, COS, SIN, cu_seqlens=torch.tensor([0, 4])),
    "cu_seqlens has 2 after 3": lambda: rotate(X[:1], None, COS, SIN, cu_seqlens=torch.tensor([0, 3, 2, 5])),
    "cu_seqlens has 9 after 0": lambda: rotate(X[:1], None, COS, SIN, cu_seqlens=torch.tensor([0, 9])),
    "cos has a batch of rows": lambda: rotate(X, None, COS.expand(2, 5, 4), SIN.expand(2, 5, 4), offset=1),
    "rotary_dim is 7": lambda: rotate(X, None, COS, SIN, rotary_dim=7),
    "rotary_offset is 4 with rotary_dim 8": lambda: rotate(X, None, COS, SIN, rotary_dim=8, rotary_offset=4),
    "q is expanded": lambda: rotate_(torch.randn(1, 3, 5, 8).expand(2, 3, 5, 8), None, COS, SIN),
    "no two vectors overlap": lambda: rotate_(torch.randn(100).as_strided((1, 3, 5, 8), (0, 8, 4, 1)), None, COS, SIN),
    "q and k share memory": lambda: (lambda y: rotate_(y[:, 1:], y[:, :2], COS, SIN))(X.clone()),
    "q and cos share memory": lambda: (lambda y: rotate_(y, None, y[0, 0, :, :4], SIN))(X.clone()),
    "k and sin share memory": lambda: (lambda y: rotate_(X.clone(), y, COS, y[1, 2, :, 4:]))(X.clone()),
    "cos requires a gradient": lambda: rotate(X, None, COS.clone().requires_grad_(), SIN),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    with pytest.raises(RotaryError, match=words) as caught:
        REFUSED[words]()
    assert "\n" not in str(caught.value)


def test_wrong_words_are_type_errors():
    with pytest.raises(TypeError):
        rotate(X, None, COS, SIN, offset="1")
    with pytest.raises(TypeError):
        rotate(X, None, COS, SIN, rotary_dim=1.5)


def test_memory_that_is_gone():
    cos = COS.clone()
    cos.untyped_storage().resize_(0)
    with pytest.raises(RotaryError, match="cos has no memory"):
        rotate(X, None, cos, SIN)
    x = X.clone()
    x.untyped_storage().resize_(0)
    with pytest.raises(RotaryError, match="q has no memory"):
        rotate_(x, None, COS, SIN)


def test_memory_that_begins_between_numbers():
    data = bytearray(4 * X.numel() + 1)
    x = torch.frombuffer(data, dtype=torch.float32, offset=1, count=X.numel()).view_as(X)
    with pytest.raises(RotaryError, match="expected a multiple of 4"):
        rotate(x, None, COS, SIN)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_is_read_only(tmp_path):
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "x.npy", X.numpy())
    x = torch.from_numpy(numpy.load(tmp_path / "x.npy", mmap_mode="r"))
    close(rotate(x, None, COS, SIN), expected(X, COS, SIN))
    with pytest.raises(RotaryError, match="q lies in memory that is read-only"):
        rotate_(x, None, COS, SIN)
    with pytest.raises(RotaryError, match="k lies in memory that is read-only"):
        rotate_(X.clone(), x, COS, SIN)


def test_negated_views():
    angles = torch.polar(torch.ones(5, 4), torch.rand(5, 4))
    cos, sin = angles.conj().real, angles.conj().imag
    assert sin.is_neg()
    close(rotate(X, None, cos, sin), expected(X, angles.real, angles.imag, inverse=True))


def test_inference_mode():
    with torch.inference_mode():
        x = X.clone()
        close(rotate_(x, None, COS, SIN), expected(X, COS, SIN))
        y = X + 0
        close(rotate_(y, y.clone(), COS, SIN)[0], expected(X, COS, SIN))


def in_a_fork(queue, x, cos, sin):
    # Nothing of torch's that is divided among threads: those of its own do not outlive a fork either.
    queue.put(rotate(x, None, cos, sin)[0, 1, 2, 3].item())


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_large_work_in_a_forked_process():
    x, (cos, sin) = torch.ones(1, 8, 2048, 64), tables(2048, 32)
    wanted = rotate(x, None, cos, sin)[0, 1, 2, 3].item()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=in_a_fork, args=(queue, x, cos, sin))
    process.start()
    assert queue.get(timeout=30) == wanted
    process.join()


def test_large_and_small_from_threads_at_once():
    from concurrent.futures import ThreadPoolExecutor

    x, (cos, sin) = torch.randn(1, 8, 1024, 64), tables(1024, 32)
    cos, sin = cos.bfloat16(), sin.bfloat16()  # Rows are converted, in memory that threads keep.
    wanted = rotate(x, None, cos, sin)
    with ThreadPoolExecutor(8) as threads:
        for got in threads.map(lambda _: rotate(x, None, cos, sin), range(64)):
            assert torch.equal(got, wanted)


def draw(chance):
    """Arguments by chance, most of which fit together."""

    def some(*values):
        return chance.choice(values)

    def size(value):
        return max(0, value + some(-1, 1)) if chance.random() < 0.02 else value

    dtype = some(*DTYPES)
    batch, heads, kv_heads, length, pairs = (
        some(0, 1, 1, 2, 3),
        some(1, 2, 3),
        some(0, 1, 2),
        some(0, 1, 2, 5, 9),
        some(1, 2, 4, 9),
    )
    heads_first, rotary_offset, rest = some(True, False), some(0, 0, 1, 3), some(0, 0, 2, 5)
    features = rotary_offset + 2 * pairs + rest

    def vectors(heads):
        shape = [size(batch), size(heads), size(length), size(features)]
        order = chance.sample(range(3), 3) + [3] if chance.random() > 0.02 else chance.sample(range(4), 4)
        padded = [shape[axis] for axis in order]
        padded[-1] += some(0, 0, 3)
        x = torch.randn(padded)[..., : shape[order[-1]]].permute([order.index(axis) for axis in range(4)])
        x = x.to(some(*DTYPES) if chance.random() < 0.02 else dtype)
        if not heads_first:
            x = x.transpose(1, 2)
        if x.shape[0] == 1 and chance.random() < 0.3:
            x = x[0]
        return x

    q, k = vectors(heads), vectors(kv_heads) if chance.random() < 0.7 else None
    if k is not None and q.dim() != k.dim():
        k = k.unsqueeze(0) if k.dim() == 3 else k[0] if k.shape[0] == 1 else k
    rows = some(length, length, length + 3)
    how = {"heads_first": heads_first, "interleaved": some(True, False), "inverse": some(True, False)}
    if rotary_offset or rest or chance.random() < 0.5:
        how |= {"rotary_dim": size(2 * pairs), "rotary_offset": rotary_offset}
    shape = [rows, pairs]
    kind = some("offset", "ids", "packed", "own")
    if kind == "offset":
        how["offset"] = some(0, 0, rows - length, rows - length + 1, -1)
    elif kind == "ids":
        of = some([length], [1, length], [batch, length])
        low, high = some((0, rows), (0, rows), (0, rows), (-1, rows + 1))
        how["position_ids"] = torch.randint(
            low, max(high, low + 1), [size(n) for n in of], dtype=some(torch.int32, torch.int64)
        )
    elif kind == "packed":
        ends = sorted(chance.choices(range(length + 1), k=3)) + [size(length)]
        how["cu_seqlens"] = torch.tensor(ends, dtype=some(torch.int32, torch.int64))
    else:
        shape = [some(1, batch), length, pairs]
    table = torch.randn(shape).to(some(*DTYPES))
    angles = [table.double().cos().to(table.dtype), table.double().sin().to(table.dtype)]
    if chance.random() < 0.3:
        angles = [torch.cat([rows, rows], -1) for rows in angles]
    if chance.random() < 0.2:
        angles = [torch.stack([rows, rows], -1)[..., 0] for rows in angles]
    if chance.random() < 0.2:
        angles = [rows.flip(-1).contiguous().flip(-1) for rows in angles]
    return q, k, *angles, how


def plain(x, cos, sin, how):
    """The same in float64, by torch's own indexing, which refuses rows that are not there."""
    heads_first = how["heads_first"]
    length = x.shape[-2] if heads_first else x.shape[-3]
    offset = how.get("rotary_offset", 0)
    pairs = how.get("rotary_dim", x.shape[-1] - offset) // 2
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = cos[..., :pairs].to(wide), sin[..., :pairs].to(wide)
    if cos.dim() == 3 and cos.shape[0] == 1:
        cos, sin = cos[0], sin[0]
    if "position_ids" in how:
        ids = how["position_ids"].long()
        if x.dim() == 3 and ids.dim() == 2:
            ids = ids[0]
    elif "cu_seqlens" in how:
        ends = how["cu_seqlens"].tolist()
        ids = torch.tensor([i - max([0] + [end for end in ends if end <= i]) for i in range(length)], dtype=torch.int64)
    else:
        ids = torch.arange(length) + how.get("offset", 0)
    if cos.dim() == 2:
        assert ids.numel() == 0 or ids.min() >= 0
        cos, sin = cos[ids], sin[ids]
    elif x.dim() == 3:
        cos, sin = cos[0], sin[0]
    flags = {"interleaved": how["interleaved"], "inverse": how["inverse"], "rotary_offset": offset}
    return expected(x, beside(cos, heads_first), beside(sin, heads_first), **flags)


def by_torch(x, cos, sin, how):
    names = {
        "position_ids": None,
        "cu_seqlens": None,
        "offset": 0,
        "interleaved": False,
        "inverse": False,
        "heads_first": True,
    }
    names |= {"rotary_dim": None, "rotary_offset": 0}
    how = names | how
    how["interleaved"] = int(how["interleaved"])
    return _plain.rotate(x, cos, sin, *(how[name] for name in names))


def test_ten_thousand_arguments():
    torch.manual_seed(0)
    right = refused = 0
    for seed in range(10_000):
        q, k, cos, sin, how = draw(random.Random(seed))
        before = (q.clone(), None if k is None else k.clone())
        try:
            got = rotate(q, k, cos, sin, **how)
        except RotaryError:
            refused += 1
            with pytest.raises(RotaryError):
                rotate_(q, k, cos, sin, **how)
            # What is refused changes nothing.
            assert torch.equal(q, before[0]) and (k is None or torch.equal(k, before[1])), seed
            continue
        right += 1
        got = (got,) if k is None else got
        in_place = rotate_(q, k, cos, sin, **how)
        in_place = (in_place,) if k is None else in_place
        for x, out, same in zip(before, got, in_place):
            close(out, plain(x, cos, sin, how))
            assert torch.equal(out, same), seed
            # Plain torch, which serves other devices, gives the same bits.
            assert torch.equal(out, by_torch(x, cos, sin, how)), seed
    # Enough of both to mean something.
    assert right > 5_000 and refused > 1_000, (right, refused)


def test_what_needs_the_dispatcher_is_left_to_it():
    from rotary._rotary import rotate_directly

    x, (cos, sin) = torch.randn(1, 2, 3, 8), tables(3, 4)
    how = (None, None, 0, 0, False, True, None, 0)

    class Other(torch.Tensor):
        pass

    with torch.inference_mode():
        inferred = torch.randn(1, 2, 3, 8)
    wanting = x.clone().requires_grad_()
    before = x.clone()
    for in_place in (False, True):
        for q, k in [(wanting, None), (x, wanting), (x.as_subclass(Other), x), (x, x.to("meta")), (x, "k"), (x.to_sparse(), x)]:
            assert rotate_directly(q, k, cos, sin, *how, in_place) is None, (q, k)
        assert rotate_directly(x, None, cos, sin._neg_view(), *how, in_place) is None
        assert torch.func.vmap(lambda cos: cos if rotate_directly(x, None, cos, sin, *how, in_place) is None else 0)(cos).shape
        with torch.autograd.forward_ad.dual_level():
            assert rotate_directly(x, None, cos, sin, *how, in_place) is None
        with torch.utils._python_dispatch.TorchDispatchMode():
            assert rotate_directly(x, None, cos, sin, *how, in_place) is None
    assert rotate_directly(inferred, None, cos, sin, *how, True) is None
    # Nothing was written.
    assert torch.equal(x, before)
    with torch.no_grad():
        q, k = rotate_directly(wanting, x, cos, sin, *how, False)
    close(q, expected(x, cos, sin))
    assert torch.equal(q, k) and not q.requires_grad
    version = x._version
    assert rotate_directly(x, None, cos, sin, *how, True) is x and x._version == version + 1
    assert torch.equal(x, q)
