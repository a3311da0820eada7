"""Makes a folder with a base model to load servers with: BERT-base with random weights, mean pooling, a small vocabulary.

    python bench/serve/base.py FOLDER

Speed does not depend on what the weights are. The folder has the model as safetensors and as `model.onnx`. Needs what `beside.py` names.
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
model = BertModel(BertConfig(vocab_size=len(vocabulary))).eval()
model.save_pretrained(transformer)
BertTokenizerFast.from_pretrained(transformer, model_max_length=512).save_pretrained(transformer)
parts = models.Transformer(str(transformer), max_seq_length=512)
SentenceTransformer(modules=[parts, models.Pooling(parts.get_word_embedding_dimension())]).save(str(folder))
for file in transformer.iterdir():
    file.unlink()
transformer.rmdir()


class States(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids, attention_mask, token_type_ids).last_hidden_state


# Beside the weights: infinity-emb names the file to optimum, which looks for a name without a folder.
names = ["input_ids", "attention_mask", "token_type_ids"]
ids = torch.ones(2, 8, dtype=torch.long)
free = {name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]}
torch.onnx.export(States(), (ids, ids, torch.zeros_like(ids)), folder / "model.onnx", input_names=names, output_names=["last_hidden_state"],
                  dynamic_axes=free, opset_version=17, dynamo=False)
