"""The fields of the prompt cache in the clients' own types: sessions, lifetimes, usage and diagnoses, whole and streamed."""

import anthropic
import litellm
import openai
import pytest
from anthropic import types as messages_types
from conftest import DEMO, SCRIPTED
from features import feature
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from openai.types.responses import response as response_types

from cluster import text

TOOL = {"name": "get_weather", "description": text(30, "a tool"), "input_schema": {"type": "object"}}
HOUR = {"type": "ephemeral", "ttl": "1h"}
CHANGES = {  # Anthropic's words, the model, and the fields that change
    "system_changed": (DEMO, {"system": "It is Friday. " + text(40, "clients")}),
    "tools_changed": (SCRIPTED, {"tools": [{**TOOL, "description": "another"}]}),  # the other model's template shows no tools
    "messages_changed": (DEMO, {"messages": [{"role": "user", "content": "Another question?"}]}),
}


@pytest.fixture
def claude(router):
    with anthropic.Anthropic(base_url=router.url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def gpt(router):
    with openai.OpenAI(base_url=router.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


# ---- anthropic ----


def streamed_message(client, **fields):
    """The final message, and the usage of the stream's first and last event that has one."""
    with client.messages.stream(**fields) as stream:
        events = list(stream)
        start = next(event for event in events if event.type == "message_start").message.usage
        delta = next(event for event in events if event.type == "message_delta").usage
        return stream.get_final_message(), start, delta


def prompt_of(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


@feature("anthropic", "cached tokens", "streaming")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_anthropics_diagnosis_has_its_types(claude, change, streamed):
    model, changes = CHANGES[change]
    fields = {"model": model, "max_tokens": 2, "system": "It is Monday. " + text(40, "clients"), "tools": [TOOL],
              "messages": [{"role": "user", "content": text(40, "clients' question")}],
              "extra_body": {"cache_salt": f"{change} {streamed}"}}  # nothing of the other cases is found
    first = claude.messages.create(**fields, diagnostics={"previous_message_id": None})
    named = {"previous_message_id": first.id}

    def ask(**other):
        asked = {**fields, **other, "diagnostics": named}
        return streamed_message(claude, **asked)[0] if streamed else claude.messages.create(**asked)

    assert first.diagnostics is None
    changed = ask(**changes).diagnostics
    assert isinstance(changed, messages_types.Diagnostics)
    reason = changed.cache_miss_reason
    assert type(reason).__name__ == "CacheMiss" + "".join(word.capitalize() for word in change.split("_"))
    assert reason.type == change and reason.cache_missed_input_tokens > 0
    if model == DEMO:
        assert ask().diagnostics is None, "all of it was found"
    named = {"previous_message_id": "msg_unknown"}
    assert isinstance(ask().diagnostics.cache_miss_reason, messages_types.CacheMissPreviousMessageNotFound)


@feature("anthropic", "cached tokens", "streaming")
@pytest.mark.parametrize("place", ["the whole request", "a tool", "a system block", "a content block"])
def test_each_place_of_cache_control_is_taken_and_told_in_usage(claude, place):
    def marked(part, here):
        return {**part, "cache_control": HOUR} if here == place else part

    fields = {
        "model": DEMO,
        "max_tokens": 2,
        "tools": [marked(TOOL, "a tool")],
        "system": [marked({"type": "text", "text": text(40, place)}, "a system block")],
        "messages": [{"role": "user", "content": [marked({"type": "text", "text": text(40, place)}, "a content block")]}],
        **({"cache_control": HOUR} if place == "the whole request" else {}),
    }
    message, _, delta = streamed_message(claude, **fields)
    written = message.usage.cache_creation
    assert isinstance(written, messages_types.CacheCreation)
    assert written.ephemeral_1h_input_tokens + written.ephemeral_5m_input_tokens == message.usage.cache_creation_input_tokens
    assert written.ephemeral_1h_input_tokens > 0
    assert prompt_of(delta) == prompt_of(message.usage)
    again, start, delta = streamed_message(claude, **fields)
    assert prompt_of(start) == prompt_of(delta) == prompt_of(again.usage) == prompt_of(message.usage)
    assert delta.cache_creation_input_tokens == 0 and delta.cache_read_input_tokens > 200


@feature("anthropic", "cached tokens", "errors")
def test_a_fifth_cache_control_is_refused(claude):
    parts = [{"type": "text", "text": f"part {i}", "cache_control": {"type": "ephemeral"}} for i in range(5)]
    with pytest.raises(anthropic.BadRequestError, match="cache_control"):
        claude.messages.create(model=DEMO, max_tokens=2, messages=[{"role": "user", "content": parts}])
    claude.messages.create(model=DEMO, max_tokens=2, messages=[{"role": "user", "content": parts[:4]}])


# ---- openai ----


def streamed_response(client, **fields):
    events = list(client.responses.create(**fields, stream=True))
    assert events[-1].type in ("response.completed", "response.incomplete")
    return events[-1].response


@feature("openai", "cached tokens", "responses", "streaming")
@pytest.mark.parametrize("streamed", [False, True])
def test_openais_diagnosis_has_its_types(gpt, streamed):
    def respond(day, **options):
        fields = {"model": DEMO, "input": "Who comes here?", "instructions": f"It is {day}. " + text(60, f"openai {streamed}"),
                  "max_output_tokens": 2, "prompt_cache_key": "web", "prompt_cache_options": {"ttl": "30m", **options}}
        answer = streamed_response(gpt, **fields) if streamed else gpt.responses.create(**fields)
        details = answer.usage.input_tokens_details
        assert details.cached_tokens + details.cache_write_tokens <= answer.usage.input_tokens
        return answer

    first = respond("Monday")
    assert first.prompt_cache_diagnostics is None and first.usage.input_tokens_details.cache_write_tokens > 100
    hit = respond("Monday", comparison_response_id=first.id)
    assert isinstance(hit.prompt_cache_diagnostics, response_types.PromptCacheDiagnosticsCacheHit)
    assert hit.usage.input_tokens_details.cache_write_tokens == 0
    missed = respond("Friday", comparison_response_id=first.id).prompt_cache_diagnostics
    assert isinstance(missed, response_types.PromptCacheDiagnosticsCacheMiss)
    assert missed.reason == "input_changed" and missed.cache_missed_tokens > 100 and missed.comparison_reusable_tokens >= 0
    unknown = respond("Monday", comparison_response_id="resp_unknown").prompt_cache_diagnostics
    assert isinstance(unknown, response_types.PromptCacheDiagnosticsComparisonResponseNotFound)


@feature("openai", "cached tokens", "streaming")
@pytest.mark.parametrize("streamed", [False, True])
def test_lifetimes_of_chats_are_fields_of_the_client(gpt, streamed):
    part = {"type": "text", "text": text(60, f"openai kept {streamed}"), "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    fields = {"model": DEMO, "messages": [{"role": "user", "content": [part]}], "max_tokens": 2, "prompt_cache_key": "web",
              "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}

    def usage():
        if not streamed:
            return gpt.chat.completions.create(**fields).usage
        return list(gpt.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))[-1].usage

    first, second = usage().prompt_tokens_details, usage()
    assert first.cache_write_tokens > 200
    assert second.prompt_tokens_details.cache_write_tokens == 0
    assert second.prompt_tokens_details.cached_tokens == second.prompt_tokens - 1
    del fields["prompt_cache_options"]
    fields["prompt_cache_retention"] = "24h"
    assert usage().prompt_tokens_details.cached_tokens == second.prompt_tokens - 1


@feature("openai", "cached tokens", "responses")
def test_a_response_is_prewarmed(gpt):
    fields = {"model": DEMO, "input": text(60, "openai prewarmed")}
    warmed = gpt.responses.create(**fields, prompt_cache_options={"prewarm": True})
    assert warmed.output_text == "" and warmed.usage.output_tokens == 0
    usage = gpt.responses.create(**fields, max_output_tokens=2).usage
    assert usage.input_tokens_details.cached_tokens == usage.input_tokens - 1


# ---- others ----


@feature("litellm", "cached tokens")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_litellm_sends_cache_control(router, provider, streamed):
    words = {"type": "text", "text": text(60, f"litellm {provider} {streamed}"), "cache_control": HOUR}
    fields = {"model": f"{provider}/{DEMO}", "api_base": router.url + ("/v1" if provider == "openai" else ""), "api_key": "none",
              "messages": [{"role": "system", "content": [words]}, {"role": "user", "content": "Who?"}], "max_tokens": 2}

    def usage():
        if not streamed:
            return litellm.completion(**fields).usage
        return list(litellm.completion(**fields, stream=True, stream_options={"include_usage": True}))[-1].usage

    first, second = usage(), usage()
    if provider == "anthropic":
        assert first.cache_creation_input_tokens > 200
    assert second.prompt_tokens_details.cached_tokens > 200


@feature("langchain-openai", "cached tokens")
@pytest.mark.parametrize("streamed", [False, True])
def test_langchain_sends_cache_control(base_url, streamed):
    words = {"type": "text", "text": text(60, f"langchain {streamed}"), "cache_control": HOUR}
    model = ChatOpenAI(model=DEMO, base_url=base_url, api_key="none", max_retries=0, max_tokens=2, stream_usage=True)
    messages = [SystemMessage([words]), HumanMessage("Who?")]

    def usage():
        if not streamed:
            return model.invoke(messages).usage_metadata
        pieces = list(model.stream(messages))
        return sum(pieces[1:], pieces[0]).usage_metadata

    usage()
    assert usage()["input_token_details"]["cache_read"] > 200
