"""quire run: what it prints, and that sampling options do what they say."""

import json
import math
import os
import re
import shutil
import signal
import subprocess

import pytest

PROMPT = "Name three colours."


def test_text_goes_to_stdout_and_figures_to_stderr(quire, smollm2):
    done = quire("run", smollm2, "-p", PROMPT, "-n", "8", "--temp", "0", "--ctx", "128")
    figures = done.stderr.decode()
    assert done.stdout.decode().strip()
    for word in ("load", "prefill", "decode", "cache"):
        assert re.search(rf"^{word} ", figures, re.MULTILINE), figures
    assert re.search(r" in \d+ pages \(16 tokens of a layer each\)", figures), figures
    assert "\x1b" not in figures and "\r" not in figures  # no bars without a terminal


def test_json_has_the_documented_shape(quire, smollm2):
    out = quire.run_json("-p", PROMPT, "-n", "6", "--page-size", "32", "--kv-type", "f32")
    assert isinstance(out["text"], str) and out["text"]
    assert len(out["tokens"]) == 6 == out["completion_tokens"]
    assert out["finish_reason"] == "length"
    assert out["logprobs"] is None
    assert out["prompt_tokens"] > 10
    assert set(out["timings"]) == {"load_s", "prefill_tokens_per_s", "decode_tokens_per_s"}
    assert all(value > 0 for value in out["timings"].values())
    kv = out["kv"]
    # SmolLM2-135M: 30 layers, 3 KV heads of 64, K and V, 4 bytes each.
    assert kv["bytes_per_token"] == 30 * 3 * 64 * 2 * 4
    assert kv["type"] == "f32" and kv["page_size"] == 32
    cached = out["prompt_tokens"] + 6 - 1
    assert kv["pages"] == 30 * math.ceil(cached / 32)
    assert kv["bytes"] == kv["pages"] * 32 * kv["bytes_per_token"] // 30


def test_the_reference_caches_in_f32_unless_told_otherwise(quire):
    args = ["-p", PROMPT, "-n", "1", "--reference"]
    assert quire.run_json(*args)["kv"]["type"] == "f32"
    assert quire.run_json(*args, "--kv-type", "f16")["kv"]["type"] == "f16"


def test_json_prints_nothing_else(quire, smollm2):
    done = quire("run", smollm2, "-p", PROMPT, "-n", "2", "--json", "--ctx", "128")
    assert done.stderr == b"" and done.stdout.count(b"\n") == 1


def test_logprobs(quire, smollm2):
    out = quire.run_json("-p", PROMPT, "-n", "5", "--logprobs", "3")
    assert [entry["token"] for entry in out["logprobs"]] == out["tokens"]
    for entry in out["logprobs"]:
        assert set(entry) == {"token", "text", "logprob", "top"}
        values = [other["logprob"] for other in entry["top"]]
        assert len(values) == 3 and values == sorted(values, reverse=True)
        assert all(value <= 0 for value in values) and sum(map(math.exp, values)) <= 1.0001
        # Greedy: the chosen token is the best one.
        assert entry["top"][0]["token"] == entry["token"]
        assert entry["top"][0]["logprob"] == entry["logprob"]
    assert "".join(entry["text"] for entry in out["logprobs"]).startswith(out["text"])
    assert quire.run_json("-p", PROMPT, "-n", "2", "--logprobs", "0")["logprobs"][0]["top"] == []


def test_penalties_and_bias_do_not_change_the_reported_logprobs(quire, smollm2):
    plain = quire.run_json("-p", PROMPT, "-n", "1", "--logprobs", "2")
    best, second = (other["token"] for other in plain["logprobs"][0]["top"])
    biased = quire.run_json("-p", PROMPT, "-n", "1", "--logprobs", "2", "--logit-bias",
                            f"{best}-inf")
    assert biased["tokens"] == [second]
    assert biased["logprobs"][0]["top"] == plain["logprobs"][0]["top"]
    assert biased["logprobs"][0]["logprob"] == plain["logprobs"][0]["top"][1]["logprob"]


def test_a_seed_reproduces_and_another_does_not(quire, smollm2):
    def answer(*args):
        return quire.run_json("-p", PROMPT, "-n", "16", "--temp", "1.5", "--top-k", "0",
                              "--min-p", "0", "--top-p", "1", *args)
    first = answer("--seed", "7")
    assert answer("--seed", "7", "--threads", "1")["tokens"] == first["tokens"]
    assert answer("--seed", "8")["tokens"] != first["tokens"]
    assert first["seed"] == 7
    drawn = answer()
    assert answer("--seed", str(drawn["seed"]))["tokens"] == drawn["tokens"]


def test_page_size_chunk_and_threads_change_nothing(quire, smollm2):
    plain = quire.run_json("-p", PROMPT, "-n", "8", "--logprobs", "1")
    other = quire.run_json("-p", PROMPT, "-n", "8", "--logprobs", "1", "--page-size", "64",
                           "--prefill-chunk", "7", "--threads", "1")
    assert other["logprobs"] == plain["logprobs"]


def test_a_stop_string_ends_the_text_before_itself(quire, smollm2):
    text = quire.run_json("-p", PROMPT, "-n", "20")["text"]
    middle = text[8:11]
    out = quire.run_json("-p", PROMPT, "-n", "20", "--stop", "never in it", "--stop", middle)
    assert out["finish_reason"] == "stop"
    assert out["text"] == text[:text.index(middle)]
    # As a list in brackets it would be two stop strings; it is one text.
    out = quire.run_json("-p", PROMPT, "-n", "20", "--stop", f"[{middle},x]")
    assert out["text"] == text


def test_the_model_ends_its_answer_unless_told_not_to(quire, smollm2):
    question = "Reply with the single word: yes"
    out = quire.run_json("-p", question, "-n", "200")
    assert out["finish_reason"] == "stop"
    more = quire.run_json("-p", question, "-n", str(out["completion_tokens"] + 5), "--ignore-eos")
    assert more["completion_tokens"] == out["completion_tokens"] + 5
    assert more["finish_reason"] == "length"


def test_a_full_context_ends_the_answer(quire, smollm2):
    out = quire.run_json("-p", "Count:", "--ignore-eos", "--ctx", "64")
    assert out["prompt_tokens"] + out["completion_tokens"] == 64
    assert out["finish_reason"] == "length"


def test_a_file_and_standard_input_are_prompts(quire, smollm2, tmp_path):
    (tmp_path / "prompt").write_text(PROMPT + "\n")
    expected = quire.run_json("-p", PROMPT, "-n", "4")
    assert quire.run_json("-f", tmp_path / "prompt", "-n", "4")["tokens"] == expected["tokens"]
    done = quire("run", smollm2, "-f", "-", "-n", "4", "--temp", "0", "--ctx", "512", stdin=PROMPT)
    assert done.stdout.decode().rstrip("\n") == expected["text"].rstrip("\n")


def test_a_prompt_may_begin_with_a_dash(quire, smollm2):
    assert quire.run_json("-p", "-n is an option", "-n", "1")["completion_tokens"] == 1


def test_special_tokens_in_a_message_are_plain_text(quire, smollm2):
    def prompt_tokens(*args):
        return quire.run_json("-n", "1", *args)["prompt_tokens"]
    # <|im_end|> as text is 7 tokens more than the one token it would be.
    plain = len(quire("tokenize", smollm2, stdin="<|im_end|>").stdout.split())
    assert plain > 1
    empty = prompt_tokens("-p", "x")
    assert prompt_tokens("-p", "x<|im_end|>") >= empty + plain - 1
    assert prompt_tokens("-p", "<|im_end|>", "--raw") == plain
    assert prompt_tokens("-p", "<|im_end|>", "--raw", "--special") == 1


def test_the_template_is_the_models(quire, smollm2):
    # Written out by hand from the model card's format.
    whole = ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
             "<|im_start|>assistant\n")
    raw = quire.run_json("-p", whole, "--raw", "--special", "-n", "6")
    chat = quire.run_json("-p", "Hi", "--system", "Be brief.", "-n", "6")
    assert chat["prompt_tokens"] == raw["prompt_tokens"]
    assert chat["tokens"] == raw["tokens"]


def test_a_base_model_continues_the_text(quire, gemma3):
    out = quire.run_json("-p", "The capital of France is", "-n", "3", "--ctx", "64", model=gemma3)
    # What transformers 5.23.0 generates greedily from the same file in float32.
    assert out["tokens"] == [506, 5279, 529]
    assert out["text"] == " the capital of"
    assert out["prompt_tokens"] == 6  # BOS and five words


def test_a_closed_pipe_ends_it_quietly(binary, smollm2):
    command = [binary, "run", smollm2, "-p", "Tell a long story.", "-n", "4000", "--ignore-eos"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        error = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert "quire:" not in error and "decode" in error


def test_a_full_disk_is_a_failure(binary, smollm2):
    if not os.path.exists("/dev/full"):
        pytest.fail("this test needs /dev/full, which Linux has")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([binary, "run", smollm2, "-p", "Hi", "-n", "4"], stdout=full,
                              stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"standard output" in done.stderr


def test_ctrl_c_ends_the_answer_and_still_gives_figures(binary, smollm2):
    command = [binary, "run", smollm2, "-p", "Tell a long story.", "-n", "4000", "--ignore-eos"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 130
    assert b"finished by cancelled" in error and b"cache" in error


def test_full_memory_keeps_what_was_generated(quire, smollm2):
    # 30 layers, 3 pages of 16 tokens each; a page holds 3 KV heads of 64, K and V, in f16.
    memory = 30 * 3 * 16 * 3 * 64 * 2 * 2
    args = ["-p", PROMPT, "--ignore-eos", "--temp", "0"]
    whole = quire.run_json(*args, "-n", "40")
    cut = quire("run", smollm2, *args, "-n", "40", "--json", "--kv-memory", memory, expect=1)
    out = json.loads(cut.stdout)
    assert out["finish_reason"] == "error" and out["error"] in cut.stderr.decode()
    # 48 tokens fit; the one that their logits give comes on top.
    assert out["completion_tokens"] == 48 - out["prompt_tokens"] + 1
    assert out["tokens"] == whole["tokens"][:len(out["tokens"])]
    assert whole["text"].startswith(out["text"].rstrip("\ufffd")) and whole["error"] is None
    shown = quire("run", smollm2, *args, "-n", "40", "--kv-memory", memory, expect=1)
    assert shown.stdout.decode() == out["text"] + "\n"
    assert "finished by error" in shown.stderr.decode()
    assert shown.stderr.decode().splitlines()[-1] == "quire: " + out["error"]


def test_a_model_that_is_cut_short_in_use_is_one_sentence(binary, smollm2, tmp_path):
    model = tmp_path / "model.gguf"
    shutil.copyfile(smollm2, model)
    chat = subprocess.Popen([binary, "run", model, "--chat", "--ctx", "128", "-n", "4"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert chat.stderr.readline().startswith(b"load ")
    os.truncate(model, 4096)  # rows of the embedding are read from the file when they are needed
    out, errors = chat.communicate(b"Hello\n", timeout=60)
    assert chat.returncode == 1 and out == b""
    assert errors.startswith(b"quire: ") and b"cut short" in errors and errors.count(b"\n") == 1
