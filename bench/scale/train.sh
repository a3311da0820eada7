#!/usr/bin/env bash
# One run on one process, and the same on two and four started by mpirun and torchrun: the same bytes, twice; a process killed in the
# middle, and the run resumed on another number. Prints what it did and how long it took.
#
#   bench/scale/train.sh FOLDER [STEPS]
#
# Needs target/release/roformer. A launcher that is not there is left out, with a word (TORCHRUN names torch's).
set -euo pipefail
folder=$1 steps=${2:-50}
cd "$(dirname "$0")/../.."
roformer=$PWD/target/release/roformer
torchrun=${TORCHRUN:-torchrun}
rm -rf "$folder" && mkdir -p "$folder"
flags=(--data README.md docs/training.md docs/compare.md --accumulate 4 --steps "$steps" --eval-every 25 --save-every 10 --layers 2 --width 64
  --block 32 --batch 8 --threads 1 --device cpu)

# What must be the same: every loss, the last state, the best model.
same() {
  python3 - "$1" "$2" <<'END'
import json, pathlib, sys
def of(folder):
    folder = pathlib.Path(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [(line["step"], line.get("loss"), line.get("validation_loss")) for line in lines]
    return losses, *((folder / name).read_bytes() for name in [json.loads((folder / "state.json").read_text())["state"], "best/model.safetensors"])
a, b = of(sys.argv[1]), of(sys.argv[2])
worst = max(abs(x - y) for one, other in zip(a[0], b[0]) for x, y in zip(one[1:], other[1:]) if x is not None)
assert a == b, f"other bytes; losses differ by up to {worst}"
print(f"  {len(a[0])} lines of losses (differences up to {worst}), state and best model: the same bytes")
END
}

timed() {
  local start end
  start=$(date +%s.%N)
  "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  end=$(date +%s.%N)
  awk "BEGIN { printf \"%.2f s\", $end - $start }"
}

echo "one process: $(timed "$roformer" train "${flags[@]}" --out "$folder/one")"
for launcher in mpirun "$torchrun"; do
  if ! command -v "$launcher" >/dev/null; then
    echo "without $launcher: it is not installed"
    continue
  fi
  for world in 2 4; do
    case $launcher in
      mpirun) launch=(mpirun --allow-run-as-root --oversubscribe -n "$world") ;;
      *) launch=("$launcher" --no-python --nproc-per-node "$world") ;;
    esac
    for again in "" -again; do
      out=$folder/$(basename "$launcher")-$world$again
      echo "$(basename "$launcher"), $world processes: $(timed "${launch[@]}" "$roformer" train "${flags[@]}" --out "$out")"
      same "$folder/one" "$out"
    done
  done
done

# Four processes without a launcher, so that nothing else ends them; one is killed; two go on.
out=$folder/killed
export WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_PORT=29871
pids=()
for rank in 0 1 2 3; do
  RANK=$rank "$roformer" train "${flags[@]}" --out "$out" >"$folder/rank-$rank" 2>&1 &
  pids+=($!)
done
until grep -qs '"step": 10' "$out/state.json"; do sleep 0.02; done
kill -9 "${pids[2]}"
start=$(date +%s.%N)
for pid in "${pids[0]}" "${pids[1]}" "${pids[3]}"; do wait "$pid" && exit 1; done
echo "rank 2 killed: the others ended in $(awk "BEGIN { printf \"%.2f\", $(date +%s.%N) - $start }") s and said"
for rank in 0 1 3; do echo "  rank $rank: $(tail -n 1 "$folder/rank-$rank")"; done
unset WORLD_SIZE LOCAL_WORLD_SIZE
if command -v mpirun >/dev/null; then
  echo "resumed on 2 processes: $(timed mpirun --allow-run-as-root --oversubscribe -n 2 "$roformer" train --out "$out" --resume --device cpu)"
else
  echo "resumed on one process: $(timed "$roformer" train --out "$out" --resume --device cpu)"
fi
same "$folder/one" "$out"
