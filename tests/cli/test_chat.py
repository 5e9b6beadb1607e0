"""A conversation through a pipe: one message per line."""

import re
import subprocess

import pytest

FIGURES = re.compile(r"\[prefill (\d+) tokens, [\d.]+ tokens/s, (\d+) from the cache; decode (\d+)")


def turns(done):
    return [tuple(map(int, match)) for match in FIGURES.findall(done.stderr.decode())]


def test_later_turns_compute_only_what_is_new(quire, smollm2):
    done = quire("run", smollm2, "--chat", "--temp", "0", "-n", "12", "--ctx", "512",
                 stdin="Hello, who are you?\nWhat is two plus two?\nThank you.")
    figures = turns(done)
    assert len(figures) == 3
    assert figures[0][1] == 0
    for (prefill, cached, decoded), (next_prefill, next_cached, _) in zip(figures, figures[1:]):
        # Everything so far is reused: the prompt, and the answer but for its last token (which is
        # never run) and tokens at its end that read differently with the text behind them.
        assert next_cached >= prefill + cached
        assert next_cached >= prefill + cached + decoded - 4
        assert next_prefill < 40


def test_the_cache_does_not_change_the_answers(quire, smollm2):
    first = "Hello, who are you?"
    second = "Say it again."
    args = ["--temp", "0", "-n", "10", "--ctx", "512"]
    both = quire("run", smollm2, "--chat", *args, stdin=f"{first}\n{second}\n").stdout.decode()
    again = quire("run", smollm2, "--chat", *args, "--prefill-chunk", "5", "--page-size", "32",
                  stdin=f"{first}\n{second}\n").stdout.decode()
    assert both == again
    alone = quire("run", smollm2, *args, "-p", first).stdout.decode()
    assert both.startswith(alone)


def test_clear_forgets_and_quit_ends(quire, smollm2):
    done = quire("run", smollm2, "--chat", "--temp", "0", "-n", "6", "--ctx", "512",
                 stdin="Hello!\n/clear\nHello!\n/quit\nnever answered\n")
    answers = done.stdout.decode().splitlines()
    assert len(turns(done)) == 2
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert turns(done)[1][1] > 0  # the same beginning is still in the cache


def test_a_prompt_is_the_first_message(quire, smollm2):
    args = ["--chat", "--temp", "0", "-n", "6", "--ctx", "512", "--system", "Be brief."]
    assert (quire("run", smollm2, *args, "-p", "Hello!").stdout
            == quire("run", smollm2, *args, stdin="Hello!\n").stdout)


def test_a_full_context_is_said_and_ends_a_script(quire, smollm2):
    done = quire("run", smollm2, "--chat", "--ctx", "64", "-n", "8", "--temp", "0", expect=1,
                 stdin="Hi.\n" + "word " * 100 + "\n")
    assert len(turns(done)) == 1
    assert "64" in done.stderr.decode().splitlines()[-1]


def test_lines_may_end_as_on_windows(quire, smollm2):
    done = quire("run", smollm2, "--chat", "--ctx", "256", "-n", "3", "--temp", "0",
                 stdin="Hi\r\n/quit\r\nnot read\r\n")
    assert done.stderr.decode().count("[prefill") == 1


@pytest.mark.parametrize("redirect", ["</", "<&-"])
def test_an_input_that_cannot_be_read_is_not_an_end(binary, smollm2, redirect):
    done = subprocess.run(["bash", "-c", f'exec "$@" {redirect}', "bash", binary, "run", smollm2,
                           "--chat", "--ctx", "64"], capture_output=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(b"quire: cannot read standard input: ")
