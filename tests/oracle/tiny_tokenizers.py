"""Minimal valid vocabularies for the tiny models, written as llama.cpp's converter writes them."""

import gguf


def byte_characters():
    """GPT-2's printable stand-in for each of the 256 bytes, in GPT-2's vocabulary order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


# Enough to exercise merging; each needs its parts earlier in the list or among the bytes.
MERGES = ["t h", "th e", "i n", "e r", "a n", "an d", "Ġ the", "Ġ and", "o n", "r e", "Ġ a", "s t",
          "e n", "i t", "o r", "i s", "in g", "Ġ t", "e d", "o u"]  # fmt: skip

PIECES = ["▁", "e", "t", "a", "o", "n", "▁t", "th", "the", "▁the", "an", "and", "▁and", "in", "er",
          "▁a", "s", "i", "h", "r", "d", "l", "u", "c", "m"]  # fmt: skip


def add_gpt2(writer, vocab_size):
    merges = MERGES[: vocab_size - 256 - 1]
    tokens = byte_characters() + [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"]
    types = [gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL]
    while len(tokens) < vocab_size:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(gguf.TokenType.UNUSED)
    end = tokens.index("<|endoftext|>")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)


def add_spm(writer, vocab_size, gemma):
    control = ["<pad>", "<eos>", "<bos>", "<unk>"] if gemma else ["<unk>", "<s>", "</s>"]
    tokens = control + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [
        gguf.TokenType.UNKNOWN if token == "<unk>" else gguf.TokenType.CONTROL for token in control
    ] + [gguf.TokenType.BYTE] * 256
    scores = [0.0] * len(tokens)
    pieces = PIECES[: vocab_size - len(tokens)]
    tokens += pieces
    types += [gguf.TokenType.NORMAL] * len(pieces)
    scores += [-float(rank) for rank in range(len(pieces))]
    while len(tokens) < vocab_size:
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(gguf.TokenType.UNUSED)
        scores.append(-1000.0)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(tokens.index("<bos>" if gemma else "<s>"))
    writer.add_eos_token_id(tokens.index("<eos>" if gemma else "</s>"))
    writer.add_unk_token_id(tokens.index("<unk>"))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(not gemma)


def add_tokenizer(writer, kind, vocab_size):
    if kind == "gpt2":
        add_gpt2(writer, vocab_size)
    else:
        add_spm(writer, vocab_size, gemma=kind == "gemma")
