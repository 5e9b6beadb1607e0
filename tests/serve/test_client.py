"""OpenAI's own client, as it is: every endpoint, sync and async, streaming and not."""

import asyncio
import json
import subprocess

import openai
import pytest

from quire_server import BINARY, SMOLLM2

FLAGS = ["--ctx", "1024", "--kv-memory", "200MiB"]
NAME = SMOLLM2.stem
QUESTION = [{"role": "user", "content": "Name three colours."}]


def quire_run(*args):
    done = subprocess.run([BINARY, "run", SMOLLM2, "--json", "--ctx", "1024", *args],
                          capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def greedy():
    return quire_run("-p", QUESTION[0]["content"], "-n", "12", "--temp", "0", "--logprobs", "2")


def test_models(client):
    listed = list(client.models.list())
    assert [model.id for model in listed] == [NAME]
    model = client.models.retrieve(NAME)
    assert model == listed[0] and model.object == "model" and model.max_model_len == 1024
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("another")
    assert refused.value.code == "model_not_found"


def test_chat_says_what_the_command_line_says(client, greedy):
    answer = client.chat.completions.create(model=NAME, messages=QUESTION, max_tokens=12,
                                            temperature=0, logprobs=True, top_logprobs=2)
    assert answer.object == "chat.completion" and answer.model == NAME
    (choice,) = answer.choices
    assert choice.message.role == "assistant" and choice.message.content == greedy["text"]
    assert choice.finish_reason == "length"
    assert answer.usage.prompt_tokens == greedy["prompt_tokens"]
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12
    for ours, theirs in zip(choice.logprobs.content, greedy["logprobs"], strict=True):
        assert ours.token == theirs["text"]
        assert ours.logprob == pytest.approx(theirs["logprob"], rel=1e-6)
        assert [other.token for other in ours.top_logprobs] == [t["text"] for t in theirs["top"]]


def test_completions_say_what_the_command_line_says(client):
    prompt = "Once upon a time there was a"
    run = quire_run("--raw", "-p", prompt, "-n", "10", "--temp", "0")
    answer = client.completions.create(model=NAME, prompt=prompt, max_tokens=10, temperature=0)
    assert answer.object == "text_completion"
    assert answer.choices[0].text == run["text"]
    assert answer.usage.prompt_tokens == run["prompt_tokens"]
    ids = client.completions.create(model=NAME, prompt=[[1, 6403, 2], [504, 3575]], max_tokens=2)
    assert [choice.index for choice in ids.choices] == [0, 1]
    assert ids.usage.prompt_tokens == 5 and ids.usage.completion_tokens == 4


def test_a_seed_draws_what_it_draws_on_the_command_line(client):
    run = quire_run("-p", QUESTION[0]["content"], "-n", "12", "--temp", "0.9", "--seed", "7",
                    "--top-k", "30", "--top-p", "0.9", "--min-p", "0.01")
    answer = client.chat.completions.create(
        model=NAME, messages=QUESTION, max_tokens=12, temperature=0.9, seed=7, top_p=0.9,
        extra_body={"top_k": 30, "min_p": 0.01})
    assert answer.choices[0].message.content == run["text"]


def test_responses(client, greedy):
    answer = client.responses.create(model=NAME, input=QUESTION[0]["content"],
                                     max_output_tokens=12, temperature=0)
    assert answer.output_text == greedy["text"]
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.input_tokens == greedy["prompt_tokens"]
    assert answer.usage.output_tokens == 12
    told = client.responses.create(model=NAME, input=[{"role": "user", "content": "Say hello."}],
                                   instructions="You are terse.", temperature=0,
                                   max_output_tokens=40)
    assert told.output_text and told.output[0].role == "assistant"


def test_a_stream_of_chat_is_the_answer(client, greedy):
    stream = client.chat.completions.create(model=NAME, messages=QUESTION, max_tokens=12,
                                            temperature=0, stream=True)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == greedy["text"]
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
    assert len(chunks) > 10 and len({chunk.id for chunk in chunks}) == 1


def test_a_stream_of_responses_is_the_answer(client, greedy):
    events = list(client.responses.create(model=NAME, input=QUESTION[0]["content"], temperature=0,
                                          max_output_tokens=12, stream=True))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.incomplete"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == greedy["text"] and len(deltas) > 5
    assert events[-1].response.output_text == greedy["text"]
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_clients_own_helpers_for_streams(client, greedy):
    text = greedy["text"].partition(":")[0]
    with client.chat.completions.stream(model=NAME, messages=QUESTION, max_tokens=12, stop=":",
                                        temperature=0) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert {"content.delta", "content.done"} <= kinds
    assert answer.choices[0].message.content == text and text
    schema = {"type": "json_schema", "name": "colour", "schema": {"enum": ["red", "blue"]}}
    with client.responses.stream(model=NAME, input=QUESTION[0]["content"],
                                 text={"format": schema}) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[-1].type == "response.completed" and final.status == "completed"
    assert json.loads(final.output_text) in ("red", "blue")


def test_the_async_client(server, greedy):
    fields = {"model": NAME, "messages": QUESTION, "max_tokens": 12, "temperature": 0}

    async def streamed(client):
        parts = []
        async for chunk in await client.chat.completions.create(**fields, stream=True):
            parts.append(chunk.choices[0].delta.content or "")
        return "".join(parts)

    async def whole(client):
        return (await client.chat.completions.create(**fields)).choices[0].message.content

    async def all_at_once():
        async with server.async_client() as client:
            assert [model.id async for model in client.models.list()] == [NAME]
            return await asyncio.gather(*[ask(client) for ask in (streamed, whole) * 3])

    assert asyncio.run(all_at_once()) == [greedy["text"]] * 6


def test_leaving_a_stream_early_ends_the_request(server, client):
    stream = client.chat.completions.create(model=NAME, messages=QUESTION, stream=True,
                                            max_tokens=900, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    server.wait_idle()


def test_a_conversation_can_be_sent_back_as_it_came(client):
    messages = list(QUESTION)
    for _ in range(2):
        answer = client.chat.completions.create(model=NAME, messages=messages, max_tokens=8)
        messages += [answer.choices[0].message, {"role": "user", "content": "And then?"}]
    assert len(messages) == 5
