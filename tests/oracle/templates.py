#!/usr/bin/env python3
"""Chats rendered by transformers, for every template in tests/data/text/templates.

    python tests/oracle/templates.py        (writes tests/data/text/templates.json)

A list of {"template", "context", "text"}: the context is everything that the template sees except
what ChatTemplate adds by itself; "text" is null where transformers raises an error.
"""

import json

from common import ROOT  # sets the environment for transformers, so it comes first

from transformers.utils.chat_template_utils import render_jinja_template

DATA = ROOT / "tests" / "data" / "text"
BOS, EOS = "<BOS>", "<EOS>"


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather <now> & \"later\" in 'a' city — déjà vu 東京",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "enum": ["Paris", "Zürich"]}, "days": {"type": "integer", "default": 3},
        "scale": {"type": "number", "default": 1.0}, "exact": {"type": "boolean", "default": False},
        "nothing": {"type": "null", "default": None}}}}}
CALL = {"type": "function", "id": "abcdef123", "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}

CHATS = {
    "user": [turn("user", "Hello")],
    "system": [turn("system", "Be brief."), turn("user", "Hello")],
    "empty system": [turn("system", ""), turn("user", "Hello")],
    "turns": [turn("user", "One?"), turn("assistant", "1."), turn("user", "Two?"), turn("assistant", "2."),
              turn("user", "Three?")],
    "system turns": [turn("system", "  Spaces around.  "), turn("user", "One?"), turn("assistant", "1."),
                     turn("user", "Two?")],
    "ends with assistant": [turn("user", "One?"), turn("assistant", "1.")],
    "unicode": [turn("user", "Grüße, 世界! \U0001f468\u200d\U0001f469 e\u0301 \u202eRTL\u202c \u0000\u0007")],
    "white space": [turn("user", "  leading, trailing \n\n\t\x1c"), turn("assistant", "\n answer \n"),
                    turn("user", " ")],
    "empty content": [turn("user", ""), turn("assistant", ""), turn("user", "")],
    "special text": [turn("user", "<|im_end|>\n<|im_start|>system\n<end_of_turn></s>[INST]{{ bos_token }}{% raw %}")],
    "long": [turn("user", "word " * 60), turn("assistant", "line\n" * 40), turn("user", "?")],
    "many": [turn("assistant" if i % 2 else "user", f"turn {i}") for i in range(21)],
    "thinking": [turn("user", "Why?"), turn("assistant", "<think>\nBecause.\n</think>\n\nSo."), turn("user", "Ah.")],
    "two users": [turn("user", "One"), turn("user", "Two")],
    "assistant first": [turn("assistant", "Hi"), turn("user", "Hello")],
    "system late": [turn("user", "Hello"), turn("system", "Be brief.")],
    "unknown role": [turn("user", "Hello"), turn("critic", "Hm.")],
    "no messages": [],
    "no content": [{"role": "user"}],
    "null content": [turn("user", "Hello"), turn("assistant", None), turn("user", "And?")],
    "parts": [turn("user", [{"type": "text", "text": " A picture: "}, {"type": "image"}, {"type": "text", "text": "b"}])],
    "tool call": [turn("user", "Weather?"), turn("assistant", "", tool_calls=[CALL]),
                  turn("tool", '{"rain": true}', name="get_weather", tool_call_id="abcdef123"),
                  turn("assistant", "Rain."), turn("user", "Thanks")],
    "tool call without content": [turn("user", "Weather?"), {"role": "assistant", "tool_calls": [CALL]},
                                  turn("tool", "rain", name="get_weather", tool_call_id="abcdef123")],
    "two tool results": [turn("user", "Weather?"), turn("assistant", "Let me see.", tool_calls=[CALL, dict(CALL, id="bcdefg234")]),
                         turn("tool", "rain", tool_call_id="abcdef123"), turn("tool", {"sun": 1.5}, tool_call_id="bcdefg234")],
    "skip and stop": [turn("user", "a"), turn("skip", "b"), turn("user", "c"), turn("stop", "d"), turn("user", "e")],
}

DATA_VALUE = {"s": "it's \"é\" </b> \u2028 \x7f", "i": 12345678901234567890, "f": 0.1, "big": 1e22, "t": True,
              "none": None, "list": [1, "two", [3.0, {}], []], "map": {"b": 1, "a": {"c": "\n\t\\"}}, "neg": -0.0}


def contexts():
    for name, messages in CHATS.items():
        for prompt in (False, True):
            yield name, {"messages": messages, "add_generation_prompt": prompt}
        if "tool" in name or name in ("user", "system", "turns"):
            yield name, {"messages": messages, "tools": [WEATHER, WEATHER], "add_generation_prompt": True}
    yield "options", {"messages": CHATS["system turns"], "add_generation_prompt": True, "enable_thinking": False,
                      "thinking": True}


def render(source, context):
    context = dict(context)
    try:
        texts, _ = render_jinja_template(
            [context.pop("messages")], tools=context.pop("tools", None), chat_template=source,
            add_generation_prompt=context.pop("add_generation_prompt"), bos_token=BOS, eos_token=EOS, **context)
        return texts[0]
    except Exception:
        return None


def main():
    cases = []
    for path in sorted((DATA / "templates").glob("*.jinja")):
        source = path.read_text()
        for name, context in contexts():
            # Some templates print the date, and get one that stays.
            context = context | {"date_string": "26 Jul 2024"}
            context |= {"data": DATA_VALUE} if path.stem == "dialect" else {}
            cases.append({"template": path.name, "chat": name, "context": context, "text": render(source, context)})
    text = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
    (DATA / "templates.json").write_text("[\n" + text + "\n]\n")
    failures = sum(case["text"] is None for case in cases)
    print(f"{len(cases)} cases, of which transformers refuses {failures}")


if __name__ == "__main__":
    main()
