"""The table of bench/model, from its JSON lines: ours before, the peers, ours after, ours in f32."""
import json
import platform
import subprocess
import sys


def rows(path):
    with open(path) as file:
        # Some peers print progress among their lines.
        return [json.loads(line) for line in file if line.startswith("{")]


before, peers, after, single = (rows(path) for path in sys.argv[1:5])
threads, family, dtype = sys.argv[5], sys.argv[6], before[0]["dtype"]
shapes = [(row["batch"], row["length"]) for row in before]
at = lambda list, shape: next(row for row in list if (row["batch"], row["length"]) == shape)
failed = [row for row in peers if row["what"] == "failed"]
peers = [row for row in peers if row["what"] == "forward"]
names = list(dict.fromkeys(row["peer"] for row in peers))
model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
print(f"# A forward pass of {family} in {dtype} beside its peers\n\n- machine: {model}; {threads} threads; roformer {commit}")
print(f"- milliseconds, medians; Python {platform.python_version()}\n")
print("| | " + " | ".join(f"{batch}×{length}" for batch, length in shapes) + " |")
print("|---|" + "--:|" * len(shapes))
for name, ours in ((f"roformer {dtype}, before", before), (f"roformer {dtype}, after", after), ("roformer f32", single)):
    if name == "roformer f32" and dtype == "f32":
        continue
    print(f"| {name} | " + " | ".join(f"{at(ours, shape)['ms']:.1f}" for shape in shapes) + " |")
print("| of the peak in f32 | " + " | ".join(f"{at(before, s)['gflops'] / at(before, s)['peak_gflops']:.2f}" for s in shapes) + " |")
for name in names:
    list = [row for row in peers if row["peer"] == name]
    cells = (f"{at(list, s)['ms']:.1f} ({at(list, s)['ms'] / at(before, s)['ms']:.2f} ×)" for s in shapes)
    print(f"| {name} | " + " | ".join(cells) + " |")
fastest = lambda shape: min(at([r for r in peers if r["peer"] == name], shape)["ms"] for name in names)
if names:
    for word, ours in (("before", before), ("after", after)):
        cells = (f"{fastest(s) / at(ours, s)['ms']:.2f}" for s in shapes)
        print(f"| fastest peer / ours {word} | " + " | ".join(cells) + " |")
if dtype != "f32":
    print(f"| ours / ours in f32 | " + " | ".join(f"{at(after, s)['ms'] / at(single, s)['ms']:.2f}" for s in shapes) + " |")
print(f"\nPeak memory of ours: {at(after, shapes[2])['peak_mb']:.0f} MB at {shapes[2][0]}×{shapes[2][1]}, "
      f"weights {before[0]['weights_mb']:.0f} MB.")
for row in failed:
    print(f"\nNot measured: {row['peer']}: {row['why']}")
