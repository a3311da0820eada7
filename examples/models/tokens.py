"""The tokenizers of the tiny models."""

import rjieba
import torch
import transformers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)

# Words that are not in the vocabulary whole.
PIECES = {
    "apples": "apple ##s",
    "bananas": "banana ##s",
    "books": "book ##s",
    "reading": "read ##ing",
    "singing": "sing ##ing",
    "cooking": "cook ##ing",
    "roformer": "ro ##former",
}


def is_chinese(text):
    return all("\u4e00" <= c <= "\u9fff" for c in text)


def character_tokenizer(texts):
    """A BERT tokenizer for every character and every English word of the texts."""
    backend = transformers.BertTokenizer().backend_tokenizer
    text = backend.normalizer.normalize_str("\n".join(sorted(set(texts))))
    words = {word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)}
    return transformers.BertTokenizer(vocab=numbered(words))


def word_tokenizer(texts):
    """A RoFormer tokenizer: the words that jieba finds, their characters, and pieces of English words."""
    words = set()
    for text in set(texts):
        for word in rjieba.cut(text.lower(), hmm=False):
            if is_chinese(word):
                # jieba knows whole phrases, such as 今天天气. A vocabulary has few of them.
                words |= set(word) | ({word} if len(word) <= 3 else set())
            else:
                words |= set(PIECES.get(word, word).split())
    # The vocabulary is given as a dictionary: from a folder without a tokenizer.json, transformers 5.22
    # looks for words in the name of the vocabulary's file and so cuts every word into characters.
    return transformers.RoFormerTokenizer(vocab=numbered(words))


def numbered(words):
    return {word: i for i, word in enumerate(SPECIAL + sorted(words - set(SPECIAL)))}


def padded(rows, value=PAD):
    length = max(map(len, rows))
    return torch.tensor([row + [value] * (length - len(row)) for row in rows])
