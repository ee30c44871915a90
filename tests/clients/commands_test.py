"""Command lines of coding agents, run as they are: sessions with tools against the scripted model, which says what to
call. Their requests are then replayed against the demo model, whose cache must know nearly all of each later turn."""

import json
import os
import pathlib
import subprocess

import pytest
from conftest import SCRIPTED, start_scripted_worker, wait_for_models
from features import feature
from recording_proxy import RecordingProxy

from agent_sessions import STEPS, agent_cluster, check_hits, replay
from cluster import Cluster, text

pytestmark = pytest.mark.skipif("ROOST_COMMANDS" not in os.environ, reason="only with run.sh --commands")

TASK = "Take the steps one by one."
SECONDS = 300
# More than the prompts of any of them, counted in the demo model's small tokens.
CONTEXT = "200000"


def call(tool, **arguments):
    return "Next.\n<tool_call>\n" + json.dumps({"name": tool, "arguments": arguments}) + "\n</tool_call>"


def shell(step):
    """Prints a word that stands in no request before the command has run."""
    return f"echo step-$(( {step} ))-done"


def steps(answer):
    """Rules of a scripted model that takes the steps in turn, each after the result of the one before."""
    rules = [{"when": [f"step-{STEPS}-done"], "answer": "All steps are done."}]
    rules += [{"when": [f"step-{n}-done"], "answer": answer(n + 1)} for n in range(STEPS - 1, 0, -1)]
    return [*rules, {"answer": answer(1)}]


class Agent:
    """A command line in an empty home and folder, whose only server is the router."""

    def __init__(self, tmp_path, script):
        self.home, self.folder, self.script = tmp_path / "home", tmp_path / "work", tmp_path / "script.json"
        self.home.mkdir()
        self.folder.mkdir()
        self.script.write_text(json.dumps(script))
        self.packages = pathlib.Path(os.environ["ROOST_COMMANDS"])

    def program(self, pattern):
        (found,) = self.packages.glob(pattern)
        return found

    def run(self, command, lines="", **environment):
        """Runs it against a scripted model; returns what it sent, in order, with the status of each answer."""
        with Cluster() as cluster:
            router = cluster.start_router()
            start_scripted_worker(cluster, self.script, "--context-tokens", CONTEXT)
            wait_for_models(router, [SCRIPTED])
            with RecordingProxy(router.url) as proxy:
                clean = {"PATH": os.environ["PATH"], "HOME": str(self.home), "NO_PROXY": "127.0.0.1"}
                clean.update({name: value.replace("ROUTER", proxy.url) for name, value in environment.items()})
                command = [str(word).replace("ROUTER", proxy.url) for word in command]
                ended = subprocess.run(command, env=clean, cwd=self.folder, input=lines, capture_output=True, text=True,
                                       timeout=SECONDS, check=False)
                sent = list(proxy.exchanges)
        assert ended.returncode == 0, (ended.stdout[-2000:], ended.stderr[-2000:])
        assert not [(e.path, e.status) for e in sent if e.status >= 400]
        return ended.stdout, sent


def turns(sent, path):
    """The requests of the session itself; agents send small ones beside it, to name the session for example."""
    bodies = [(e.path, e.body) for e in sent if e.path.startswith(path) and e.body]
    longest = max(len(json.dumps(body)) for _, body in bodies)
    return [(path, body) for path, body in bodies if 3 * len(json.dumps(body)) > longest]


@pytest.fixture(scope="module")
def demo_router(tmp_path_factory):
    with agent_cluster(tmp_path_factory.mktemp("models")) as router:
        yield router


def check_replay(router, sent, path):
    session = turns(sent, path)
    assert len(session) >= STEPS, [e.path for e in sent]
    check_hits(replay(router, session))


@feature("claude-code", "whole sessions", "tool calls", "cached tokens")
def test_claude_code_takes_its_steps(tmp_path, demo_router):
    agent = Agent(tmp_path, steps(lambda n: call("Bash", command=shell(n), description="Takes a step")))
    program = agent.program("lib/python3*/site-packages/claude_agent_sdk/_bundled/claude")
    command = [program, "-p", TASK, "--model", SCRIPTED, "--tools", "Bash,Read", "--allowedTools", "Bash"]
    out, sent = agent.run(command, ANTHROPIC_BASE_URL="ROUTER", ANTHROPIC_API_KEY="none",
                          ANTHROPIC_DEFAULT_HAIKU_MODEL=SCRIPTED, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    assert "All steps are done." in out
    check_replay(demo_router, sent, "/v1/messages")


@feature("claude-code", "all tools")
def test_claude_code_may_offer_all_its_tools(tmp_path):
    agent = Agent(tmp_path, steps(lambda n: call("Bash", command=shell(n), description="Takes a step")))
    program = agent.program("lib/python3*/site-packages/claude_agent_sdk/_bundled/claude")
    out, sent = agent.run([program, "-p", TASK, "--model", SCRIPTED, "--allowedTools", "Bash"], ANTHROPIC_BASE_URL="ROUTER",
                          ANTHROPIC_API_KEY="none", ANTHROPIC_DEFAULT_HAIKU_MODEL=SCRIPTED,
                          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
    assert "All steps are done." in out
    assert len(turns(sent, "/v1/messages")[0][1]["tools"]) > 5


CODEX_SETTINGS = {
    "model": SCRIPTED,
    "model_provider": "roost",
    "web_search": "disabled",  # a tool of OpenAI's servers
    "model_providers.roost.name": "Roost",
    "model_providers.roost.base_url": "ROUTER/v1",
    "model_providers.roost.wire_api": "responses",
}


@feature("codex", "whole sessions", "all tools", "tool calls", "cached tokens")
def test_codex_takes_its_steps(tmp_path, demo_router):
    agent = Agent(tmp_path, steps(lambda n: call("exec_command", cmd=shell(n))))
    program = agent.program("lib/python3*/site-packages/codex_cli_bin/bin/codex")
    command = [program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    for key, value in CODEX_SETTINGS.items():
        command += ["-c", f'{key}="{value}"']
    out, sent = agent.run([*command, TASK])
    assert "All steps are done." in out
    check_replay(demo_router, sent, "/v1/responses")


def edit(number):
    old, new = f"print({number - 1})", f"print({number})"
    return f"Done.\n\nsteps.py\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{old}\n{new}\n>>>>>>> REPLACE\n```\n"


@feature("aider", "whole sessions", "cached tokens")
def test_aider_makes_its_edits(tmp_path, demo_router):
    rules = [{"when": [f"Do step {n}."], "answer": edit(n)} for n in range(STEPS, 0, -1)]
    agent = Agent(tmp_path, [*rules, {"answer": "Nothing to do."}])
    (agent.folder / "steps.py").write_text("print(0)\n")
    (agent.folder / "rules.md").write_text(text(3000, "the rules of a project"))
    options = "--no-git --yes-always --no-check-update --analytics-disable --no-show-model-warnings --no-pretty --no-fancy-input"
    options += " --edit-format diff --map-tokens 0 --no-show-release-notes --no-suggest-shell-commands --no-auto-lint"
    command = [agent.program("bin/aider"), "--model", f"openai/{SCRIPTED}", *options.split(), "--read", "rules.md", "steps.py"]
    _, sent = agent.run(command, lines="".join(f"Do step {n}.\n" for n in range(1, STEPS + 1)), OPENAI_API_KEY="none",
                        OPENAI_API_BASE="ROUTER/v1", LITELLM_LOCAL_MODEL_COST_MAP="True")
    assert (agent.folder / "steps.py").read_text() == "".join(f"print({n})\n" for n in range(STEPS + 1))
    check_replay(demo_router, sent, "/v1/chat/completions")
