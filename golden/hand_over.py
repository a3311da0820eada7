"""Compares the tokenizer of a folder here and in transformers.

    python golden/hand_over.py target/release/roformer FOLDER...

A folder is one that `roformer train` has handed over (`OUT/last`). The texts
are those of `tokenizer/cases.json` and the lines of the Chinese README: the ids
of `roformer tokenize` must be those of AutoTokenizer, and of transformers'
class that the folder names. Nothing is written.
"""

import json
import subprocess
import sys
from pathlib import Path

import transformers

HERE = Path(__file__).resolve().parent


def texts():
    for case in json.loads((HERE / "tokenizer/cases.json").read_text())["cases"]:
        text = case["text"]
        yield text if isinstance(text, str) else text[0] * text[1]
    yield from (HERE.parent / "README.zh-CN.md").read_text().splitlines()


def ours(program, folder, found):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in found)
    command = [program, "tokenize", "--model", folder, "--input", "-", "--jsonl", "--json"]
    out = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line)["ids"] for line in out.splitlines()]


def main():
    transformers.logging.set_verbosity_error()
    program, *folders = sys.argv[1:]
    found = list(texts())
    for folder in folders:
        wanted = ours(program, folder, found)
        automatic = transformers.AutoTokenizer.from_pretrained(folder)
        named = json.loads((Path(folder) / "tokenizer_config.json").read_text())["tokenizer_class"]
        for tokenizer in (automatic, getattr(transformers, named).from_pretrained(folder)):
            different = [text for text, ids in zip(found, wanted, strict=True) if tokenizer(text).input_ids != ids]
            print(f"{folder}: {type(tokenizer).__name__}, {len(different)} of {len(found)} texts differ")
            assert not different, different[:3]


if __name__ == "__main__":
    main()
