"""Makes a folder with a base model to load servers with: BERT-base with random weights, mean pooling, a small vocabulary.

    python bench/serve/base.py FOLDER

Speed does not depend on what the weights are. Needs torch, transformers and sentence-transformers.
"""

import sys
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertModel, BertTokenizerFast

WORDS = "the river today weather is fine and a small house we walk".split() + list("今天气很好北京")

folder = Path(sys.argv[1])
transformer = folder / "transformer"
transformer.mkdir(parents=True)
letters = [chr(code) for code in range(33, 127)]
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys([*WORDS, *letters]), *(f"##{x}" for x in letters)]
(transformer / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
torch.manual_seed(1)
BertModel(BertConfig(vocab_size=len(vocabulary))).save_pretrained(transformer)
BertTokenizerFast(vocab=str(transformer / "vocab.txt"), model_max_length=512).save_pretrained(transformer)
parts = models.Transformer(str(transformer), max_seq_length=512)
SentenceTransformer(modules=[parts, models.Pooling(parts.get_word_embedding_dimension())]).save(str(folder))
for file in transformer.iterdir():
    file.unlink()
transformer.rmdir()
