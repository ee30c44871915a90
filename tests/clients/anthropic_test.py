"""The official anthropic package against /v1/messages."""

import asyncio

import anthropic
import pytest
from conftest import DEMO, MANY, SCRIPTED, recording_client
from features import feature

from cluster import text

GREEDY = {"temperature": 0}  # this client has no parameter for it any more
ASK = [{"role": "user", "content": "Who comes here?"}]
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def case(*names):
    return feature("anthropic", *names)


def prompt_of(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


@pytest.fixture
def client(router):
    with anthropic.Anthropic(base_url=router.url, api_key="none", max_retries=0) as client:
        yield client


@case("chat")
def test_a_message_answers_in_blocks(client):
    answer = client.messages.create(model=DEMO, messages=ASK, max_tokens=8, extra_body=GREEDY)
    assert answer.type == "message" and answer.role == "assistant" and answer.model == DEMO
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens <= 8


@case("chat")
def test_system_and_content_blocks_are_read(client):
    blocks = [{"role": "user", "content": [{"type": "text", "text": "Who comes here?"}]}]
    plain = client.messages.create(model=DEMO, messages=blocks, max_tokens=4, extra_body=GREEDY)
    same = client.messages.create(model=DEMO, messages=ASK, max_tokens=4, extra_body=GREEDY)
    more = client.messages.create(
        model=DEMO, messages=ASK, max_tokens=4, system=[{"type": "text", "text": "Speak as a herald."}]
    )
    assert plain.content[0].text == same.content[0].text
    assert prompt_of(more.usage) > prompt_of(same.usage) == prompt_of(plain.usage)


@case("chat")
def test_a_stop_sequence_is_named(client):
    whole = client.messages.create(model=DEMO, messages=ASK, max_tokens=24, extra_body=GREEDY).content[0].text
    stop = whole[5:9]
    cut = client.messages.create(model=DEMO, messages=ASK, max_tokens=24, extra_body=GREEDY, stop_sequences=[stop])
    assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop
    assert cut.content[0].text == whole.split(stop)[0]


@case("streaming")
def test_a_stream_is_the_message_in_typed_events(client):
    fields = {"model": DEMO, "messages": ASK, "max_tokens": 8, "extra_body": GREEDY}
    whole = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(pieces) == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason and final.usage.output_tokens == whole.usage.output_tokens


@case("streaming")
def test_the_events_come_in_their_order(client):
    kinds = [event.type for event in client.messages.create(model=DEMO, messages=ASK, max_tokens=4, stream=True)]
    kinds = [kind for kind in kinds if kind != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}


@case("async")
async def test_many_messages_run_at_a_time(router):
    async with anthropic.AsyncAnthropic(base_url=router.url, api_key="none", max_retries=0) as client:

        async def ask(number):
            messages = [{"role": "user", "content": f"Question {number}: who comes here?"}]
            async with client.messages.stream(model=DEMO, messages=messages, max_tokens=8) as stream:
                return (await stream.get_final_message()).stop_reason

        reasons = await asyncio.gather(*(ask(number) for number in range(8)))
    assert set(reasons) <= {"end_turn", "max_tokens"}


@case("cached tokens")
def test_a_second_turn_finds_the_first_in_the_cache(client):
    fields = {"model": DEMO, "messages": ASK, "max_tokens": 2, "system": text(100, "anthropic cached")}
    first = client.messages.create(**fields).usage
    second = client.messages.create(**fields).usage
    assert first.cache_read_input_tokens < 16 and second.cache_read_input_tokens > 300
    assert prompt_of(second) == prompt_of(first)


@case("cached tokens")
def test_usage_tells_what_a_request_has_written_and_for_how_long(client):
    words = {"type": "text", "text": text(60, "anthropic written"), "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    fields = {"model": DEMO, "messages": [{"role": "user", "content": [words]}], "max_tokens": 2}
    usage = client.messages.create(**fields).usage
    created = usage.cache_creation
    assert usage.cache_creation_input_tokens > 100 and created.ephemeral_1h_input_tokens > 100
    assert created.ephemeral_1h_input_tokens + created.ephemeral_5m_input_tokens == usage.cache_creation_input_tokens
    with client.messages.stream(**fields) as stream:
        again = stream.get_final_message().usage
    assert again.cache_creation_input_tokens == 0 and prompt_of(again) == prompt_of(usage)
    with pytest.raises(anthropic.BadRequestError, match="cache_control.ttl"):
        words["cache_control"]["ttl"] = "2h"
        client.messages.create(**fields)


@case("token counts")
def test_tokens_are_counted_without_an_answer(client):
    counted = client.messages.count_tokens(model=DEMO, messages=ASK, system="Speak as a herald.", tools=[WEATHER])
    usage = client.messages.create(
        model=DEMO, messages=ASK, system="Speak as a herald.", tools=[WEATHER], max_tokens=1
    ).usage
    assert counted.input_tokens == prompt_of(usage)


@case("raw responses")
def test_a_raw_response_has_the_headers(client):
    raw = client.messages.with_raw_response.create(model=DEMO, messages=ASK, max_tokens=1)
    assert raw.headers["request-id"] == raw.headers["x-request-id"]
    assert raw.headers["x-roost-worker"] == "worker-a" and raw.parse().content


@case("errors")
@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"messages": []}, "messages"),
        ({"extra_body": {"temperature": 9}}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "role"),
    ],
)
def test_a_wrong_value_is_a_bad_request_that_names_it(client, fields, word):
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(**{"model": DEMO, "messages": ASK, "max_tokens": 1, **fields})
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    assert word in refused.value.body["error"]["message"]


@case("errors")
def test_an_unknown_model_is_not_found(client):
    with pytest.raises(anthropic.NotFoundError) as refused:
        client.messages.create(model="nobody", messages=ASK, max_tokens=1)
    assert refused.value.body["error"]["type"] == "not_found_error"


@case("retries", "errors")
def test_a_full_cluster_is_a_rate_limit_and_the_retry_gets_through(full_cluster):
    url = full_cluster.router.url
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        with pytest.raises(anthropic.RateLimitError) as refused:
            client.messages.create(model=DEMO, messages=ASK, max_tokens=1)
    assert refused.value.body["error"]["type"] == "rate_limit_error"
    seen = []
    http = recording_client(anthropic, seen, full_cluster.free)
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=3, http_client=http) as client:
        assert client.messages.create(model=DEMO, messages=ASK, max_tokens=1).content
    assert seen[0][0] == 429 and int(seen[0][1]) >= 1 and seen[-1][0] == 200


@case("tool calls")
def test_a_tool_is_used_and_its_result_is_read(client):
    messages = [{"role": "user", "content": "What is the weather?"}]
    asked = client.messages.create(model=SCRIPTED, messages=messages, tools=[WEATHER], max_tokens=200)
    assert asked.stop_reason == "tool_use"
    (use,) = [block for block in asked.content if block.type == "tool_use"]
    assert use.name == "get_weather" and use.input == {"city": "Paris"} and use.id
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "rain, 11 degrees"}
    messages += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
    told = client.messages.create(model=SCRIPTED, messages=messages, tools=[WEATHER], max_tokens=200)
    assert told.content[0].text == "It rains in Paris, at 11 degrees." and told.stop_reason == "end_turn"


@case("tool calls", "streaming")
def test_tool_uses_stream_with_the_text_before_them(client):
    messages = [{"role": "user", "content": "What is the weather in Paris and in Rome?"}]
    with client.messages.stream(model=SCRIPTED, messages=messages, tools=[WEATHER], max_tokens=200) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["text", "tool_use", "tool_use"]
    assert final.content[0].text.strip() == "Let me look."
    assert [block.input["city"] for block in final.content[1:]] == ["Paris", "Rome"]


@case("forced tool calls")
@pytest.mark.parametrize("choice", [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "get_weather"}])
def test_a_forced_tool_is_used_by_a_model_that_knows_none(client, choice):
    answer = client.messages.create(
        model=DEMO, messages=ASK, tools=[WEATHER], tool_choice=choice, max_tokens=MANY, extra_body=GREEDY
    )
    (use,) = [block for block in answer.content if block.type == "tool_use"]
    assert use.input["city"] in ("Paris", "Rome") and answer.stop_reason == "tool_use"


@case("chat")
def test_an_answer_goes_on_with_the_assistants_words(client):
    fields = {"model": DEMO, "max_tokens": 8, "extra_body": GREEDY}
    whole = client.messages.create(messages=ASK, **(fields | {"max_tokens": 16})).content[0].text
    begun = client.messages.create(messages=ASK, **fields).content[0].text
    rest = client.messages.create(messages=[*ASK, {"role": "assistant", "content": begun}], **fields)
    assert begun + rest.content[0].text == whole


@case("reasoning")
def test_thoughts_are_a_block_of_their_own(client):
    fields = {"model": SCRIPTED, "max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    fields["messages"] = [{"role": "user", "content": "How much are two and two?"}]
    whole = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        thought, answer = message.content
        assert thought.type == "thinking" and thought.thinking.strip() == "Two and two are four."
        assert answer.type == "text" and answer.text.strip() == "Four."
