"""Writes the texts of tests/it/tokens.json with the pieces that the package `tokenizers` finds in them.

    python make_tokens.py ../data/model.bin ../tests/it/tokens.json
"""

import json
import random
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

TEXTS = [
    "",
    " \t\r\n",
    "Hello, world!",
    "When did Caroline's sister move to Lisbon?",
    "It's 3.14, $5.00 and 50% off; e-mail me@example.com (or not) <b>now</b>",
    "Crème brûlée, naïve Zoë, Ångström, İstanbul, STRASSE, Straße, ﬁsh, Ǆ",
    "e\u0301 a\u0308 o\u0323\u0302",
    "東京タワー and 서울 and Москва and שלום and مرحبا and नमस्ते",
    "mixed東京word abcд дabc",
    "zero\u200bwidth\u200djoiner soft\u00adhyphen \ufeffmark re\u2028line\u2029para\u00a0space\u3000wide",
    "\u0000null\u0007bell\u001b[31mred\u007f \u0085next",
    "\u202eright to left\u202c",
    "“curly” ‘quotes’ – dash — long… ¿qué? ¡sí! «non» §5 ¶ · †",
    "🎉🎉 party 👩‍👩‍👧 ❤️ ☕",
    "a" * 99 + " " + "a" * 100 + " " + "a" * 101,
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "fn main() { let x = &mut self.rows[0..5]; /* `code` */ }",
    "aGVsbG8gd29ybGQ= 0xDEADBEEF 550e8400-e29b-41d4-a716-446655440000",
    "[CLS] [UNK] ##ing ## [unused1] [MASK]",
    "x² ½ Ⅷ ① ℃ ™ © ® ° ± × ÷ € £ ¥",
    "^ ` ~ | \\ _ under_score ´ ¨ ¸",
]
SEED = 7
ALPHABET = "aeinorst  ..,'-_\u00e9\u00df\u0301\u4e2d\u200b\u2019\u00bf\U0001f600\t7#[]\u0436\u3002"


def vocabulary(data):
    count, _, name, size = struct.unpack_from("<IIII", data, 4)
    pieces = data[20 + name : 20 + name + size].decode().split("\n")
    assert len(pieces) == count
    return pieces


def main():
    known = {piece: at for at, piece in enumerate(vocabulary(Path(sys.argv[1]).read_bytes()))}
    known["[UNK]"] = len(known)
    tokenizer = Tokenizer(WordPiece(known, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    chance = random.Random(SEED)
    texts = TEXTS + ["".join(chance.choices(ALPHABET, k=40)) for _ in range(200)]
    found = [[text, list(dict.fromkeys(t for t in tokenizer.encode(text).tokens if t != "[UNK]"))] for text in texts]
    lines = ",\n".join(json.dumps(each) for each in found)
    Path(sys.argv[2]).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
