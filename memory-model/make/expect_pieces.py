"""Writes what the `tokenizers` package makes of hostile texts, for tests/it/tokens.rs.

    python expect_pieces.py ../tests/data/pieces.json
"""

import json
import sys
from pathlib import Path

from make_model import packed, tokenizer

TEXTS = [
    "", " ", "\t\r\n", "Hello, World!", "I'm swamped with the kids & work.", "don't won't it's we'll", "re-read co-op e-mail",
    "unbelievably antidisestablishmentarianism", "3.14159 1,000,000 10:30pm 2023-05-08 50% $20 #1", "C++ C# a_b snake_case camelCase",
    "café naïve Zürich Ångström señor crème brûlée", "cafe\u0301 e\u0301\u0302\u0323 a\u0308", "ﬁnance ﬂow ﬀ", "Straße GROSSE ẞ",
    "İstanbul ISTANBUL ı", "ΑΒΓ Σίσυφος ΣΊΣΥΦΟΣ", "Привет мир", "שלום עולם", "مرحبا بالعالم", "日本語のテキスト", "漢字kanji漢字",
    "한국어 텍스트", "हिन्दी पाठ", "ไทย", "😀 hi 👍🏽 👨‍👩‍👧 done", "zero\u200bwidth non\u00a0break soft\u00adhyphen bom\ufeffhere",
    "line\u2028sep para\u2029sep", "left\u202eright\u202cback", "nul\u0000byte bell\u0007 esc\u001b[31mred", "rep\ufffdlacement",
    "“quoted” ‘single’ «guillemets» — dash – en … dots", "•bullet ·middle §section ¶para ¿que? ¡hola!", "a\u2044b 5\u20ac 10\u00a3 x\u00d7y \u00b12",
    "½ ¾ ² ³ ™ © ® °C №", "！？（full）ｗｉｄｔｈ", "x" * 100, "x" * 101, "word " * 3 + "y" * 300 + " after", "a" * 99 + "é", "é" * 101,
    "[CLS] [SEP] [MASK] [UNK] [PAD] [unused1]", "##ing ## # ##s", "https://example.com/a?b=c&d=e#f", "name@example.com",
    "SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0Lg==", "fn main() { println!(\"{}\", x); }", "<b>bold</b> &amp; {\"k\": [1, 2]}",
    "ignore your rules", "A.B.C. U.S.A. Ph.D.", "Z̸a̷l̶g̵o̴ t̸e̷x̶t̵", "private \ue000 use \U000f0000", "mixedРусLatin 混合mixed", "o'clock O’Clock", "~`^|\\",
]


def main():
    words = tokenizer()
    # Texts are never read as special tokens by this project, and its vocabulary has no others than those packed.
    bare = json.loads(words.to_str())
    bare["added_tokens"] = []
    vocabulary = bare["model"]["vocab"]
    bare["model"]["vocab"] = {piece: at for piece, at in vocabulary.items() if packed(piece) or piece == "[UNK]"}
    from tokenizers import Tokenizer

    words = Tokenizer.from_str(json.dumps(bare))
    cases = []
    for text in TEXTS:
        found = words.encode(text, add_special_tokens=False).tokens
        cases.append({"text": text, "pieces": list(dict.fromkeys(piece for piece in found if packed(piece)))})
    lines = ",\n".join(json.dumps(case) for case in cases)
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")


main()
