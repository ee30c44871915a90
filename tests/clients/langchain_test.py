"""LangChain's ChatOpenAI."""

from typing import Literal

import openai
import pydantic
import pytest
from conftest import DEMO, MANY, SCRIPTED
from features import feature
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from cluster import text


class Weather(pydantic.BaseModel):
    """The weather in a city."""

    city: Literal["Paris", "Rome"]
    rain: bool


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def case(*names):
    return feature("langchain-openai", *names)


@pytest.fixture
def make(base_url):
    def make(**fields):
        return ChatOpenAI(**{"model": DEMO, "base_url": base_url, "api_key": "none", "max_retries": 0, **fields})

    return make


@case("chat")
def test_invoke_answers(make):
    answer = make(max_tokens=8, temperature=0).invoke([SystemMessage("Speak as a herald."), HumanMessage("Who?")])
    assert answer.content and answer.response_metadata["finish_reason"] in ("stop", "length")


@case("streaming")
def test_a_stream_is_the_answer_in_pieces(make):
    model = make(max_tokens=8, temperature=0, stream_usage=True)
    pieces = list(model.stream("Who comes here?"))
    assert "".join(piece.content for piece in pieces) == model.invoke("Who comes here?").content
    assert sum(pieces[1:], pieces[0]).usage_metadata["output_tokens"] > 0


@case("async")
async def test_a_batch_runs_at_a_time(make):
    answers = await make(max_tokens=4).abatch([f"Question {number}" for number in range(6)])
    assert all(answer.usage_metadata["output_tokens"] <= 4 for answer in answers)


@case("cached tokens")
def test_cached_tokens_are_told_as_cache_read(make):
    messages = [SystemMessage(text(100, "langchain cached")), HumanMessage("Who?")]
    make(max_tokens=2).invoke(messages)
    usage = make(max_tokens=2).invoke(messages).usage_metadata
    assert usage["input_token_details"]["cache_read"] > 300


@case("log probabilities")
def test_log_probabilities_are_handed_on(make):
    answer = make(max_tokens=4, temperature=0, logprobs=True, top_logprobs=2).invoke("Who comes here?")
    assert len(answer.response_metadata["logprobs"]["content"]) > 0


@case("errors")
def test_errors_are_those_of_openai(make):
    with pytest.raises(openai.NotFoundError):
        make(model="nobody").invoke("Who?")
    with pytest.raises(openai.BadRequestError):
        make(model_kwargs={"top_p": 2}).invoke("Who?")


@case("tool calls")
def test_bound_tools_are_called(make):
    model = make(model=SCRIPTED).bind_tools([get_weather])
    question = HumanMessage("What is the weather?")
    asked = model.invoke([question])
    (call,) = asked.tool_calls
    assert call["name"] == "get_weather" and call["args"] == {"city": "Paris"}
    told = model.invoke([question, asked, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])])
    assert told.content == "It rains in Paris, at 11 degrees."


@case("tool calls", "streaming")
def test_streamed_tool_calls_add_up(make):
    pieces = list(make(model=SCRIPTED).bind_tools([get_weather]).stream("What is the weather in Paris and in Rome?"))
    whole = sum(pieces[1:], pieces[0])
    assert [call["args"]["city"] for call in whole.tool_calls] == ["Paris", "Rome"]


@case("structured output")
def test_structured_output_is_an_object_of_the_class(make):
    model = make(max_tokens=MANY, temperature=0)
    assert isinstance(model.with_structured_output(Weather).invoke("Who comes here?"), Weather)


@case("forced tool calls", "structured output")
def test_structured_output_by_a_forced_tool(make):
    model = make(max_tokens=MANY, temperature=0).with_structured_output(Weather, method="function_calling")
    assert isinstance(model.invoke("Who comes here?"), Weather)


@case("responses")
def test_the_responses_api_is_spoken_too(make):
    answer = make(max_tokens=8, use_responses_api=True, temperature=0).invoke("Who comes here?")
    assert answer.text and answer.usage_metadata["input_tokens"] > 0
