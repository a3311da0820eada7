"""The table of bench/model, from its JSON lines: ours before, the peers, ours after."""
import json
import platform
import subprocess
import sys


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


before, peers, after = (rows(path) for path in sys.argv[1:4])
shapes = [(row["batch"], row["length"]) for row in before]
at = lambda list, shape: next(row for row in list if (row["batch"], row["length"]) == shape)
failed = [row for row in peers if row["what"] == "failed"]
peers = [row for row in peers if row["what"] == "forward"]
names = list(dict.fromkeys(row["peer"] for row in peers))
model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
print(f"# A forward pass of {sys.argv[5]} beside its peers\n\n- machine: {model}; {sys.argv[4]} threads; roformer {commit}")
print(f"- milliseconds, medians; Python {platform.python_version()}\n")
print("| | " + " | ".join(f"{batch}×{length}" for batch, length in shapes) + " |")
print("|---|" + "--:|" * len(shapes))
for name, ours in (("roformer f32, before", before), ("roformer f32, after", after)):
    print(f"| {name} | " + " | ".join(f"{at(ours, shape)['ms']:.1f}" for shape in shapes) + " |")
print("| of the peak | " + " | ".join(f"{at(before, s)['gflops'] / at(before, s)['peak_gflops']:.2f}" for s in shapes) + " |")
for name in names:
    list = [row for row in peers if row["peer"] == name]
    cells = (f"{at(list, s)['ms']:.1f} ({at(list, s)['ms'] / at(before, s)['ms']:.2f} ×)" for s in shapes)
    print(f"| {name} | " + " | ".join(cells) + " |")
single = [name for name in names if "bf16" not in name and "bfloat16" not in name]
fastest = lambda shape: min(at([r for r in peers if r["peer"] == name], shape)["ms"] for name in single)
print("| fastest f32 peer / ours | " + " | ".join(f"{fastest(s) / at(before, s)['ms']:.2f}" for s in shapes) + " |")
print(f"\nPeak memory of ours: {at(after, shapes[2])['peak_mb']:.0f} MB at {shapes[2][0]}×{shapes[2][1]}, "
      f"weights {before[0]['weights_mb']:.0f} MB.")
for row in failed:
    print(f"\nNot measured: {row['peer']}: {row['why']}")
