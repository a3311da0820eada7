"""Writes `crates/conform/src/full.json`: the configurations of `golden/rope/frequencies.json`, each once, by name.

    python conformance/full_set.py
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main():
    found = {}
    for case in json.loads((ROOT / "golden/rope/frequencies.json").read_text())["cases"]:
        found.setdefault(json.dumps(case["config"], sort_keys=True), (case["name"].split("/")[0], case["config"]))
    rows = [json.dumps({"name": name, "config": config}, separators=(",", ":")) for name, config in found.values()]
    (ROOT / "crates/conform/src/full.json").write_text("[" + ",\n".join(rows) + "]\n")
    print(f"{len(rows)} configurations")


if __name__ == "__main__":
    main()
