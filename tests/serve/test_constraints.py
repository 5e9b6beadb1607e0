"""Answers that have to look like something: JSON, schemas, regular expressions, grammars."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel

FLAGS = ["--ctx", "1024", "--kv-memory", "200MiB"]
NAME = "SmolLM2-135M-Instruct.Q4_1"
QUESTION = [{"role": "user", "content": "Describe a cat as JSON."}]
CAT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 1, "maximum": 20},
        "colour": {"enum": ["black", "white", "grey"]},
    },
    "required": ["name", "age", "colour"],
    "additionalProperties": False,
}


class Cat(BaseModel):
    indoors: bool
    legs: int


def check_cat(text):
    cat = json.loads(text)
    assert list(cat) == ["name", "age", "colour"]
    assert isinstance(cat["name"], str) and len(cat["name"]) <= 12
    assert isinstance(cat["age"], int) and 1 <= cat["age"] <= 20
    assert cat["colour"] in ("black", "white", "grey")


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_a_schema_is_followed_in_every_choice(client, temperature):
    schema = {"name": "cat", "strict": True, "schema": CAT}
    answer = client.chat.completions.create(
        model=NAME, messages=QUESTION, n=3, seed=1, temperature=temperature,
        response_format={"type": "json_schema", "json_schema": schema})
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        check_cat(choice.message.content)


def test_a_class_is_parsed_by_the_client(client):
    answer = client.chat.completions.parse(model=NAME, messages=QUESTION, response_format=Cat,
                                           temperature=0, max_tokens=64)
    cat = answer.choices[0].message.parsed
    assert isinstance(cat, Cat) and isinstance(cat.indoors, bool)


def test_a_response_follows_a_schema(client):
    answer = client.responses.create(
        model=NAME, input="Describe a cat.", temperature=0,
        text={"format": {"type": "json_schema", "name": "cat", "schema": CAT}})
    check_cat(answer.output_text)


def test_any_object(client):
    answer = client.chat.completions.create(
        model=NAME, messages=QUESTION, temperature=0, max_tokens=48,
        response_format={"type": "json_object"})
    (choice,) = answer.choices
    assert choice.message.content.lstrip().startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


@pytest.mark.parametrize("stream", [False, True])
def test_a_regular_expression(client, stream):
    pattern = r"(red|green|blue) [0-9]{3}-[a-f]{2}"
    answer = client.completions.create(model=NAME, prompt="Code:", temperature=1, seed=3,
                                       max_tokens=32, stream=stream, extra_body={"regex": pattern})
    if stream:
        chunks = list(answer)
        text = "".join(chunk.choices[0].text for chunk in chunks)
        assert chunks[-1].choices[0].finish_reason == "stop"
    else:
        text = answer.choices[0].text
    assert re.fullmatch(pattern, text), text


def test_a_grammar(client):
    grammar = 'start: NUMBER (" + " NUMBER)+ " = ?"\nNUMBER: /[1-9][0-9]{0,2}/'
    answer = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": "Give me a sum."}], max_tokens=100,
        temperature=0.7, seed=1, extra_body={"grammar": grammar})
    text = answer.choices[0].message.content
    assert re.match(r"[1-9][0-9]{0,2}( \+ [1-9][0-9]{0,2})*", text), text
    if answer.choices[0].finish_reason == "stop":
        assert text.endswith(" = ?")


def test_what_cannot_be_followed_is_refused_by_name(server):
    def refused(**fields):
        return server.post("/v1/completions", {"prompt": "x", **fields}).error()["param"]

    assert refused(regex="(") == "regex"
    assert refused(grammar="start: nothing_of_that_name") == "grammar"
    assert refused(regex="a", grammar='start: "a"') in ("regex", "grammar")
    chat = {"messages": QUESTION, "response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "no such type"}}}}
    assert server.post("/v1/chat/completions", chat).error()["param"].startswith("response_format")


def test_b55d_hostile_constraints_are_refused_or_followed_soon(server):
    for fields in ({"regex": "(" * 60_000}, {"regex": "[" * 1000}, {"regex": "a" * 300_000},
                   {"regex": "(?=a)b"}, {"grammar": "start: " + "(" * 20_000},
                   {"grammar": 'start: start "a"\n' * 1000}):
        begin = time.monotonic()
        answer = server.post("/v1/completions", {"prompt": "x", **fields})
        assert time.monotonic() - begin < 5
        assert answer.error()["param"] in fields and len(answer.body) < 2000
    schemas = [{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
               {"enum": [f"value {i}" for i in range(100_000)]}]
    for schema in schemas:
        begin = time.monotonic()
        answer = server.post("/v1/chat/completions", {
            "messages": QUESTION, "response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": schema}}})
        assert time.monotonic() - begin < 5
        assert answer.error()["param"].startswith("response_format") and len(answer.body) < 2000
    for regex in ("a{1,100000}", "((a|b)*c){1,50}(x|y)+", "^+a"):
        answer = server.post("/v1/completions", {"prompt": "x", "regex": regex, "max_tokens": 3})
        assert answer.status in (200, 400)


def test_constraints_do_not_touch_their_neighbours(server):
    """Constrained and free requests in one batch, each as it is alone."""
    free = {"prompt": "Numbers: ", "n": 4, "temperature": 1, "seed": 9, "max_tokens": 24}
    bodies = [free, {**free, "regex": "[0-9]{24}"}, {**free, "regex": "[a-z ]{24}"}]

    def ask(body):
        choices = server.post("/v1/completions", body).ok()["choices"]
        return [choice["text"] for choice in choices]

    alone = [ask(body) for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, bodies * 2)) == alone * 2
    assert all(re.fullmatch("[0-9]+", text) for text in alone[1])
    assert all(re.fullmatch("[a-z ]+", text) for text in alone[2])
