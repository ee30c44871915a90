"""LiteLLM, which speaks to OpenAI-compatible and Anthropic-compatible servers."""

import json

import litellm
import pytest
from conftest import DEMO, MANY, SCRIPTED
from features import feature

from cluster import text

ASK = [{"role": "user", "content": "Who comes here?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def case(*names):
    return feature("litellm", *names)


@pytest.fixture
def fields(base_url):
    return {"model": f"openai/{DEMO}", "api_base": base_url, "api_key": "none", "messages": ASK, "max_retries": 0}


@case("chat")
def test_completion_answers(fields):
    answer = litellm.completion(**fields, max_tokens=8, temperature=0)
    assert answer.choices[0].message.content and answer.usage.completion_tokens <= 8


@case("streaming")
def test_a_stream_is_the_answer_in_pieces(fields):
    whole = litellm.completion(**fields, max_tokens=8, temperature=0).choices[0].message.content
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in litellm.completion(**fields, max_tokens=8, temperature=0, stream=True)
        if chunk.choices
    ]
    assert "".join(pieces) == whole


@case("async")
async def test_an_async_completion_answers(fields):
    answer = await litellm.acompletion(**fields, max_tokens=4)
    assert answer.choices[0].finish_reason in ("stop", "length")


@case("cached tokens")
def test_cached_tokens_are_handed_on(fields):
    fields["messages"] = [{"role": "system", "content": text(100, "litellm cached")}, *ASK]
    litellm.completion(**fields, max_tokens=2)
    usage = litellm.completion(**fields, max_tokens=2).usage
    assert usage.prompt_tokens_details.cached_tokens > 300


@case("errors")
def test_errors_have_their_classes(fields):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**{**fields, "model": "openai/nobody"})
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(**fields, top_p=2)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**{**fields, "messages": [{"role": "user", "content": text(2000, "long")}]})


@case("retries")
def test_a_full_cluster_is_a_rate_limit(full_cluster, fields):
    fields["api_base"] = full_cluster.router.url + "/v1"
    with pytest.raises(litellm.RateLimitError):
        litellm.completion(**fields, max_tokens=1)
    full_cluster.free()
    fields["max_retries"] = 3
    assert litellm.completion(**fields, max_tokens=1).choices


@case("tool calls")
def test_a_tool_is_called(fields):
    fields.update(model=f"openai/{SCRIPTED}", messages=[{"role": "user", "content": "What is the weather?"}])
    answer = litellm.completion(**fields, tools=[WEATHER])
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Paris"}


@case("forced tool calls")
def test_a_tool_is_called_by_a_model_that_knows_none(fields):
    answer = litellm.completion(**fields, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=MANY, temperature=0)
    (call,) = answer.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")


@case("structured output")
def test_a_schema_is_kept(fields):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    shape = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}}
    answer = litellm.completion(**fields, response_format=shape, max_tokens=MANY, temperature=0)
    assert json.loads(answer.choices[0].message.content)["city"] in ("Paris", "Rome")


@case("reasoning")
def test_thoughts_come_apart_from_the_answer(fields):
    fields.update(model=f"openai/{SCRIPTED}", messages=[{"role": "user", "content": "How much are two and two?"}])
    message = litellm.completion(**fields).choices[0].message
    assert message.content.strip() == "Four." and message.reasoning_content.strip() == "Two and two are four."


@case("responses")
async def test_a_response_answers(fields):
    del fields["messages"]
    answer = await litellm.aresponses(**fields, input="Who comes here?", max_output_tokens=8)
    assert answer.output and answer.usage.input_tokens > 0
