"""The lab of `roformer compare` once more, in PyTorch: written from docs/compare.md and docs/theory.md alone.

    python lab_torch.py [--results comparison/results.json] [--tasks copy repeat majority] [--seeds 5] [--processes 2]

Rotary embedding, none, ALiBi and learned positions on copy, repeat and the control, with every setting of the quick preset. Chance is
PyTorch's and NumPy's, so no number is the same: what must agree are the verdicts. One JSON object per line: each run, each verdict and,
with --results, each verdict beside that of `roformer compare --encodings rotary none alibi learned --seeds 5`.
"""
import argparse
import json
import math
import multiprocessing
import zlib

import numpy as np
import torch
import torch.nn.functional as F

ENCODINGS = ["rotary", "none", "alibi", "learned"]
RATES = [0.001, 0.003, 0.006]
WIDTH, LAYERS, HEAD, BATCH, EXAMPLES, POINTS = 64, 2, 32, 32, 128, 50
LEARNED, MARGIN, LEVEL = 0.95, 0.05, 0.05
SEARCH_SEED = 1_000_001
PAD, BEGIN, ASK, END, FIRST = 0, 1, 2, 3, 4
IGNORE = -100


class Task:
    """A task of the quick preset: `text` gives a question and its answer of a length."""

    def __init__(self, symbols, trained, tested, steps, tokens, text):
        self.vocabulary, self.trained, self.tested, self.steps = FIRST + symbols, trained, tested, steps
        self.tokens, self.text, self.symbols = tokens, text, symbols

    def batch(self, lengths, chance, tokens):
        ids, targets = np.full((len(lengths), tokens), PAD), np.full((len(lengths), tokens), IGNORE)
        for row, length in enumerate(lengths):
            question, answer = self.text(length, self.symbols, chance)
            text = [BEGIN, *question, ASK, *answer]
            ids[row, : len(text) - 1] = text[:-1]
            targets[row, len(question) + 1 : len(text) - 1] = answer
        return torch.from_numpy(ids), torch.from_numpy(targets)


def copy(length, symbols, chance):
    text = [FIRST + int(symbol) for symbol in chance.permutation(symbols)[:length]]
    return text, [*text, END]


def repeat(length, symbols, chance):
    text = [FIRST + int(chance.integers(symbols))] * length
    return text, [*text, END]


def majority(length, symbols, chance):
    winner = int(chance.integers(symbols))
    text = [winner] * length
    votes = int(chance.integers(length // 2 + 1, length + 1))
    for place in chance.permutation(length)[: length - votes]:
        text[place] = (winner + 1 + int(chance.integers(symbols - 1))) % symbols
    return [FIRST + symbol for symbol in text], [FIRST + winner]


TASKS = {
    "copy": Task(16, 8, [2, 4, 6, 8, 9, 10, 12, 16], 700, lambda n: 2 * n + 2, copy),
    "repeat": Task(16, 8, [2, 4, 6, 8, 9, 10, 12, 16], 500, lambda n: 2 * n + 2, repeat),
    "majority": Task(8, 12, [4, 8, 12, 16, 24], 300, lambda n: n + 2, majority),
}


def number(*parts):
    """A seed from names and numbers: what shares them shares its chance."""
    return zlib.crc32(json.dumps(parts).encode())


class Model:
    """Tensors by name, so that two encodings share those that both have."""

    def __init__(self, encoding, vocabulary, longest, seed):
        self.encoding, self.tensors, self.decaying = encoding, {}, []
        deviation = 0.02 * math.sqrt(768 / WIDTH)

        def add(name, *shape, first=None):
            generator = torch.Generator().manual_seed(number("tensor", name, seed))
            tensor = torch.randn(shape, generator=generator) * deviation if first is None else torch.full(shape, first)
            self.tensors[name] = tensor.requires_grad_()
            if first is None and name != "positions":
                self.decaying.append(name)

        add("words", vocabulary, WIDTH)
        for layer in range(LAYERS):
            for norm in "norm1", "norm2":
                add(f"{layer}.{norm}.weight", WIDTH, first=1.0)
                add(f"{layer}.{norm}.bias", WIDTH, first=0.0)
            for name, rows, columns in (
                ("attended", 3 * WIDTH, WIDTH), ("out", WIDTH, WIDTH), ("up", 4 * WIDTH, WIDTH), ("down", WIDTH, 4 * WIDTH),
            ):
                add(f"{layer}.{name}.weight", rows, columns)
                add(f"{layer}.{name}.bias", rows, first=0.0)
        add("scores.weight", vocabulary, WIDTH)
        add("scores.bias", vocabulary, first=0.0)
        if encoding == "learned":
            add("positions", longest, WIDTH)

    def linear(self, name, x):
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def norm(self, name, x):
        return F.layer_norm(x, (WIDTH,), self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], 1e-5)

    def forward(self, ids):
        """ids [batch, tokens] → scores [batch, tokens, vocabulary]."""
        batch, tokens = ids.shape
        x = self.tensors["words"][ids]
        if self.encoding == "learned":
            x = x + self.tensors["positions"][:tokens]
        place = torch.arange(tokens)
        distance = place[:, None] - place[None, :]
        bias = torch.zeros(WIDTH // HEAD, tokens, tokens)
        if self.encoding == "alibi":
            slopes = torch.tensor([2.0**-4, 2.0**-8])
            bias = -slopes[:, None, None] * distance.abs()
        bias = bias.masked_fill(distance < 0, float("-inf"))
        for layer in range(LAYERS):
            read = self.linear(f"{layer}.attended", self.norm(f"{layer}.norm1", x))
            q, k, v = read.view(batch, tokens, 3, WIDTH // HEAD, HEAD).permute(2, 0, 3, 1, 4)
            if self.encoding == "rotary":
                q, k = turn(q, place), turn(k, place)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = x + self.linear(f"{layer}.out", attended.transpose(1, 2).reshape(batch, tokens, WIDTH))
            inner = F.gelu(self.linear(f"{layer}.up", self.norm(f"{layer}.norm2", x)))
            x = x + self.linear(f"{layer}.down", inner)
        return self.linear("scores", x)


def turn(x, place):
    """x [batch, heads, tokens, 32], the pairs (2j, 2j+1) turned by m·10000^(−2j/32)."""
    angle = place[:, None] * 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def run(job):
    """Trains and measures one model; what was asked for, its curve, and the part of answers that are right by length."""
    torch.set_num_threads(1)
    task = TASKS[job["task"]]
    steps = -(-task.steps // 3) if job["purpose"] == "search" else task.steps
    model = Model(job["encoding"], task.vocabulary, max(map(task.tokens, task.tested)), job["seed"])
    kept = [tensor for name, tensor in model.tensors.items() if name not in model.decaying]
    decaying = [model.tensors[name] for name in model.decaying]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": kept, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-8, fused=True)
    losses, warm = [], steps // 10
    for step in range(steps):
        shown = steps - 1 - step if job["purpose"] == "again" else step
        chance = np.random.default_rng(number("train", job["task"], job["seed"], shown))
        ids, targets = task.batch(chance.integers(1, task.trained + 1, BATCH), chance, task.tokens(task.trained))
        done = max(step + 1 - warm, 0) / max(steps - warm, 1)
        rate = job["rate"] * ((step + 1) / warm if step + 1 < warm else 0.5 * (1 + math.cos(math.pi * done)))
        for group in adam.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model.forward(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(model.tensors.values()), 1.0)
        adam.step()
        losses.append(loss.item())
    every = max(-(-steps // POINTS), 1)
    curve = [(min(at + every, steps), float(np.mean(losses[at : at + every]))) for at in range(0, steps, every)]
    exact, answered = {}, {}
    with torch.no_grad():
        for length in task.tested:
            chance = np.random.default_rng(number("test", job["task"], job["seed"], length))
            ids, targets = task.batch([length] * EXAMPLES, chance, task.tokens(length))
            scores = model.forward(ids)
            right = (scores.argmax(-1) == targets) | (targets == IGNORE)
            exact[length] = right.all(1).double().mean().item()
            answered[length] = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORE).item()
    in_range = [length for length in task.tested if length <= task.trained]
    mean = lambda lengths, of: float(np.mean([of[length] for length in lengths]))
    return {
        **job, "curve": curve, "test loss": mean(in_range, answered), "in range": mean(in_range, exact),
        "beyond": mean([length for length in task.tested if length > task.trained], exact),
    }


def t_tail(t, degrees):
    """The chance that Student's t is above t, by Simpson's rule over its density, x = tan(u)."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    u = np.linspace(math.atan(t), math.pi / 2, 20_001)[:-1]
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    x = np.tan(u)
    # dx = (1 + x²)du; at the end, where x has no bound, the integrand is 0 (or a constant for one degree).
    y = np.exp(log - (degrees + 1) / 2 * np.log1p(x * x / degrees) + np.log1p(x * x))
    y = np.append(y, 1 / math.pi if degrees == 1 else 0.0)
    weights = np.where(np.arange(y.size) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return float((y * weights).sum() * (u[1] - u[0]) / 3)


def judge(differences, margin):
    """mean, p of a mean of 0, p of a mean beyond the margin."""
    differences = np.asarray(differences)
    mean, error = differences.mean(), differences.std(ddof=1) / math.sqrt(differences.size)
    ratio = lambda value: 0.0 if value == 0 else math.copysign(math.inf, value) if error == 0 else value / error
    degrees = differences.size - 1
    return float(mean), 2 * t_tail(ratio(abs(mean)), degrees), t_tail(ratio(margin - abs(mean)), degrees)


def values(measure, ours, theirs, vocabulary):
    """What a run and the baseline's of the same seed have on a measure."""
    if measure in ("in range", "beyond"):
        return ours[measure], theirs[measure]
    last = [run["curve"][-1][1] for run in (ours, theirs)]
    if measure == "loss":
        return last
    wanted = max(*last, 0.1 * math.log(vocabulary))
    return [next(step for step, loss in run["curve"] if loss <= wanted) for run in (ours, theirs)]


def verdicts(name, runs):
    """Every encoding, and the first in another order, against the first on every measure."""
    task, of = TASKS[name], {}
    for found in runs:
        of.setdefault((found["encoding"], found["purpose"]), []).append(found)
    base = of["rotary", "run"]
    rows = [(encoding, "run") for encoding in ENCODINGS[1:]] + [("rotary", "again")]
    has_learned = lambda runs: np.mean([run["in range"] for run in runs]) >= LEARNED
    for measure in ("in range", "beyond", "loss", "speed"):
        margin = MARGIN * task.steps if measure == "speed" else MARGIN
        found = []
        for row in rows:
            pairs = [values(measure, ours, theirs, task.vocabulary) for ours, theirs in zip(of[row], base)]
            is_judged = measure != "beyond" or (has_learned(of[row]) and has_learned(base))
            found.append((row, is_judged, *judge([ours - theirs for ours, theirs in pairs], margin)))
        # Holm's correction over all, those that are not judged with a p-value of 1.
        order = sorted((p if is_judged else 1.0, row) for row, is_judged, _, p, _ in found)
        holm, highest = {}, 0.0
        for rank, (p, row) in enumerate(order):
            holm[row] = highest = max(highest, min(1.0, p * (len(order) - rank)))
        for row, is_judged, mean, p, p_equal in found:
            if not is_judged:
                verdict = "not judged"
            elif p_equal < LEVEL:
                verdict = "tie"
            elif holm[row] < LEVEL:
                verdict = "better" if (mean > 0) == (measure in ("in range", "beyond")) else "worse"
            else:
                verdict = "unclear"
            yield {
                "task": name, "encoding": row[0], "is_again": row[1] == "again", "measure": measure, "mean": mean,
                "p_holm": holm[row], "p_equal": p_equal, "verdict": verdict,
            }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--results", help="results.json of roformer compare, to stand beside")
    arguments.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--processes", type=int, default=2)
    given = arguments.parse_args()
    theirs = {}
    for task in json.load(open(given.results))["tasks"] if given.results else []:
        for row in task["comparisons"]:
            theirs[task["name"], row["encoding"], row["is_again"], row["measure"]] = row
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        cells = [(task, encoding) for task in given.tasks for encoding in ENCODINGS]
        names = "task", "encoding", "purpose", "rate", "seed"
        searches = pool.map(run, [dict(zip(names, (*cell, "search", rate, SEARCH_SEED))) for cell in cells for rate in RATES], 1)
        jobs = []
        for index, cell in enumerate(cells):
            tried = searches[len(RATES) * index : len(RATES) * (index + 1)]
            rate = min(tried, key=lambda found: found["test loss"])["rate"]
            purposes = ["run", "again"] if cell[1] == "rotary" else ["run"]
            jobs += [dict(zip(names, (*cell, purpose, rate, seed))) for purpose in purposes for seed in range(1, given.seeds + 1)]
        runs = pool.map(run, jobs, 1)
    for found in runs:
        print(json.dumps({key: value for key, value in found.items() if key != "curve"}))
    for task in given.tasks:
        for row in verdicts(task, [found for found in runs if found["task"] == task]):
            other = theirs.get((task, row["encoding"], row["is_again"], row["measure"]))
            if other:
                verdict = "not judged" if other["not_judged"] else other["verdict"]
                row |= {"roformer": verdict, "roformer mean": other["mean"], "agrees": verdict == row["verdict"]}
            print(json.dumps(row))


if __name__ == "__main__":
    main()
