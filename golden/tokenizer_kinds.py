"""Makes small files of the kinds of tokenizers that models come with, in `tokenizer-kinds/`.

    python golden/tokenizer_kinds.py

Each is trained on the sentences of tokenizer.py with the library tokenizers, so that it has the steps of a kind (byte-level BPE
as in GPT-2, with a pattern and whole words kept as in Llama 3, SentencePiece's BPE as in Gemma, Unigram with and without cuts
at blanks, CLIP's word ends) and a vocabulary of a few hundred entries.
"""

import json
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import manifest

OUT = Path(__file__).resolve().parent / "tokenizer-kinds"
SOURCE = Path(__file__).resolve().parent / "tokenizer" / "cases.json"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def texts():
    cases = json.loads(SOURCE.read_text())["cases"]
    return [case["text"] for case in cases if isinstance(case["text"], str)]


def train(name, model, trainer, normalizer=None, pre_tokenizer=None, post=None, added=(), change=None):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_tokens(list(added))
    if post:
        tokenizer.post_processor = post(tokenizer)
    file = json.loads(tokenizer.to_str())
    if change:
        change(file)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(file, ensure_ascii=False, indent=0) + "\n")


def template(tokenizer):
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    return processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", ids)


def bpe(size=500, **options):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, **options)


def unigram():
    return trainers.UnigramTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )


def keep_words(file):
    file["model"]["ignore_merges"] = True


def main():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    mask = AddedToken("<mask>", lstrip=True, special=True, normalized=False)
    train(
        "byte-level",
        models.BPE(),
        bpe(initial_alphabet=alphabet),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        post=template,
        added=[mask, AddedToken("hello", single_word=True)],
    )
    train(
        "split",
        models.BPE(),
        bpe(initial_alphabet=alphabet),
        normalizer=normalizers.NFC(),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
        ),
        post=lambda _: processors.ByteLevel(trim_offsets=True),
        change=keep_words,
    )
    train(
        "no-cuts",
        models.BPE(unk_token="<unk>", fuse_unk=True),
        bpe(700, limit_alphabet=300),
        normalizer=normalizers.Replace(" ", "▁"),
        # Pieces that reach over signs, and none over blanks.
        pre_tokenizer=pre_tokenizers.Split("▁", "merged_with_next"),
        post=template,
        change=lambda file: file.update(pre_tokenizer=None),
    )
    train(
        "unigram",
        models.Unigram(),
        unigram(),
        normalizer=normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
        ),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        post=template,
        added=[mask],
    )
    train(
        "unigram-no-split",
        models.Unigram(),
        unigram(),
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"),
        change=lambda file: file["pre_tokenizer"].update(split=False),
    )
    train(
        "word-ends",
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        bpe(end_of_word_suffix="</w>"),
        normalizer=normalizers.Lowercase(),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)]
        ),
    )
    manifest.update("tokenizer-kinds", tokenizers=tokenizers.__version__)


if __name__ == "__main__":
    main()
