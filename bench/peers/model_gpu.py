"""RoFormer-base forward on one CUDA GPU: transformers in bf16, eager and compiled, at 32×512 and a few smaller shapes."""
import sys

import torch
from transformers import RoFormerConfig, RoFormerModel

from common import report

SHAPES = [tuple(map(int, shape.split("x"))) for shape in sys.argv[1:]] or [(1, 16), (8, 128), (32, 512)]
torch.set_float32_matmul_precision("highest")


def milliseconds(f, repeats=21, warmup=5):
    """Quartiles by the GPU's clock, call by call."""
    times = []
    for _ in range(warmup + repeats):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        f()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    kept = sorted(times[warmup:])
    return [kept[round(part * (repeats - 1))] for part in (0.25, 0.5, 0.75)]


with torch.no_grad():
    for dtype in (torch.bfloat16, torch.float32):
        model = RoFormerModel(RoFormerConfig(vocab_size=12000)).eval().to("cuda", dtype)
        for peer, run in (
            ("transformers eager", model),
            ("torch.compile", torch.compile(model)),
            ("torch.compile, CUDA graphs", torch.compile(model, mode="reduce-overhead")),
        ):
            for batch, length in SHAPES:
                ids = torch.randint(0, 12000, (batch, length), device="cuda")
                low, middle, high = milliseconds(lambda: run(ids).last_hidden_state)
                report(what="forward", peer=peer, dtype=str(dtype), batch=batch, length=length, ms=middle,
                       ms_quartiles=[low, high], torch=torch.__version__)
        if dtype == torch.bfloat16:
            a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
            ms = milliseconds(lambda: a @ b)[1]
            report(what="product 8192", peer="torch", dtype=str(dtype), tflops=2 * 8192**3 / ms / 1e9)
