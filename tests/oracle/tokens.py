#!/usr/bin/env python3
"""Token ids by Hugging Face and SentencePiece for the strings of tokens_strings.py.

    python tests/oracle/tokens.py        (writes tests/data/text/*.bin and *.ids)

SmolLM2: a `tokenizers` BPE of the file's vocabulary and merges with the pre-tokenizer of the
model's tokenizer.json. Gemma 3: what transformers' converter makes of the file's pieces, checked
against a SentencePiece model of the same; docs/tokenizers.md tells the one case where they differ.

strings.bin   char[8] "QSTRINGS", u32 n, then n times: varint size, bytes
NAME.ids      char[8] "QTOKENS1", u32 n, then n times: the ids without special tokens, then those
              with: varint count + 1 and ids as varints, or varint 0 for "the same as without"
pre.hashes    char[8] "QPREHASH", u32 n pre-tokenizers, u32 m strings, then n times: varint size, the
              name, m times u64: FNV-1a over the ids as u32 of a sample (main() says which)
"""

import struct

from common import MODELS, ROOT  # sets the environment for transformers, so it comes first

import gguf
import sentencepiece as spm
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokens_strings import LONG_RUNS, strings
from transformers.convert_slow_tokenizer import generate_merges

DATA = ROOT / "tests" / "data" / "text"
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
PRE_STRINGS = 4000


def read_vocabulary(path):
    fields = gguf.GGUFReader(path).fields
    value = lambda name: fields["tokenizer.ggml." + name].contents() if "tokenizer.ggml." + name in fields else None
    return {name: value(name) for name in ("tokens", "token_type", "merges", "scores", "unknown_token_id")}


def valid_runs(data):
    """Yields (text, None) for maximal runs of UTF-8 and (None, byte) for every byte between."""
    at = 0
    while at < len(data):
        try:
            yield data[at:].decode(), None
            return
        except UnicodeDecodeError as error:
            if error.start:
                yield data[at:at + error.start].decode(), None
            for byte in data[at + error.start:at + error.end]:
                yield None, byte
            at += error.end


def split(regex):
    return pre_tokenizers.Split(Regex(regex), "isolated")


BYTES_ONLY = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
WORDS = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
LETTERS_WITH_CASE = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943")

# name: (normalizer, pre-tokenizer, ignore_merges), as the models' tokenizer.json files have them.
PRE = {
    "smollm": (None, lambda: [pre_tokenizers.Digits(True), WORDS()], False),
    "gpt-2": (None, lambda: [WORDS()], False),
    "default": (None, lambda: [
        split(r"[\p{P}\$\+<=>\^~\|]+"),
        split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
        split(r"\p{N}+"), split(r"[0-9][0-9][0-9]"), BYTES_ONLY()], False),
    "llama-bpe": (None, lambda: [split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES_ONLY()], True),
    "qwen2": (normalizers.NFC, lambda: [split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES_ONLY()], False),
    "deepseek-llm": (None, lambda: [
        split("[\r\n]"), split(r"\s?[" + LETTERS_WITH_CASE + "]+"),
        split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"),
        split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), pre_tokenizers.Digits(True),
        BYTES_ONLY()], False),
    "deepseek-v3": (None, lambda: [
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}"
              "\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), BYTES_ONLY()], False),
    "tekken": (None, lambda: [split(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES_ONLY()], True),
}


class ByteLevelBpe:
    def __init__(self, vocabulary, pre):
        normalizer, items, ignore_merges = PRE[pre]
        tokens, kinds = vocabulary["tokens"], vocabulary["token_type"]
        self.ids = {token: i for i, token in enumerate(tokens)}
        merges = [tuple(m.split(" ")) for m in vocabulary["merges"]]
        self.tokenizer = Tokenizer(BPE(self.ids, merges, ignore_merges=ignore_merges))
        if normalizer:
            self.tokenizer.normalizer = normalizer()
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(items())
        self.tokenizer.add_special_tokens(
            [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == CONTROL])
        # GPT-2's alphabet: the printable bytes as they are, the others from U+0100 on.
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [b for b in range(256) if b not in printable]
        self.alphabet = {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}

    def encode(self, data, special):
        self.tokenizer.encode_special_tokens = not special
        ids = []
        for text, byte in valid_runs(data):
            if text is not None:
                ids += self.tokenizer.encode(text, add_special_tokens=False).ids
            elif self.alphabet[byte] in self.ids:
                ids.append(self.ids[self.alphabet[byte]])
        return ids


class SentencePieceBpe:
    """The file's pieces as a SentencePiece model, control tokens cut out before as Hugging Face does."""

    def __init__(self, vocabulary):
        self.pieces = [
            (token.replace(" ", "\u2581") if kind == USER_DEFINED else token,
             0.0 if kind == USER_DEFINED else score,  # as SentencePiece has it; the file says -1000
             kind)
            for token, kind, score in zip(vocabulary["tokens"], vocabulary["token_type"], vocabulary["scores"])]
        self.processor = spm.SentencePieceProcessor(model_proto=model_proto(self.pieces))
        self.bytes = {i: vocabulary["tokens"].index(f"<0x{i:02X}>") for i in range(256)}
        self.cutter = Tokenizer(BPE({t: i for i, t in enumerate(vocabulary["tokens"])}, []))
        self.cutter.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                        for t, k in zip(vocabulary["tokens"], vocabulary["token_type"])
                                        if k == CONTROL])
        self.control = {i for i, k in enumerate(vocabulary["token_type"]) if k == CONTROL}

    def parts(self, text):
        """The control tokens of a text and what lies between them."""
        encoding = self.cutter.encode(text, add_special_tokens=False)
        at = 0
        for id, (start, end) in zip(encoding.ids, encoding.offsets):
            if id in self.control and end - start > 0 and text[start:end] == self.cutter.id_to_token(id):
                yield text[at:start], id
                at = end
        yield text[at:], None

    def encode(self, data, special):
        ids = []
        for text, byte in valid_runs(data):
            if text is None:
                ids.append(self.bytes[byte])
                continue
            for plain, control in self.parts(text) if special else [(text, None)]:
                ids += self.processor.encode(plain) if plain else []
                ids += [control] if control is not None else []
        return ids


class ConvertedGemma:
    """The same pieces as transformers' GemmaConverter makes a `tokenizers` BPE of them."""

    def __init__(self, oracle):
        vocabulary = {piece: i for i, (piece, _, _) in enumerate(oracle.pieces)}
        merges = generate_merges(vocabulary, {piece: score for piece, score, _ in oracle.pieces})
        self.tokenizer = Tokenizer(
            BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        self.tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        self.tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        self.tokenizer.add_tokens([AddedToken(piece, normalized=False, special=kind == CONTROL)
                                   for piece, _, kind in oracle.pieces if kind in (CONTROL, USER_DEFINED)])
        self.bytes = oracle.bytes

    def encode(self, data, special):
        self.tokenizer.encode_special_tokens = not special
        ids = []
        for text, byte in valid_runs(data):
            ids += [self.bytes[byte]] if text is None else self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def model_proto(pieces):
    """sentencepiece_model.proto by hand, which is all that protobuf would be needed for."""
    def field(number, wire_type, payload):
        return varint(number << 3 | wire_type) + payload

    def block(number, payload):
        return field(number, 2, varint(len(payload)) + payload)

    out = b"".join(
        block(1, block(1, piece.encode()) + field(2, 5, struct.pack("<f", score))
              + field(3, 0, varint(UNKNOWN if piece == "<unk>" else kind)))
        for piece, score, kind in pieces)
    # model_type BPE, byte_fallback, the ids of unk, bos, eos and pad
    trainer = {3: 2, 35: 1, 40: 3, 41: 2, 42: 1, 43: 0}
    out += block(2, b"".join(field(n, 0, varint(v)) for n, v in trainer.items()))
    # no dummy prefix, white space kept, spaces escaped
    normalizer = {3: 0, 4: 0, 5: 1}
    return out + block(3, block(1, b"identity") + b"".join(field(n, 0, varint(v)) for n, v in normalizer.items()))


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def pack(ids):
    return varint(len(ids) + 1) + b"".join(map(varint, ids))


def fnv(ids):
    h = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def write_ids(name, oracle, texts):
    out = [b"QTOKENS1", len(texts).to_bytes(4, "little")]
    for text in texts:
        plain, special = oracle.encode(text, False), oracle.encode(text, True)
        out += [pack(plain), varint(0) if plain == special else pack(special)]
    (DATA / name).write_bytes(b"".join(out))


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    smollm = read_vocabulary(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")
    gemma = read_vocabulary(MODELS / "gemma-3-270m.Q4_K_M.gguf")
    special = [t for t, k in zip(smollm["tokens"], smollm["token_type"]) if k == CONTROL]
    special += [t for t, k in zip(gemma["tokens"], gemma["token_type"]) if k == CONTROL and "unused" not in t]
    special += ["<unused0>", "<unused98>", "<unused6000>"]
    special += [t for t, k in zip(gemma["tokens"], gemma["token_type"]) if k == USER_DEFINED and t.startswith("<")][:20]
    texts = strings(special)
    (DATA / "strings.bin").write_bytes(
        b"QSTRINGS" + len(texts).to_bytes(4, "little") + b"".join(varint(len(t)) + t for t in texts))
    write_ids("smollm2.ids", ByteLevelBpe(smollm, "smollm"), texts)

    pieces = SentencePieceBpe(gemma)
    converted = ConvertedGemma(pieces)
    write_ids("gemma3.ids", converted, texts)
    differ = [t for t in texts if any(pieces.encode(t, s) != converted.encode(t, s) for s in (False, True))]
    # Hugging Face finds user-defined tokens in the text as it is, SentencePiece in the text with
    # U+2581 for spaces: a run of both is one token there and two here.
    assert all("\u2581\u2581".encode() in t for t in differ), differ
    print(f"{len(texts)} strings; SentencePiece and its conversion differ on {len(differ)}")

    out = [b"QPREHASH", len(PRE).to_bytes(4, "little"), PRE_STRINGS.to_bytes(4, "little")]
    step = len(texts) // PRE_STRINGS
    n_runs = len(LONG_RUNS)
    sample = texts[::step][:PRE_STRINGS - n_runs] + texts[-n_runs:]
    for pre in PRE:
        oracle = ByteLevelBpe(smollm, pre)
        out += [varint(len(pre)), pre.encode()]
        out += [fnv(oracle.encode(t, False)).to_bytes(8, "little") for t in sample]
    (DATA / "pre.hashes").write_bytes(b"".join(out))


if __name__ == "__main__":
    main()
