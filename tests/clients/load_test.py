"""guidellm, a public load generator, in its own process and environment."""

import json
import os
import pathlib
import subprocess

import pytest
from conftest import DEMO
from features import feature

from cluster import text

REQUESTS = 24
STAND_INS = pathlib.Path(__file__).parent / "stand_ins"

pytestmark = pytest.mark.skipif("ROOST_GUIDELLM" not in os.environ, reason="only with run.sh --load")


@pytest.fixture
def run(router, tmp_path):
    def run(route):
        system = text(60, f"load {route}")
        prompts = [{"prompt": f"{system} Question {n}?", "output_tokens_count": 8} for n in range(REQUESTS)]
        data = tmp_path / "prompts.jsonl"
        data.write_text("\n".join(json.dumps(prompt) for prompt in prompts))
        report = tmp_path / "report.json"
        arguments = [os.environ["ROOST_GUIDELLM"], "run", "--disable-console"]
        arguments += ["--backend", f"kind=openai_http,target={router.url},model={DEMO},request_format={route}"]
        arguments += ["--profile", "kind=concurrent,streams=4", "--constraint", f"kind=max_requests,count={REQUESTS}"]
        arguments += ["--data", f"kind=json_file,path={data}", "--output", f"kind=json,path={report}"]
        environment = {**os.environ, "PYTHONPATH": str(STAND_INS), "HF_HOME": str(tmp_path / "cache")}
        ended = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return json.loads(report.read_text())["benchmarks"][0]

    return run


@feature("guidellm", "load", "cached tokens")
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_a_load_is_answered_whole_and_shows_what_the_cache_held(run, route):
    benchmark = run(route)
    totals = benchmark["metrics"]["request_totals"]
    assert (totals["successful"], totals["errored"], totals["incomplete"]) == (REQUESTS, 0, 0)
    answers = benchmark["requests"]["successful"]
    assert {answer["output_metrics"]["text_tokens"] for answer in answers} == {8}  # it sends ignore_eos
    cached = [answer["input_metrics"]["cached_tokens"] for answer in answers]
    # The first four begin together and may find nothing cached; all others find the system prompt.
    assert sum(count > 150 for count in cached) >= REQUESTS - 4
