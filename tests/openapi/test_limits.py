"""Each field of a request by itself: what the document allows is taken, what is next to it is not.

The made-up requests of test_openapi.py have many fields, any of which may be the one refused.
"""

import math
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())

# What is always there, short enough to take no time.
BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/v1/responses": {"input": "a", "max_output_tokens": 1},
    "/v1/embeddings": {"input": "a"},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [7]},
}
# Fields that are only allowed beside others; None takes one away.
BESIDE = {
    ("/v1/chat/completions", "top_logprobs"): {"logprobs": True},
    ("/v1/chat/completions", "max_completion_tokens"): {"max_tokens": None},
    ("/v1/chat/completions", "stream_options"): {"stream": True},
    ("/v1/completions", "stream_options"): {"stream": True},
    ("/v1/completions", "max_tokens"): {"echo": True},
    ("/v1/chat/completions", "best_of"): {"n": 1},
}
# What the document can only say in words is tried elsewhere.
ELSEWHERE = {"model", "grammar", "tools", "dimensions"}


def resolve(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def fields():
    for path, body in BODIES.items():
        content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        request = resolve(content["schema"])
        request = request.get("anyOf", [request])[0]
        for name, schema in request["properties"].items():
            if name not in body.keys() - {"max_tokens", "max_output_tokens"} | ELSEWHERE:
                yield path, name, resolve(schema)


def types_of(schema):
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def inside_and_outside(schema):
    """Values at the limits, and values next to them or of another type."""
    types, good, bad = types_of(schema), [None], []
    if "enum" in schema:
        good += schema["enum"]
        bad += ["no such word", 3.5, {}]
        if False not in good:
            bad.append(True)
    if {"integer", "number"} & set(types):
        low, high = schema["minimum"], schema["maximum"]
        good += [low, high]
        whole = "integer" in types
        bad += [low - 1, high + 1] if whole else [math.nextafter(low, -9e9), high + 0.001]
        bad += ["1", True, [], {}] + ([low + 0.5] if whole else [])
    if "boolean" in types:
        good += [True, False]
        bad += [0, "true", []]
    if "string" in types:
        good.append("a" * schema.get("minLength", 0))
        bad += [1, False, [], {}] + ([""] if schema.get("minLength") else [])
        if "maxLength" in schema:
            good.append("a" * min(schema["maxLength"], 4096))  # regular expressions take their time
            bad.append("a" * (schema["maxLength"] + 1))
    if "array" in types:
        good.append([])
        bad += ["a", 1, {}, [{"no": "such item"}]]
    if "object" in types:
        good.append({})
        bad += ["a", 1, []]
        if schema.get("additionalProperties") is False:
            bad.append({"no_such_field": 1})
    return good, bad


def ask(server, path, name, value):
    body = {**BODIES[path], **BESIDE.get((path, name), {}), name: value}
    answer = server.post(path, {key: body[key] for key in body if body[key] is not None or key == name})
    return answer.status, answer.json()["error"] if answer.status == 400 else None


@pytest.mark.parametrize("path,name,schema", [
    pytest.param(*field, id=f"{field[0]}:{field[1]}") for field in fields()])
def test_limits(server, path, name, schema):
    good, bad = inside_and_outside(schema)
    for value in good:
        status, error = ask(server, path, name, value)
        assert status == 200, (value, error)
    for value in bad:
        status, error = ask(server, path, name, value)
        assert status == 400, value
        assert re.match(rf"{name}\b", error["param"]), (value, error)


def test_lists_have_a_length(server):
    """Lists with a limit: as many, and one more."""
    stop = resolve(DOCUMENT["components"]["schemas"]["Stop"])["anyOf"][1]["maxItems"]
    prompts = DOCUMENT["components"]["schemas"]["CompletionRequest"]["properties"]["prompt"]
    prompts = prompts["anyOf"][2]["maxItems"]
    biases = DOCUMENT["components"]["schemas"]["LogitBias"]["maxProperties"]
    for name, most, make in (
            ("stop", stop, lambda n: ["\n"] * n), ("prompt", prompts, lambda n: ["a"] * n),
            ("logit_bias", biases, lambda n: {str(i): 0 for i in range(n)})):
        _, error = ask(server, "/v1/completions", name, make(most))
        # So many biases name tokens that this model does not have.
        assert error is None or (name == "logit_bias" and "vocabulary" in error["message"]), error
        status, error = ask(server, "/v1/completions", name, make(most + 1))
        # No object has more keys than that, so it is the reader of JSON who says so.
        code = "invalid_json" if name == "logit_bias" else "array_above_max_length"
        assert status == 400 and error["code"] == code, error


def test_the_document_has_every_field_that_is_read():
    """And none that is refused whatever it says."""
    sources = "".join(file.read_text() for file in (ROOT / "src/serve/openai").glob("*.cc")
                      if not file.name.endswith("_test.cc"))
    read = set(re.findall(r"\b(?:number|integer|boolean|text|word|object|array|any|ignore|require|"
                          r"take)\(\"(\w+)\"", sources))
    refused = set(re.findall(r"\brefuse\(\"(\w+)\"", sources))
    requests = str({name: schema for name, schema in DOCUMENT["components"]["schemas"].items()})
    named = set(re.findall(r"'(\w+)'", requests))
    assert len(read) > 60 and read - named == set()
    for name in ("ChatRequest", "CompletionRequest", "ResponsesRequest"):
        properties = DOCUMENT["components"]["schemas"][name]["properties"]
        assert refused & set(properties) - read == set()
