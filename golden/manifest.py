"""Keeps `manifest.json`: versions, and the size and hash of every data file."""

import hashlib
import json
import platform
from pathlib import Path

import numpy
import safetensors
import torch
import transformers

HERE = Path(__file__).resolve().parent


def update(folder, **fields):
    """Replaces the entries of the files under `folder`; keeps those of other folders."""
    path = HERE / "manifest.json"
    old = json.loads(path.read_text()) if path.exists() else {}
    files = {name: entry for name, entry in old.get("files", {}).items() if not name.startswith(f"{folder}/")}
    for file in sorted(p for p in (HERE / folder).rglob("*") if p.is_file()):
        data = file.read_bytes()
        name = file.relative_to(HERE).as_posix()
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        print(f"{name}: {len(data)} bytes")
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": numpy.__version__,
        "safetensors": safetensors.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    manifest = old | versions | fields | {"files": dict(sorted(files.items()))}
    path.write_text(json.dumps(manifest, indent=2) + "\n")
