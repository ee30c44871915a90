"""The official openai package: raw responses, errors and retries."""

import json

import openai
import pytest
from conftest import DEMO, SCRIPTED, recording_client, start_scripted_worker, wait_for_models
from openai_support import ASK, case, client, scripted  # noqa: F401

from cluster import Cluster, text


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
