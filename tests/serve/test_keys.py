"""Keys: who may ask, and that nobody's cache tells anything to another."""

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from quire_server import TINY, Server, cached_tokens, outcome, wait_until
from raw_client import RawClient

PROMPT = [(7 * i) % 250 for i in range(200)]
# "a" with a salt must not be "ab" with another; old and new key of one tenant.
KEYS = {"a": "key of a", "ab": "key of ab", "b": "key of b", "b-new": "new key of b"}


def auth(name):
    return {"Authorization": f"Bearer {KEYS[name]}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    lines = [f"{name.partition('-')[0]}:{hashlib.sha256(key.encode()).hexdigest()}"
             for name, key in KEYS.items()]
    file.write_text("\n".join(["# who may ask", *lines, ""]))
    file.chmod(0o600)
    server = KeyedServer(TINY, "--api-key-file", file, "--max-per-key", "2", "--kv-memory", "4MiB")
    yield server
    server.stop()


class KeyedServer(Server):
    def kv(self):
        return self.get("/v1/kv", headers=auth("a")).ok()


def complete(server, name, prompt=PROMPT, **fields):
    body = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "logprobs": 1, **fields}
    return server.post("/v1/completions", body, headers=auth(name)).ok()


@pytest.mark.parametrize("header", [
    None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic key of a", "key of a",
    "Bearer key of a\x00", "Bearer " + "x" * 8000,
], ids=lambda header: repr(header)[:20])
def test_without_a_key_nothing_but_health_is_answered(server, header):
    headers = {} if header is None else {"Authorization": header}
    for method, path in [("GET", "/v1/models"), ("GET", "/v1/kv"), ("GET", "/metrics"),
                         ("POST", "/v1/completions"), ("POST", "/v1/chat/completions"),
                         ("POST", "/v1/responses"), ("POST", "/v1/kv/flush"),
                         ("POST", "/tokenize"), ("POST", "/detokenize")]:
        answer = server.request(method, path, b"{}" if method == "POST" else None, headers)
        if header and "\x00" in header:
            assert answer.status in (400, 401)
            continue
        assert answer.error(401)["code"] == "invalid_api_key"
    for path in ("/health", "/ready"):
        assert server.get(path).status == 200


def test_the_client_raises_what_it_should(server):
    with server.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    with server.client(KEYS["b"]) as client:
        assert len(client.models.list().data) == 1


def test_b55a_tenants_do_not_share_cached_prefixes(server):
    first = complete(server, "a")
    assert cached_tokens(first) == 0
    assert cached_tokens(complete(server, "a")) > 190  # the same key twice
    for other in ("ab", "b"):
        answer = complete(server, other)
        assert cached_tokens(answer) == 0 and outcome(answer) == outcome(first)
    assert cached_tokens(complete(server, "b-new")) > 190  # two keys of one tenant


def test_b55a_nobody_gets_into_anothers_space_by_a_salt(server):
    prompt = [9, *PROMPT]
    assert cached_tokens(complete(server, "a", prompt)) == 0
    assert cached_tokens(complete(server, "a", prompt, cache_salt="b")) == 0
    assert cached_tokens(complete(server, "ab", prompt)) == 0
    for salt in ("a", "\n1\na", "1\na", "a\n", "b\n", "\n", "key of a"):
        assert cached_tokens(complete(server, "b", prompt, cache_salt=salt)) == 0
    assert cached_tokens(complete(server, "a", prompt, cache_salt="b")) > 190


def test_no_key_is_in_the_log(server):
    complete(server, "a")
    wait_until(lambda: 'tenant="a"' in server.log() or "tenant=a" in server.log(), "it is logged")
    assert not any(key in server.log() for key in KEYS.values())


def test_b07_no_more_of_one_key_run_at_once_whatever_its_salt(server):
    body = {"prompt": [1, 2, 3], "max_tokens": 1500, "ignore_eos": True, "stream": True}
    clients = [RawClient(server, "/v1/completions", {**body, "cache_salt": f"s{i}"},
                         headers=f"Authorization: Bearer {KEYS['a']}\r\n") for i in range(5)]
    try:
        wait_until(lambda: server.kv()["sequences"] == {"running": 2, "waiting": 3}, "two run")
        # Another key does not wait for them.
        assert complete(server, "b")["usage"]["completion_tokens"] == 3
        wait_until(lambda: server.kv()["sequences"]["running"] == 2, "still only two run")
    finally:
        for client in clients:
            client.close()
    server.wait_idle()


def test_many_tenants_at_once_get_their_own_answers(server):
    def ask(i):
        name = ("a", "ab", "b")[i % 3]
        return outcome(complete(server, name, [i % 4, *PROMPT[:50]], max_tokens=20))

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(48)))
    for i in range(48):
        assert answers[i] == answers[i % 4]


@pytest.mark.parametrize("content, sentence", [
    ("", "no API key"), ("alice", "keys.txt:1"), ("alice:abc", "keys.txt:1"),
    ("a b:" + "0" * 64, "keys.txt:1"),
], ids=["empty", "no hash", "short hash", "bad name"])
def test_a_key_file_that_is_wrong_is_refused(tmp_path, content, sentence):
    file = tmp_path / "keys.txt"
    file.write_text(content)
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        Server(TINY, "--api-key-file", file)
