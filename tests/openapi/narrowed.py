"""What the tests ask for: requests that the document allows and a tiny model can answer.

A schema of one field after the other cannot say which fields go together, so most requests made up
from it would be refused for the same few reasons, and the rest of them would not be looked at.
"""

import copy

GRAMMARS = ['start: "a" | "bc"', "start: /[a-c]{2,5}/", 'start: "(" start ")" | "x"']
PATTERNS = ["[a-c]{1,9}", r"\d+(\.\d+)?", "é|ü*"]


def narrowed(document):
    """The document without what a server of a tiny model always refuses: other models' names,
    tokens that its vocabulary of 270 does not have, tools and what was asked of them."""
    document = copy.deepcopy(document)
    schemas = document["components"]["schemas"]
    schemas["ModelName"] = {"enum": ["", "tiny", None]}
    document["paths"]["/v1/models/{model}"]["get"]["parameters"][0]["schema"] = {
        "anyOf": [{"enum": ["tiny", "a/b"]}, {"type": "string", "minLength": 1}]}
    schemas["TokenId"]["maximum"] = 269
    schemas["LogitBias"]["propertyNames"]["pattern"] = "^(0|[1-9][0-9]?)$"
    # Whatever they are given, compilers of grammars must not break; now and then they get one.
    for name, good in (("Grammar", GRAMMARS), ("Regex", PATTERNS)):
        schemas[name] = {"anyOf": [{"enum": good}, schemas[name]]}
    schemas["ToolChoice"] = {"enum": ["none", "auto", None]}
    del schemas["ChatRequest"]["properties"]["tools"]
    del schemas["AssistantMessage"]["properties"]["tool_calls"]
    schemas["Messages"]["items"]["anyOf"] = schemas["Messages"]["items"]["anyOf"][:2]
    return document


def agree(body):
    """Changes fields of a request that contradict each other: their rules, as the document has
    them in words."""
    if not isinstance(body, dict):
        return
    given = {name for name, value in body.items() if value is not None}
    if "stream_options" in given and ("messages" in given or "prompt" in given):
        body["stream"] = True
    if "best_of" in given:
        body["best_of"] = max(body["best_of"], body.get("n") or 1)
        if body.get("stream"):
            del body["best_of"]
    if {"max_tokens", "max_completion_tokens"} <= given:
        del body["max_tokens"]
    if {"repetition_penalty", "repeat_penalty"} <= given:
        del body["repeat_penalty"]
    if "top_logprobs" in given and "messages" in given:
        body["logprobs"] = True
    if "prompt" in given and body.get("max_tokens") == 0:
        body["echo"] = True
    if body.get("echo"):
        body.pop("logprobs", None)
    if isinstance(body.get("prompt"), list):
        one = not body["prompt"] or isinstance(body["prompt"][0], (int, float))
        most = 128 // (1 if one else len(body["prompt"]))
        for name in ("n", "best_of"):
            if name in body and body[name] is not None:
                body[name] = min(body[name], most)
    constraints = [name for name in ("grammar", "regex", "response_format", "text") if name in given]
    for name in constraints[1:]:
        del body[name]


def is_a_hair_beyond(value):
    """Whether there is a number next to a round one: the server reads the last bit of a decimal's
    53 as it likes, so that nobody can say on which side of a limit it is."""
    if isinstance(value, dict):
        return any(map(is_a_hair_beyond, value.values()))
    if isinstance(value, list):
        return any(map(is_a_hair_beyond, value))
    return isinstance(value, float) and value != float(f"{value:.13g}") == round(value, 2)
