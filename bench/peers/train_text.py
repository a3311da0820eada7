"""The run of `roformer train` on a text file, in PyTorch: the same model class, sizes, batches of blocks, steps and AdamW.

    train_text.py MODEL TEXT [STEPS] [THREADS]

MODEL is a folder that `roformer train` left: its config.json gives the sizes, its tokenizer the characters. Weights begin
by chance. Prints the seconds of the steps, eager and compiled (compiling itself left out), and the validation loss."""
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from common import report

folder, text = sys.argv[1:3]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
torch.set_num_threads(int(sys.argv[4]) if len(sys.argv) > 4 else 2)
BLOCK, BATCH = 64, 12
vocabulary = AutoTokenizer.from_pretrained(folder).get_vocab()
ids = torch.tensor([vocabulary[char] for char in open(text, encoding="utf-8").read()])
kept = round(len(ids) * 0.1)
train, validation = ids[:-kept], ids[-kept:]


def blocks(source, starts):
    return torch.stack([source[start:start + BLOCK + 1] for start in starts])


def loss_of(net, block):
    logits = net(block[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())


for name in ("torch eager", "torch.compile"):
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config)
    net = torch.compile(model) if name == "torch.compile" else model
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  1e-3, betas=(0.9, 0.99), fused=True)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 100, 1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 100)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [100])
    model.train()
    seconds = 0.0
    for step in range(-3, steps):
        start = time.perf_counter()
        loss = loss_of(net, blocks(train, torch.randint(len(train) - BLOCK, (BATCH,))))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        # The first three warm up: they compile, and change nothing.
        if step >= 0:
            optimizer.step()
            schedule.step()
        optimizer.zero_grad()
        if step >= 0:
            seconds += time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        starts = list(range(0, len(validation) - BLOCK, BLOCK))
        starts = starts[:len(starts) // 64 * 64]
        losses = [loss_of(model, blocks(validation, starts[at:at + 64])).item() for at in range(0, len(starts), 64)]
    report(what="train text", peer=name, steps=steps, seconds=seconds, validation_loss=sum(losses) / len(losses))
