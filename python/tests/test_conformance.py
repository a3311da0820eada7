"""The conformance kit: right ropes are right, ropes with a mistake are told which. The wrong ones are written here as people write
them in torch, not with anything of the judge's."""

import math
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import rotary
from rotary import conformance

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def frequencies(config, dim, base=None):
    base = config["rope_theta"] if base is None else base
    return base ** (-torch.arange(0, dim, 2).double() / dim)


def llama(config, positions, q, k, **wrong):
    """Llama's rope with a place for each mistake."""
    dim = q.shape[-1]
    inv_freq = wrong.get("inv_freq", frequencies)(config, dim)
    angles = wrong.get("angles", lambda at, freq: at.double()[:, None] * freq)(positions, inv_freq)
    cos, sin = torch.cat((angles, angles), -1).cos().double(), torch.cat((angles, angles), -1).sin().double()
    rotate_half = wrong.get("rotate_half", lambda x: torch.cat((-x[..., dim // 2 :], x[..., : dim // 2]), -1))
    turn = lambda x: (x.double() * cos + rotate_half(x.double()) * sin).to(x.dtype)  # noqa: E731
    return turn(q), turn(k)


def with_mistake(**wrong):
    return lambda config, positions, q, k: llama(config, positions, q, k, **wrong)


def neighbours(x):
    return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)


def interleaved(config, positions, q, k):
    angles = (positions.double()[:, None] * frequencies(config, q.shape[-1])).repeat_interleave(2, -1)
    turn = lambda x: (x.double() * angles.cos() + neighbours(x.double()) * angles.sin()).to(x.dtype)  # noqa: E731
    return turn(q), turn(k)


def twice(config, positions, q, k):
    return llama(config, positions, *llama(config, positions, q, k))


def complex_numbers(config, positions, q, k):
    """As Meta's code has it: neighbours."""
    cis = torch.polar(torch.ones(1).double(), positions.double()[:, None] * frequencies(config, q.shape[-1]))
    turn = lambda x: torch.view_as_real(torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * cis).flatten(-2)  # noqa: E731
    return turn(q).to(q.dtype), turn(k).to(k.dtype)


def heads_and_tokens(config, positions, q, k):
    """The table over the axis of heads: q is taken for [batch, length, heads, features]."""
    pad = lambda x: torch.nn.functional.pad(x, (0, 0, 0, 0, 0, len(positions) - x.shape[1]))  # noqa: E731
    angles = positions.double()[:, None] * frequencies(config, q.shape[-1])
    angles = torch.cat((angles, angles), -1)[:, None]

    def turn(x):
        y = pad(x.double())
        half = torch.cat((-y[..., y.shape[-1] // 2 :], y[..., : y.shape[-1] // 2]), -1)
        return (y * angles.cos() + half * angles.sin())[:, : x.shape[1]].to(x.dtype)

    return turn(q), turn(k)


DEFAULT = {
    "pairing-interleaved": complex_numbers,
    "turned-backwards": with_mistake(rotate_half=lambda x: torch.cat((x[..., x.shape[-1] // 2 :], -x[..., : x.shape[-1] // 2]), -1)),
    "minus-missing": with_mistake(rotate_half=lambda x: torch.cat((x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)),
    "exponent-halved": with_mistake(inv_freq=lambda c, d: c["rope_theta"] ** (-torch.arange(d // 2).double() / d)),
    "exponent-doubled": with_mistake(inv_freq=lambda c, d: c["rope_theta"] ** (-torch.arange(0, d, 2).double() / (d // 2))),
    "exponent-from-one": with_mistake(inv_freq=lambda c, d: c["rope_theta"] ** (-torch.arange(2, d + 2, 2).double() / d)),
    "exponent-to-the-end": with_mistake(inv_freq=lambda c, d: c["rope_theta"] ** (-torch.linspace(0, 1, d // 2).double())),
    "base-10000": with_mistake(inv_freq=lambda c, d: frequencies(c, d, 10000.0)),
    "position-plus-one": with_mistake(angles=lambda at, freq: (at + 1).double()[:, None] * freq),
    "position-minus-one": with_mistake(angles=lambda at, freq: (at - 1).double()[:, None] * freq),
    "positions-ignored": with_mistake(angles=lambda at, freq: torch.arange(len(at)).double()[:, None] * freq),
    "position-bf16": with_mistake(angles=lambda at, freq: at.bfloat16().double()[:, None] * freq),
    "frequency-bf16": with_mistake(angles=lambda at, freq: at.double()[:, None] * freq.float().bfloat16().double()),
    "all-bf16": with_mistake(angles=lambda at, freq: at.bfloat16()[:, None] * freq.float().bfloat16()),
    "position-f16": with_mistake(angles=lambda at, freq: at.half().double()[:, None] * freq),
    "angle-bf16": with_mistake(angles=lambda at, freq: (at.float()[:, None] * freq.float()).bfloat16()),
    "turned-twice": twice,
    "heads-for-tokens": heads_and_tokens,
    "nothing-turned": lambda config, positions, q, k: (q, k),
    "keys-not-turned": lambda config, positions, q, k: (llama(config, positions, q, k)[0], k),
}


@pytest.mark.parametrize("name", DEFAULT)
def test_a_mistake_is_named(name):
    # As it is used where it happens: 16 bits of a position are not told by what is at 2^31.
    report = judged(DEFAULT[name], ["default", "half"])
    assert not report.ok
    assert report.mistakes[0] == name, report


def judged(rope, tags, **options):
    def within(config, positions, q, k):
        config = config | (config.get("rope_parameters") or config.get("rope_scaling") or {})
        return rope(config, positions, q, k)

    return conformance.judge(within, tags=tags, **options)


def test_right_ropes_are_right():
    assert judged(llama, ["default", "half"]).ok
    assert judged(interleaved, ["default", "interleaved"]).ok
    report = judged(lambda *given: llama(*given), ["default", "half"], dtypes=["f64"])
    assert report.ok and report.mistakes == [] and report.data["wrong"] == 0
    assert "exact angles" in str(report)


def test_angles_of_f32_are_right_and_said():
    usual = with_mistake(angles=lambda at, freq: at.float()[:, None] * freq.float())
    report = judged(usual, ["default", "half"], dtypes=["f32"])
    assert report.ok and "angles in f32" in str(report)


def yarn(config, positions, q, k, *, base=None, factor=True, truncate=True, clamp=None):
    dim, theta = q.shape[-1], config["rope_theta"]
    found = lambda turns: (  # noqa: E731
        dim * math.log(config["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(base or theta))
    )
    low, high = found(32), found(1)
    if truncate and config.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, (clamp or dim) - 1)
    ramp = ((torch.arange(dim // 2).double() - low) / (high - low)).clamp(0, 1)
    plain = frequencies(config, dim)
    inv_freq = plain / config["factor"] * ramp + plain * (1 - ramp)
    scale = config.get("attention_factor", 0.1 * math.log(config["factor"]) + 1.0) if factor else 1.0
    if "mscale" in config or q.shape[-1] != 64 or config.get("partial_rotary_factor"):
        raise NotImplementedError
    q, k = llama(config, positions, q, k, inv_freq=lambda *_: inv_freq)
    return tuple((x.double() * scale).to(x.dtype) for x in (q, k))


@pytest.mark.parametrize(
    ("name", "wrong"),
    {
        "factor-missing": {"factor": False},
        "yarn-ramp-of-base-10000": {"base": 10000.0},
        "yarn-ramp-not-rounded": {"truncate": False},
        "yarn-ramp-clamped-to-pairs": {"clamp": 32},
    }.items(),
)
def test_a_mistake_in_yarn_is_named(name, wrong):
    assert judged(yarn, ["yarn", "half"], dtypes=["f32"]).ok
    report = judged(lambda *given: yarn(*given, **wrong), ["yarn", "half"], dtypes=["f32"])
    assert report.mistakes == [name], report


def test_our_own_module_is_right():
    from rotary.torch import RotaryEmbedding

    def ours(config, positions, q, k):
        if positions.ndim > 1 or positions.max() > 200_000:  # a table that large is not made for a test
            raise NotImplementedError
        length = int(positions.max()) + 1  # rules that follow it are told
        return RotaryEmbedding.from_config(config)(q, k, positions, sequence_length=length)

    report = conformance.judge(ours, tags=["half"])
    assert report.ok, report
    assert not any(verdict.get("angles") == "f32" for verdict in report.data["verdicts"]), report


def test_numpy_without_bfloat16():
    numpy = pytest.importorskip("numpy")

    def rope(config, positions, q, k):
        dim = q.shape[-1]
        angles = positions[:, None] * config["rope_theta"] ** (-numpy.arange(0, dim, 2) / dim)

        def turn(x):
            a, b = numpy.split(x.astype("float64"), 2, axis=-1)
            y = a * numpy.cos(angles) - b * numpy.sin(angles), b * numpy.cos(angles) + a * numpy.sin(angles)
            return numpy.concatenate(y, -1).astype(x.dtype)

        return turn(q), turn(k)

    def within(config, *rest):
        return rope(config | (config.get("rope_parameters") or {}), *rest)

    report = conformance.judge(within, tags=["default", "half"], arrays="numpy")
    assert report.ok and {verdict["dtype"] for verdict in report.data["verdicts"]} == {"f32", "f16"}


def test_what_is_odd_is_said():
    with pytest.raises(rotary.RotaryError, match="the tag `nonsense`; expected one of"):
        conformance.judge(llama, tags=["nonsense"])
    with pytest.raises(TypeError, match="returned Tensor; expected the two of q and k"):
        judged(lambda config, positions, q, k: q, ["linear"])
    with pytest.raises(TypeError, match=r"linear.f32.q is of type torch.int64"):
        judged(lambda config, positions, q, k: (q.long(), k), ["linear"])

    def none(*_):
        raise NotImplementedError

    report = conformance.judge(none, tags=["linear"])
    assert not report.ok and report.data["missing"] == 1
    with pytest.raises(AssertionError, match="no answer"):
        report.check()


def test_the_report_as_a_page(tmp_path):
    report = judged(DEFAULT["turned-backwards"], ["default", "half"], dtypes=["f32"])
    report.page(tmp_path / "report.html")
    assert "<h2>turned-backwards</h2>" in (tmp_path / "report.html").read_text(encoding="utf-8")


LLAMA = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 8}


def test_a_live_model():
    transformers = pytest.importorskip("transformers")
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 500000.0}
    config = transformers.LlamaConfig(**LLAMA, max_position_embeddings=4096, rope_parameters=scaling)
    model = transformers.LlamaModel(config)
    report = conformance.judge_model(model)
    assert report.ok, report
    model.rotary_emb.attention_scaling = 1.0
    assert conformance.judge_model(model).mistakes == ["factor-missing"]
    model = transformers.LlamaModel(config)
    model.rotary_emb.inv_freq = model.rotary_emb.inv_freq.bfloat16()
    assert conformance.judge_model(model, dtypes=["f32"]).mistakes == ["frequency-bf16"]


def test_models_of_transformers():
    transformers = pytest.importorskip("transformers")
    for kind in ("Qwen2", "Qwen3", "Mistral", "Phi3", "Cohere", "Glm", "StableLm", "Olmo2"):
        shape = LLAMA | {"num_key_value_heads": 1, "pad_token_id": 0}
        shape |= {"head_dim": 32} if kind in ("Qwen3", "Glm") else {}
        model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape))
        report = conformance.judge_model(model)
        assert report.ok and report.data["missing"] == 0, f"{kind}\n{report}"


def test_the_plugin(tmp_path):
    (tmp_path / "test_rope.py").write_text(
        "import pytest, torch\n"
        "def rope(config, positions, q, k):\n"
        "    config = config | (config.get('rope_parameters') or {})\n"
        "    dim = q.shape[-1]\n"
        "    angle = positions[:, None].double() * config['rope_theta'] ** (-torch.arange(0, dim, 2).double() / dim)\n"
        "    turn = lambda x: torch.cat((x[..., :dim//2] * angle.cos() + x[..., dim//2:] * angle.sin(),\n"
        "                                x[..., dim//2:] * angle.cos() - x[..., :dim//2] * angle.sin()), -1).to(x.dtype)\n"
        "    return turn(q), turn(k)\n"
        "@pytest.mark.rope_conformance(tags=['default', 'half'], dtypes=['f32'])\n"
        "def test_rope(rope_case):\n"
        "    rope_case.check(rope)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    if not any(point.name == "rotary_conformance" for point in entry_points(group="pytest11")):
        command += ["-p", "rotary.conformance.plugin"]  # run beside the sources, nothing is installed
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_rope[default-half-f32]" in done.stdout
    assert "rotary embedding: rope" in done.stdout
    assert "turned-backwards: explains 4 answers" in done.stdout, done.stdout


def test_the_vectors_against_300_bits():
    pytest.importorskip("mpmath", reason="mpmath is not installed: the vectors are not compared")
    pytest.importorskip("transformers")
    pytest.importorskip("safetensors")
    script = ROOT / "conformance/make_vectors.py"
    command = [sys.executable, str(script), str(ROOT / "conformance/vectors"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "of 300-bit arithmetic" in done.stdout
