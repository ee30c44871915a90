"""The official openai package: chats, completions and models."""

import asyncio

import openai
import pytest
from conftest import DEMO, SCRIPTED
from openai_support import ASK, case, client, scripted  # noqa: F401

from cluster import text


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
    assert first.usage.prompt_tokens_details.cache_write_tokens > 300
    assert second.usage.prompt_tokens_details.cache_write_tokens == 0


@case("cached tokens")
def test_lifetimes_and_prewarming_are_taken(client):
    part = {"type": "text", "text": text(60, "openai kept"), "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    fields = {"model": DEMO, "messages": [{"role": "user", "content": [part]}]}
    options = {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "prompt_cache_key": "web"}
    warmed = client.chat.completions.create(**fields, extra_body={"prompt_cache_options": {"prewarm": True}})
    assert warmed.choices[0].message.content == "" and warmed.usage.completion_tokens == 0
    answer = client.chat.completions.create(**fields, max_tokens=2, extra_body=options)
    assert answer.usage.prompt_tokens_details.cached_tokens == answer.usage.prompt_tokens - 1
    with pytest.raises(openai.BadRequestError, match="prompt_cache_options.ttl"):
        client.chat.completions.create(**fields, extra_body={"prompt_cache_options": {"ttl": "1h"}})


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
