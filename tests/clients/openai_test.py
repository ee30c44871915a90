"""The official openai package."""

import asyncio
import json
from typing import Literal

import openai
import pydantic
import pytest
from conftest import DEMO, MANY, SCRIPTED, start_scripted_worker, wait_for_models
from features import feature

from cluster import Cluster, text

ASK = [{"role": "user", "content": "Who comes here?"}]
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


def case(*names):
    return feature("openai", *names)


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


def scripted(question):
    return {"model": SCRIPTED, "messages": [{"role": "user", "content": question}]}


# ---- chat ----


@case("chat")
def test_chat_answers_with_ids_usage_and_a_finish_reason(client):
    answer = client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=8, temperature=0)
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion" and answer.model == DEMO
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@case("chat")
def test_content_parts_a_developer_message_and_max_completion_tokens_are_taken(client):
    messages = [
        {"role": "developer", "content": "Speak as a herald."},
        {"role": "user", "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "comes here?"}]},
    ]
    answer = client.chat.completions.create(model=DEMO, messages=messages, max_completion_tokens=4, user="someone")
    assert answer.usage.completion_tokens <= 4


@case("chat")
def test_a_seed_gives_the_same_answer_again(client):
    answers = {
        client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=12, seed=7).choices[0].message.content
        for _ in range(3)
    }
    assert len(answers) == 1


@case("chat")
def test_a_stop_string_ends_an_answer_and_is_not_in_it(client):
    whole = client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=24, temperature=0)
    stop = whole.choices[0].message.content[5:9]
    cut = client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=24, temperature=0, stop=[stop])
    assert cut.choices[0].message.content == whole.choices[0].message.content.split(stop)[0]
    assert cut.choices[0].finish_reason == "stop"


@case("several choices")
def test_several_choices_come_in_one_answer(client):
    answer = client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=8, n=3, seed=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


@case("streaming")
def test_a_stream_is_the_whole_answer_in_pieces(client):
    fields = {"model": DEMO, "messages": ASK, "max_tokens": 16, "temperature": 0}
    whole = client.chat.completions.create(**fields)
    events = list(client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert events[0].choices[0].delta.role == "assistant"
    pieces = [event.choices[0].delta.content or "" for event in events if event.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    assert [e.choices[0].finish_reason for e in events if e.choices][-1] == whole.choices[0].finish_reason
    assert not events[-1].choices and events[-1].usage.completion_tokens == whole.usage.completion_tokens


@case("streaming")
def test_the_stream_helper_tells_the_final_completion(client):
    with client.chat.completions.stream(**scripted("Speak.")) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == "I have no line for this."


@case("streaming")
def test_a_stream_that_is_closed_ends_the_request(client, router):
    stream = client.chat.completions.create(
        model=DEMO, messages=ASK, max_tokens=3000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    assert client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=1).choices


@case("cached tokens")
def test_a_second_turn_finds_the_first_in_the_cache(client):
    system = {"role": "system", "content": text(100, "openai cached")}
    first = client.chat.completions.create(model=DEMO, messages=[system, *ASK], max_tokens=4)
    second = client.chat.completions.create(model=DEMO, messages=[system, *ASK], max_tokens=4)
    assert first.usage.prompt_tokens_details.cached_tokens < 16  # part of a block may be shared
    assert second.usage.prompt_tokens_details.cached_tokens > 300


@case("async")
async def test_many_streams_run_at_a_time(base_url):
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def ask(number):
            messages = [{"role": "user", "content": f"Question {number}: who comes here?"}]
            stream = await client.chat.completions.create(model=DEMO, messages=messages, max_tokens=12, stream=True)
            reasons = [chunk.choices[0].finish_reason async for chunk in stream if chunk.choices]
            return reasons[-1]

        reasons = await asyncio.gather(*(ask(number) for number in range(16)))
    assert set(reasons) <= {"stop", "length"}


@case("log probabilities")
def test_log_probabilities_are_those_of_the_tokens_of_the_answer(client):
    answer = client.chat.completions.create(
        model=DEMO, messages=ASK, max_tokens=6, temperature=0, logprobs=True, top_logprobs=3
    )
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens or len(tokens) == 6
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == answer.choices[0].message.content
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)  # greedy


# ---- completions, models ----


@case("completions")
def test_a_text_goes_on(client):
    answer = client.completions.create(model=DEMO, prompt="Now is the winter of", max_tokens=6, temperature=0)
    assert answer.object == "text_completion" and answer.choices[0].text


@case("completions")
def test_a_list_of_prompts_has_a_choice_for_each(client):
    alone = [
        client.completions.create(model=DEMO, prompt=prompt, max_tokens=6, temperature=0).choices[0].text
        for prompt in ("Now is", "To be, or")
    ]
    answer = client.completions.create(model=DEMO, prompt=["Now is", "To be, or"], max_tokens=6, temperature=0)
    assert [choice.text for choice in answer.choices] == alone
    assert [choice.index for choice in answer.choices] == [0, 1]


@case("completions", "log probabilities")
def test_an_echo_scores_the_prompt(client):
    prompt = "Now is the winter of our discontent"
    answer = client.completions.create(model=DEMO, prompt=prompt, max_tokens=1, temperature=0, echo=True, logprobs=2)
    scored = answer.choices[0].logprobs
    assert answer.choices[0].text.startswith(prompt)
    assert len(scored.tokens) == answer.usage.prompt_tokens + 1 and scored.text_offset[0] == 0
    assert scored.token_logprobs[0] is None and all(value <= 0 for value in scored.token_logprobs[1:])
    alone = client.completions.create(model=DEMO, prompt=prompt, max_tokens=0, temperature=0, echo=True, logprobs=2)
    assert alone.choices[0].text == prompt and alone.choices[0].finish_reason == "length"
    assert alone.choices[0].logprobs.token_logprobs == scored.token_logprobs[:-1]
    assert alone.usage.completion_tokens == 0


@case("completions")
def test_token_ids_are_prompts_too(client):
    first = client.completions.create(model=DEMO, prompt=[40, 41, 42], max_tokens=4, temperature=0)
    both = client.completions.create(model=DEMO, prompt=[[40, 41, 42], [40, 41, 42]], max_tokens=4, temperature=0)
    assert first.usage.prompt_tokens == 3
    assert {choice.text for choice in both.choices} == {first.choices[0].text}


@case("completions", "streaming")
def test_a_completion_streams(client):
    chunks = list(client.completions.create(model=DEMO, prompt="Now is", max_tokens=6, temperature=0, stream=True))
    whole = client.completions.create(model=DEMO, prompt="Now is", max_tokens=6, temperature=0)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


@case("models")
def test_models_are_listed_and_found(client):
    assert {model.id for model in client.models.list()} == {DEMO, SCRIPTED}
    assert client.models.retrieve(DEMO).id == DEMO
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


# ---- raw responses, errors, retries ----


@case("raw responses")
def test_a_raw_response_has_the_headers(client):
    raw = client.chat.completions.with_raw_response.create(
        model=DEMO, messages=ASK, max_tokens=1, extra_headers={"X-Request-Id": "my-own.1"}
    )
    assert raw.headers["x-request-id"] == "my-own.1" and raw.headers["x-roost-worker"] == "worker-a"
    assert raw.parse().choices and raw.request_id == "my-own.1"


@case("raw responses", "streaming")
def test_a_raw_stream_is_lines_of_events(client):
    with client.chat.completions.with_streaming_response.create(
        model=DEMO, messages=ASK, max_tokens=2, stream=True
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines) and lines[-1] == "data: [DONE]"


@case("errors")
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"logit_bias": {"99999": 1}}, "logit_bias.99999"),
    ],
)
def test_a_wrong_value_is_a_bad_request_that_names_it(client, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": DEMO, "messages": ASK, "max_tokens": 1, **fields})
    assert refused.value.param in (param, f"{param}.type") and refused.value.type == "invalid_request_error" and refused.value.message


@case("errors", "completions")
def test_best_of_is_refused_by_name(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=DEMO, prompt="Now is", max_tokens=1, best_of=2)
    assert refused.value.param == "best_of"


@case("errors")
def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nobody", messages=ASK)
    assert refused.value.code == "model_not_found" and refused.value.param == "model"


@case("errors")
def test_a_prompt_beyond_the_context_says_so(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=DEMO, messages=[{"role": "user", "content": text(2000, "long")}])
    assert refused.value.code == "context_length_exceeded"


@case("errors")
def test_a_path_that_is_not_there_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model=DEMO, input="text")
    assert refused.value.type == "invalid_request_error"


@case("errors")
def test_no_worker_is_a_server_error(idle_router):
    with openai.OpenAI(base_url=idle_router.url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(model=DEMO, messages=ASK)
    assert refused.value.status_code == 503


@case("errors")
def test_nobody_on_the_port_is_a_connection_error(closed_url):
    with openai.OpenAI(base_url=closed_url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.APIConnectionError):
            client.models.list()


@case("errors")
def test_a_client_that_gives_up_gets_its_timeout(client):
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.05).chat.completions.create(
            model=DEMO, messages=ASK, max_tokens=3000, extra_body={"ignore_eos": True}
        )


@case("errors", "streaming")
def test_a_stream_whose_only_worker_dies_is_an_error_and_no_short_answer(tmp_path):
    script = tmp_path / "long.json"
    script.write_text(json.dumps([{"answer": "word " * 50000}]))
    with Cluster() as cluster:
        router = cluster.start_router("--request-timeout-seconds", "20")
        worker = start_scripted_worker(cluster, script)
        wait_for_models(router, [SCRIPTED])
        with openai.OpenAI(base_url=router.url + "/v1", api_key="none", max_retries=0) as client:
            stream = iter(client.chat.completions.create(**scripted("Go on."), max_tokens=4000, stream=True))
            next(stream)
            worker.kill()
            with pytest.raises(openai.APIError):
                list(stream)


def recording_client(package, seen, on_first):
    """An HTTP client that records the status of each answer, and calls `on_first` at the first one."""

    def note(response):
        seen.append((response.status_code, response.headers.get("retry-after")))
        if len(seen) == 1:
            on_first()

    return package.DefaultHttpxClient(event_hooks={"response": [note]})


@case("retries", "errors")
def test_a_full_cluster_is_a_rate_limit_and_the_retry_gets_through(full_cluster):
    url = full_cluster.router.url + "/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        with pytest.raises(openai.RateLimitError) as refused:
            client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=1)
        assert int(refused.value.response.headers["retry-after"]) >= 1
    seen = []
    http = recording_client(openai, seen, full_cluster.free)
    with openai.OpenAI(base_url=url, api_key="none", max_retries=3, http_client=http) as client:
        assert client.chat.completions.create(model=DEMO, messages=ASK, max_tokens=1).choices
    assert seen[0][0] == 429 and int(seen[0][1]) >= 1 and seen[-1][0] == 200


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


@case("tool calls")
def test_a_call_that_breaks_off_is_text(client):
    choice = client.chat.completions.create(**scripted("Make a broken call."), tools=[WEATHER]).choices[0]
    assert not choice.message.tool_calls and choice.finish_reason == "stop"
    assert '"get_weather"' in choice.message.content and '{"city":' in choice.message.content


@case("tool calls")
def test_a_stream_has_told_a_call_before_it_breaks_off(client):
    stream = client.chat.completions.create(**scripted("Make a broken call."), tools=[WEATHER], stream=True)
    deltas = [delta for event in stream if event.choices for delta in event.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "get_weather"
    assert "".join(delta.function.arguments or "" for delta in deltas).startswith('{"city":')


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
