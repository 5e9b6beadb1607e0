"""The strings that tokenizers are compared on: every script, emoji, code, runs, bytes, mixtures.

Deterministic: random.Random with a fixed seed and Unicode ranges written out here, so that neither
the Python nor its Unicode version matters.
"""

import random

SEED = 20240623

# (first, last) of letters and signs of many scripts; unassigned points among them are welcome.
SCRIPTS = {
    "latin": (0x0041, 0x007A), "latin1": (0x00A0, 0x00FF), "latin_extended": (0x0100, 0x024F),
    "ipa": (0x0250, 0x02AF), "modifiers": (0x02B0, 0x02FF), "greek": (0x0370, 0x03FF),
    "cyrillic": (0x0400, 0x04FF), "armenian": (0x0531, 0x0587), "hebrew": (0x0590, 0x05F4),
    "arabic": (0x0600, 0x06FF), "syriac": (0x0700, 0x074F), "thaana": (0x0780, 0x07B1),
    "nko": (0x07C0, 0x07FA), "devanagari": (0x0900, 0x097F), "bengali": (0x0980, 0x09FE),
    "gurmukhi": (0x0A01, 0x0A76), "gujarati": (0x0A81, 0x0AFF), "oriya": (0x0B01, 0x0B77),
    "tamil": (0x0B82, 0x0BFA), "telugu": (0x0C00, 0x0C7F), "kannada": (0x0C80, 0x0CF3),
    "malayalam": (0x0D00, 0x0D7F), "sinhala": (0x0D81, 0x0DF4), "thai": (0x0E01, 0x0E5B),
    "lao": (0x0E81, 0x0EDF), "tibetan": (0x0F00, 0x0FDA), "myanmar": (0x1000, 0x109F),
    "georgian": (0x10A0, 0x10FF), "hangul_jamo": (0x1100, 0x11FF), "ethiopic": (0x1200, 0x137C),
    "cherokee": (0x13A0, 0x13FD), "canadian": (0x1400, 0x167F), "ogham": (0x1680, 0x169C),
    "runic": (0x16A0, 0x16F8), "khmer": (0x1780, 0x17F9), "mongolian": (0x1800, 0x18AA),
    "greek_extended": (0x1F00, 0x1FFE), "punctuation": (0x2000, 0x206F),
    "superscripts": (0x2070, 0x209C), "currency": (0x20A0, 0x20C0), "letterlike": (0x2100, 0x214F),
    "numbers": (0x2150, 0x218B), "arrows": (0x2190, 0x21FF), "math": (0x2200, 0x22FF),
    "technical": (0x2300, 0x23FF), "boxes": (0x2500, 0x25FF), "symbols": (0x2600, 0x27BF),
    "braille": (0x2800, 0x28FF), "cjk_punctuation": (0x3000, 0x303F), "hiragana": (0x3041, 0x309F),
    "katakana": (0x30A0, 0x30FF), "bopomofo": (0x3105, 0x312F), "cjk_a": (0x3400, 0x34FF),
    "cjk": (0x4E00, 0x9FFF), "yi": (0xA000, 0xA48C), "hangul": (0xAC00, 0xD7A3),
    "private": (0xE000, 0xE0FF), "arabic_forms": (0xFB50, 0xFDFF), "fullwidth": (0xFF01, 0xFFEE),
    "specials": (0xFFF0, 0xFFFF), "linear_b": (0x10000, 0x1005D), "gothic": (0x10330, 0x1034A),
    "deseret": (0x10400, 0x1044F), "cuneiform": (0x12000, 0x1236E), "hieroglyphs": (0x13000, 0x1342E),
    "music": (0x1D100, 0x1D1E8), "math_letters": (0x1D400, 0x1D7FF), "emoji": (0x1F300, 0x1F64F),
    "transport": (0x1F680, 0x1F6FC), "emoji_more": (0x1F900, 0x1F9FF), "cjk_b": (0x20000, 0x200FF),
    "tags": (0xE0020, 0xE007F), "planes_end": (0x10FFF0, 0x10FFFF),
}

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "It's what they'd've said, isn't it? I'LL SEE.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Portez ce vieux whisky au juge blond qui fume.", "El pingüino Wenceslao hizo kilómetros.",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig.", "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Съешь же ещё этих мягких французских булок.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה.", "نص حكيم له سر قاطع وذو شأن عظيم.",
    "ऋषियों को सताने वाले दुष्ट राक्षसों का नाश।", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "いろはにほへと ちりぬるを わかよたれそ", "天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。",
    "다람쥐 헌 쳇바퀴에 타고파.", "Chuỗi ký tự tiếng Việt có dấu.", "ÇĞİÖŞÜ çğıöşü Pijamalı hasta",
    "In 1984 there were 1,234,567.89 reasons; 3.14159e-10 + 0x7F = 42%.",
    "e\u0301 vs \u00e9, A\u030a vs \u00c5, \u1112\u1161\u11ab vs \ud55c, \ufb01 vs fi",
]

CODE = [
    "def f(x, *args, **kwargs):\n    return [i**2 for i in range(10) if i % 2 == 0]\n",
    "int main(void) {\n\tprintf(\"%d\\n\", 1 << 3);\n\treturn 0;\n}\n",
    "<div class=\"a-b\"><p>Hi&nbsp;there</p><!-- x --></div>\n<table><tr><td>1</td></tr></table>",
    "SELECT COUNT(*) FROM t WHERE a <> 'b' AND c >= 10;--\r\n", "for(;;){if(!x||y&&z)break;}//...",
    "{\"key\": [1, 2.5, null, true], \"u\\u00e9\": \"\\n\"}", "$ git log --oneline | head -n 5 && echo $?",
    "```python\n>>> import os; os.environ['PATH']\n```\n", "https://example.org/a/b?c=d&e=f#g",
    "#include <vector>\nstd::vector<int> v{1,2,3};\n\n\n", "camelCaseWord HTTPServer snake_case_word",
    "|a|b|\n|---|:-:|\n|1|2|\n", "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2", "a\tb\t\tc\n\td\r\n\r\ne\x0b\x0c",
]

EMOJI = [
    "\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466",
    "\U0001F3F3\ufe0f\u200d\U0001F308", "\U0001F44D\U0001F3FD", "\U0001F1E9\U0001F1EA", "1\ufe0f\u20e3",
    "\u2764\ufe0f", "\U0001F9D1\U0001F3FF\u200d\U0001F4BB",
    "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F", "\u2603", "\u00a9\ufe0f",
]

SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff",
          "\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "\u2581", "\u2581\u2581"]

INVALID = [b"\x80", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98",
           b"\xc3", b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe\xff", b"\xed\xb0\x80\xed\xa0\x80"]

LONG_RUNS = ["A", "a", "é", "漢", "😀", " ", "\n", "\t", "\r\n", "7", ".", "-", "us", "ab ", "'s", "<", "\u0301",
             "\u2581", "\0", "a1"]


def strings(special_tokens):
    """At least 20,000 byte strings; special_tokens: the texts of the control tokens of the models."""
    rng = random.Random(SEED)
    out = [b""]

    def add(text):
        out.append(text if isinstance(text, bytes) else text.encode())

    def character(script):
        while True:
            code = rng.randint(*SCRIPTS[script])
            if not 0xD800 <= code <= 0xDFFF:
                return chr(code)

    def word(script, longest=9):
        return "".join(character(script) for _ in range(rng.randint(1, longest)))

    scripts = list(SCRIPTS)
    # Every byte alone, after text, before text, and every pair of a lead byte and what follows it.
    for byte in range(256):
        one = bytes([byte])
        for text in (one, b"a" + one, one + b"a", b" " + one + b" ", one + one, b"\xc3" + one,
                     b"\xe2\x96" + one, b"\xf0\x9f\x98" + one):
            add(text)
    for text in SENTENCES + CODE + EMOJI + SPACES:
        for form in (text, " " + text, text + " ", text + "\n", text * 2, text.upper(), text.title()):
            add(form)
    # Runs of one character, of lengths around the whitespace tokens that vocabularies hold.
    for unit in SPACES + ["a", "A", "0", ".", "-", "=", "*", "#", "漢", "é", "😀", "\\", "us", "ab ", " a"]:
        for length in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 30, 31, 32, 33, 34, 48, 63, 64, 65, 100):
            add((unit * length)[:120])
    for length in range(1, 40):
        for left, right in (("", "x"), ("x", ""), ("x", "y"), ("\n", "x"), (".", "1"), ("x", "\n")):
            add(left + " " * length + right)
            add(left + "\n" * length + right)
    for _ in range(1000):
        add("".join(rng.choice(SPACES + ["a", "1", "."]) for _ in range(rng.randint(2, 12))))
    # Numbers.
    for _ in range(700):
        add(rng.choice(["", " ", "-", "$", "x"]) + str(rng.randint(0, 10 ** rng.randint(1, 18)))
            + rng.choice(["", ".5", ",000", "%", "th", "\n"]))
    # Words of one script, then of several.
    for script in scripts:
        for _ in range(60):
            add(rng.choice(["", " ", "  "]) + " ".join(word(script) for _ in range(rng.randint(1, 4))))
    for _ in range(2500):
        add("".join(word(rng.choice(scripts), 3) + rng.choice(["", "", " ", "\n", ".", ", "])
                    for _ in range(rng.randint(2, 6))))
    # Real text cut anywhere, glued to anything.
    corpus = " ".join(SENTENCES) + "\n" + "".join(CODE)
    for _ in range(4000):
        at = rng.randrange(len(corpus))
        add(corpus[at:at + rng.randint(1, 40)])
    for _ in range(1200):
        pieces = [rng.choice([rng.choice(SENTENCES).split()[0], rng.choice(EMOJI), rng.choice(SPACES),
                              word(rng.choice(scripts), 3), str(rng.randint(0, 999)),
                              rng.choice("!?.,;:'\"()[]{}<>/\\|@#$%^&*-_=+~`")])
                  for _ in range(rng.randint(2, 8))]
        add("".join(pieces))
    # Contractions, which pre-tokenizers treat by name.
    for suffix in ("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "LL", "x", "\u017f"):
        for quote in ("'", "\u2019", "''", " '"):
            add("word" + quote + suffix + " and" + quote + suffix + "x")
    # The text of special tokens, alone, embedded, nested and broken.
    for token in special_tokens:
        for form in (token, "a" + token + "b", " " + token + " ", token * 2, token[:-1], token[1:],
                     token + "\n" + token, token.upper(), "<" + token + ">", token[:3] + token):
            add(form)
    for _ in range(1200):
        pieces = [rng.choice([rng.choice(special_tokens), rng.choice(special_tokens),
                              rng.choice(["user\n", "system", " ", "\n", "Hi", "<", ">", "<|", "|>"])])
                  for _ in range(rng.randint(2, 5))]
        add("".join(pieces))
    # Bytes that are no UTF-8, alone and in the middle of text.
    for bad in INVALID:
        for text in (bad, b"ab" + bad + b"cd", bad * 3, "é".encode() + bad + "漢".encode(), b"  " + bad):
            add(text)
    for _ in range(1500):
        pieces = [rng.choice([rng.choice(INVALID), word(rng.choice(scripts), 2).encode(), b" ", b"word",
                              rng.randbytes(rng.randint(1, 3))]) for _ in range(rng.randint(2, 6))]
        add(b"".join(pieces))
    for _ in range(1200):
        add(rng.randbytes(rng.randint(1, 24)))
    # 4 KB of one kind of character each, last: every pre-tokenizer is compared on these.
    for unit in LONG_RUNS:
        add(unit * (4096 // len(unit.encode())))
    unique = list(dict.fromkeys(out))
    assert len(unique) >= 20_000, len(unique)
    return unique
