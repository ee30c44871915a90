"""The official openai package: tools, structured output, reasoning and responses."""

import json
import re
from typing import Literal

import openai
import pydantic
import pytest
from conftest import DEMO, MANY, SCRIPTED
from openai_support import ASK, case, client, scripted  # noqa: F401

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class Weather(pydantic.BaseModel):
    city: Literal["Paris", "Rome"]
    rain: bool


# ---- tools ----


@case("tool calls")
def test_a_tool_call_comes_as_one_and_its_result_is_read(client):
    messages = [{"role": "user", "content": "What is the weather?"}]
    asked = client.chat.completions.create(model=SCRIPTED, messages=messages, tools=[WEATHER])
    choice = asked.choices[0]
    assert choice.finish_reason == "tool_calls" and not choice.message.content
    (call,) = choice.message.tool_calls
    assert call.type == "function" and call.function.name == "get_weather" and call.id
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "rain, 11 degrees"}]
    told = client.chat.completions.create(model=SCRIPTED, messages=messages, tools=[WEATHER])
    assert told.choices[0].message.content == "It rains in Paris, at 11 degrees."
    assert told.choices[0].finish_reason == "stop"


@case("tool calls", "streaming")
def test_tool_calls_stream_name_first_with_the_text_before_them(client):
    fields = scripted("What is the weather in Paris and in Rome?")
    whole = client.chat.completions.create(**fields, tools=[WEATHER]).choices[0].message
    calls, content, reason = {}, "", None
    for event in client.chat.completions.create(**fields, tools=[WEATHER], stream=True):
        if not event.choices:
            continue
        reason = event.choices[0].finish_reason or reason
        content += event.choices[0].delta.content or ""
        for delta in event.choices[0].delta.tool_calls or []:
            if delta.index not in calls:
                assert delta.id and delta.function.name == "get_weather"
                calls[delta.index] = ""
            calls[delta.index] += delta.function.arguments or ""
    assert [json.loads(calls[index]) for index in sorted(calls)] == [{"city": "Paris"}, {"city": "Rome"}]
    assert reason == "tool_calls" and content.strip() == "Let me look." == whole.content.strip()
    assert [json.loads(call.function.arguments)["city"] for call in whole.tool_calls] == ["Paris", "Rome"]


@case("tool calls", "streaming")
def test_a_call_that_breaks_off_is_told_alike_whole_and_streamed(client):
    fields = scripted("Make a broken call.")
    stream = client.chat.completions.create(**fields, tools=[WEATHER], stream=True)
    deltas = [delta for event in stream if event.choices for delta in event.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "get_weather"
    arguments = "".join(delta.function.arguments or "" for delta in deltas)
    assert arguments.startswith('{"city":')
    (call,) = client.chat.completions.create(**fields, tools=[WEATHER]).choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", arguments)


@case("tool calls")
def test_tool_choice_none_calls_nothing(client):
    fields = scripted("What is the weather?")
    choice = client.chat.completions.create(**fields, tools=[WEATHER], tool_choice="none").choices[0]
    assert not choice.message.tool_calls and choice.finish_reason == "stop"


@case("forced tool calls")
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_forced_call_is_made_by_a_model_that_knows_no_tools(client, choice):
    answer = client.chat.completions.create(
        model=DEMO,
        messages=ASK,
        tools=[WEATHER],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=MANY,
        temperature=0,
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather" and json.loads(call.function.arguments)["city"] in ("Paris", "Rome")


# ---- custom tools ----

SUM = {
    "type": "grammar",
    "syntax": "lark",
    "definition": 'start: NUMBER ("+" NUMBER)~1..2 "\\n" "\\"end\\""\nNUMBER: /[1-9][0-9]?/\n',
}
SUM_TEXT = re.compile(r'[1-9][0-9]?(\+[1-9][0-9]?){1,2}\n"end"')


@case("forced tool calls")
def test_a_custom_tool_holds_its_text_to_a_grammar(client):
    grammar = {"type": "grammar", "grammar": {key: SUM[key] for key in ("syntax", "definition")}}
    fields = {
        "model": DEMO,
        "messages": ASK,
        "tools": [WEATHER, {"type": "custom", "custom": {"name": "sum", "description": "Adds.", "format": grammar}}],
        "tool_choice": {"type": "custom", "custom": {"name": "sum"}},
        "max_tokens": MANY,
        "temperature": 0,
    }
    (call,) = client.chat.completions.create(**fields).choices[0].message.tool_calls
    assert call.type == "custom" and call.custom.name == "sum" and SUM_TEXT.fullmatch(call.custom.input)
    deltas = [
        delta.model_extra["custom"] if "custom" in (delta.model_extra or {}) else delta.custom
        for event in client.chat.completions.create(**fields, stream=True)
        for delta in (event.choices[0].delta.tool_calls or [] if event.choices else [])
    ]
    texts = [delta["input"] if isinstance(delta, dict) else delta.input for delta in deltas]
    assert "".join(texts) == call.custom.input
    with pytest.raises(openai.BadRequestError) as refused:
        grammar["grammar"]["definition"] = "start: other"
        client.chat.completions.create(**fields)
    assert refused.value.param == "tools[1].custom.format.grammar.definition"


NOTE = 'Line "one"\n\ttwo \\ three 🐔 é </tool> {"input": 1}\n*** End of Patch'


@case("tool calls", "streaming")
def test_a_custom_tools_text_streams_as_it_comes_and_is_whole(client):
    fields = scripted("Keep a note.") | {"tools": [{"type": "custom", "custom": {"name": "note"}}]}
    (call,) = client.chat.completions.create(**fields).choices[0].message.tool_calls
    assert call.type == "custom" and call.custom.input == NOTE
    pieces = [
        delta["custom"].get("input")
        for event in client.chat.completions.create(**fields, stream=True)
        for delta in (event.to_dict()["choices"][0]["delta"].get("tool_calls", []) if event.choices else [])
    ]
    assert len(pieces) > 5 and "".join(pieces) == NOTE


@case("responses", "tool calls", "streaming")
def test_a_custom_tools_text_streams_in_responses_too(client):
    fields = {"model": SCRIPTED, "input": "Keep a note.", "tools": [{"type": "custom", "name": "note"}]}
    (whole,) = client.responses.create(**fields).output
    assert whole.type == "custom_tool_call" and whole.input == NOTE
    with client.responses.stream(**fields) as stream:
        events = list(stream)
        final = stream.get_final_response()
    pieces = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    (done,) = [event.input for event in events if event.type == "response.custom_tool_call_input.done"]
    assert len(pieces) > 5 and "".join(pieces) == done == final.output[0].input == NOTE


@case("tool calls")
def test_one_call_is_made_where_one_is_wanted(client):
    fields = scripted("What is the weather in Paris and in Rome?") | {"tools": [WEATHER], "parallel_tool_calls": False}
    choice = client.chat.completions.create(**fields).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [json.loads(call.function.arguments)["city"] for call in choice.message.tool_calls] == ["Paris"]
    answer = client.responses.create(
        model=SCRIPTED,
        input="What is the weather in Paris and in Rome?",
        tools=[{"type": "function", **WEATHER["function"]}],
        parallel_tool_calls=False,
    )
    assert [item.arguments for item in answer.output if item.type == "function_call"] == ['{"city": "Paris"}']


@case("responses", "forced tool calls")
def test_allowed_tools_are_the_ones_that_are_called(client):
    tools = [{"type": "function", **WEATHER["function"], "strict": True}, {"type": "custom", "name": "sum", "format": SUM}]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "sum"}]}
    answer = client.responses.create(
        model=DEMO,
        input="What is the weather?",
        tools=tools,
        tool_choice=allowed,
        parallel_tool_calls=False,
        max_output_tokens=MANY,
        temperature=0,
    )
    (call,) = [item for item in answer.output if item.type != "reasoning"]
    assert call.type == "custom_tool_call" and call.name == "sum" and SUM_TEXT.fullmatch(call.input)


# ---- structured output, reasoning ----


@case("structured output")
def test_parse_gives_an_object_of_the_schema(client):
    answer = client.chat.completions.parse(model=DEMO, messages=ASK, response_format=Weather, max_tokens=MANY)
    assert isinstance(answer.choices[0].message.parsed, Weather)


@case("structured output", "streaming")
def test_a_streamed_object_is_parsed_at_its_end(client):
    with client.chat.completions.stream(
        model=DEMO, messages=ASK, response_format=Weather, max_tokens=MANY, temperature=0
    ) as stream:
        for _ in stream:
            pass
    assert isinstance(stream.get_final_completion().choices[0].message.parsed, Weather)


@case("structured output")
def test_json_mode_gives_json(client):
    answer = client.chat.completions.create(
        model=DEMO, messages=ASK, response_format={"type": "json_object"}, max_tokens=3000, temperature=0, seed=1
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    else:
        assert answer.choices[0].message.content.lstrip().startswith("{")


@case("structured output")
def test_a_strict_tool_is_parsed(client):
    tool = openai.pydantic_function_tool(Weather, name="tell_weather")
    answer = client.chat.completions.parse(
        model=DEMO,
        messages=ASK,
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=MANY,
        temperature=0,
    )
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Weather)


class Walk(pydantic.BaseModel):
    kind: Literal["walk"] = "walk"
    miles: int


class Stay(pydantic.BaseModel):
    kind: Literal["stay"] = "stay"
    then: "Walk | Stay | None" = pydantic.Field(None, discriminator="kind")


class Plan(pydantic.BaseModel):
    first: Walk | Stay = pydantic.Field(discriminator="kind")


@case("structured output")
def test_a_union_with_a_discriminator_is_kept(client):
    """Pydantic writes oneOf of references, which names itself here, and leaves `kind` optional."""
    schema = Plan.model_json_schema()
    assert "oneOf" in schema["properties"]["first"] and "kind" not in schema["$defs"]["Walk"]["required"]
    answer = client.chat.completions.create(
        model=DEMO,
        messages=ASK,
        response_format={"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}},
        max_tokens=MANY,
        temperature=0,
    )
    assert isinstance(Plan.model_validate_json(answer.choices[0].message.content), Plan)


@case("structured output", "errors")
def test_a_schema_that_can_not_be_kept_is_refused_by_its_keyword(client):
    schema = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=DEMO,
            messages=ASK,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}},
        )
    assert "not" in refused.value.message


@case("reasoning")
def test_thoughts_come_apart_from_the_answer(client):
    fields = scripted("How much are two and two?")
    message = client.chat.completions.create(**fields).choices[0].message
    assert message.content.strip() == "Four." and message.reasoning_content.strip() == "Two and two are four."
    deltas = [e.choices[0].delta for e in client.chat.completions.create(**fields, stream=True) if e.choices]
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas).strip() == "Two and two are four."
    assert "".join(d.content or "" for d in deltas).strip() == "Four."


# ---- responses ----


@case("responses")
def test_a_response_answers_text(client):
    answer = client.responses.create(model=DEMO, input="Who comes here?", max_output_tokens=8, store=False)
    assert answer.object == "response" and answer.output_text and answer.usage.input_tokens > 0
    assert answer.status == ("completed" if answer.usage.output_tokens < 8 else "incomplete")
    assert answer.usage.input_tokens_details.cached_tokens >= 0


@case("responses")
def test_instructions_and_items_are_read(client):
    items = [
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": "A herald."},
        {"role": "user", "content": [{"type": "input_text", "text": "Who comes here?"}]},
    ]
    answer = client.responses.create(model=DEMO, input=items, instructions="Be brief.", max_output_tokens=4)
    short = client.responses.create(model=DEMO, input=items[-1:], max_output_tokens=4)
    assert answer.usage.input_tokens > short.usage.input_tokens


@case("responses", "streaming")
def test_a_response_streams_typed_events(client):
    with client.responses.stream(model=DEMO, input="Who comes here?", max_output_tokens=8, temperature=0) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete")
    text_of_deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text_of_deltas == events[-1].response.output_text
    numbers = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
    assert numbers == sorted(numbers)


@case("responses", "tool calls")
def test_a_response_calls_a_function_and_reads_its_output(client):
    tool = {"type": "function", **WEATHER["function"], "strict": False}
    items = [{"role": "user", "content": "What is the weather?"}]
    asked = client.responses.create(model=SCRIPTED, input=items, tools=[tool])
    call = next(item for item in asked.output if item.type == "function_call")
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}
    items += [call.model_dump(exclude_none=True)]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain, 11 degrees"}]
    told = client.responses.create(model=SCRIPTED, input=items, tools=[tool])
    assert told.output_text == "It rains in Paris, at 11 degrees."


@case("responses", "structured output")
def test_a_response_is_parsed(client):
    answer = client.responses.parse(model=DEMO, input="Who comes here?", text_format=Weather, max_output_tokens=MANY)
    assert isinstance(answer.output_parsed, Weather)


@case("responses", "errors")
def test_a_stored_response_is_refused_by_name(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=DEMO, input="And then?", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
