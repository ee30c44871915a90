"""Sessions of coding agents as their requests are built, with texts of our own: what one turn sends, the next one repeats
and continues. A session is a list of (path, body); the answers that it contains are its own, so it can be replayed.

    with agent_cluster(folder) as router:
        check_hits(replay(router, opencode()))
"""

import contextlib
import json
import pathlib
import shutil

from cluster import DEMO_MODEL, ROOT, Cluster, text

STEPS = 5
AGENT_MODEL = "demo-model"
TEMPLATE = ROOT / "tests/clients/hermes.jinja"  # renders tools, calls and their results
CONTEXT_TOKENS = 65536
FIRST_WARM_TURN = 2  # the third
LEAST_HIT_RATE = 0.9
LONG_WORDS, TOOL_WORDS, RESULT_WORDS = 900, 60, 25


# ---- what the requests of all agents consist of ----


def schema(**properties):
    types = {name: {"type": kind, "description": text(8, name)} for name, kind in properties.items()}
    return {"type": "object", "properties": types, "required": list(types)[:1], "additionalProperties": False}


TOOLS = {
    "shell": schema(command="string", timeout="number", description="string"),
    "read": schema(path="string", offset="integer", limit="integer"),
    "edit": schema(path="string", old="string", new="string", all="boolean"),
    "search": schema(pattern="string", path="string"),
}


def arguments(step):
    return {"command": f"make step-{step}", "description": text(6, f"command {step}")}


def result(step):
    return text(RESULT_WORDS, f"result {step}")


def turns(request, messages, steps, begin):
    """A request per turn, its messages grown by the call of the turn before and its result."""
    session = []
    so_far = list(begin)
    for step in range(STEPS):
        session.append((request["path"], {**request["body"], messages: list(so_far)}))
        so_far += steps(step)
    return session


# ---- the agents ----


def claude_code():
    """Messages of Anthropic: a system text in blocks, a system message after the first one of the user, tools of which one is
    loaded later, marks of the cache that move on with the turns."""
    ephemeral = {"cache_control": {"type": "ephemeral"}}
    tools = [{"name": name.title(), "description": text(TOOL_WORDS, name), "input_schema": TOOLS[name]} for name in TOOLS]
    tools.append({"name": "Later", "description": "Loads more.", "input_schema": {"type": "object", "properties": {}},
                  "defer_loading": True})
    system = [{"type": "text", "text": "x-billing-header: version=1.2.3; entrypoint=cli;"},
              {"type": "text", "text": "You are an agent.", **ephemeral},
              {"type": "text", "text": text(LONG_WORDS, "claude"), **ephemeral}]
    body = {"model": AGENT_MODEL, "max_tokens": 32000, "stream": True, "system": system, "tools": tools,
            "metadata": {"user_id": json.dumps({"session_id": "0000"})}, "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"}}
    begin = [{"role": "user", "content": [{"type": "text", "text": "<reminder>" + text(60, "status") + "</reminder>"},
                                          {"type": "text", "text": "Take the steps.", **ephemeral}]},
             {"role": "system", "content": [{"type": "text", "text": "# Environment\n" + text(60, "environment")}]}]

    def step(number):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Shell", "input": arguments(number)}
        told = {"type": "tool_result", "tool_use_id": use["id"], "content": result(number), "is_error": False}
        return [{"role": "assistant", "content": [{"type": "text", "text": "Next."}, use]}, {"role": "user", "content": [told]}]

    session = turns({"path": "/v1/messages?beta=true", "body": body}, "messages", step, begin)
    for _, sent in session[1:]:
        last = sent["messages"][-1]
        sent["messages"][-1] = {**last, "content": [{**last["content"][0], **ephemeral}]}
    return session


def codex():
    """Responses of OpenAI without a store: developer messages, tools of several kinds, calls and outputs as items."""
    tools = [{"type": "function", "name": name, "description": text(TOOL_WORDS, name), "strict": False, "parameters": TOOLS[name]}
             for name in TOOLS]
    inner = {"type": "function", "name": "start", "description": text(20, "start"), "strict": False, "parameters": schema(task="string")}
    tools.append({"type": "namespace", "name": "helpers", "description": "Helpers.", "tools": [inner]})
    tools.append({"type": "custom", "name": "apply_patch", "description": text(20, "patch"), "format": {"type": "text"}})
    body = {"model": AGENT_MODEL, "stream": True, "store": False, "tools": tools, "tool_choice": "auto",
            "parallel_tool_calls": True, "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0000", "client_metadata": {"session_id": "0000"}}

    def message(role, words):
        return {"type": "message", "id": f"msg_{role}", "role": role, "content": [{"type": "input_text", "text": words}]}

    begin = [message("developer", text(LONG_WORDS, "codex")), message("developer", "<skills>" + text(60, "skills") + "</skills>"),
             message("user", "<environment>" + text(40, "cwd") + "</environment>"), message("user", "Take the steps.")]

    def step(number):
        said = {"type": "message", "status": "completed", "id": f"msg_{number}", "role": "assistant",
                "content": [{"type": "output_text", "text": "Next.", "annotations": []}]}
        asked = {"type": "function_call", "status": "completed", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "shell",
                 "arguments": json.dumps(arguments(number))}
        return [said, asked, {"type": "function_call_output", "call_id": f"call_{number}", "output": result(number)}]

    return turns({"path": "/v1/responses", "body": body}, "input", step, begin)


def opencode():
    """Chat of OpenAI as the AI SDK builds it: first a title in a request of its own, then steps with calls."""
    stream = {"model": AGENT_MODEL, "max_tokens": 32000, "stream": True, "stream_options": {"include_usage": True}}
    tools = [{"type": "function", "function": {"name": name, "description": text(TOOL_WORDS, name), "parameters": TOOLS[name]}}
             for name in TOOLS]
    title = {**stream, "temperature": 0.5, "messages": [{"role": "system", "content": "Name this session."},
                                                        {"role": "user", "content": "Take the steps."}]}
    begin = [{"role": "system", "content": text(LONG_WORDS, "opencode")}, {"role": "system", "content": text(60, "project")},
             {"role": "user", "content": "Take the steps."}]

    def step(number):
        asked = {"id": f"call_{number}", "type": "function", "function": {"name": "shell", "arguments": json.dumps(arguments(number))}}
        return [{"role": "assistant", "content": "Next." if number % 2 else "", "tool_calls": [asked]},
                {"role": "tool", "tool_call_id": asked["id"], "content": result(number)}]

    body = {**stream, "temperature": 0, "top_p": 1, "tools": tools, "tool_choice": "auto"}
    path = "/v1/chat/completions"
    return [(path, title), *turns({"path": path, "body": body}, "messages", step, begin)]


def aider():
    """Chat of OpenAI without tools: edits as text, and at the end of each prompt the files as they are now and the rules."""
    body = {"model": AGENT_MODEL, "stream": True, "temperature": 0}
    system = {"role": "system", "content": text(LONG_WORDS, "aider")}
    files = [{"role": "user", "content": "Read only:\n" + text(LONG_WORDS, "rules")}, {"role": "assistant", "content": "Ok."}]
    session, done = [], []
    for number in range(STEPS):
        now = [{"role": "user", "content": "The files now:\n" + "".join(f"print({n})\n" for n in range(number + 1))},
               {"role": "assistant", "content": "Ok."}, {"role": "user", "content": f"Do step {number}.\n\n" + text(60, "reminder")}]
        session.append(("/v1/chat/completions", {**body, "messages": [system, *files, *done, *now]}))
        done += [{"role": "user", "content": f"Do step {number}."}, {"role": "assistant", "content": f"Done: {text(12, f'edit {number}')}"}]
    return session


# ---- replay ----


@contextlib.contextmanager
def agent_cluster(folder):
    """A router before the demo model with room for an agent's prompts and a template for tools."""
    model = pathlib.Path(folder) / "demo-model"
    shutil.copytree(DEMO_MODEL, model)
    for name, members in {"config.json": {"max_position_embeddings": CONTEXT_TOKENS},
                          "tokenizer_config.json": {"chat_template": TEMPLATE.read_text()}}.items():
        file = model / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **members}))
    with Cluster() as cluster:
        # A prompt of 20,000 tokens takes the demo model a while on a busy machine.
        router = cluster.start_router("--stall-timeout-seconds", "600")
        cluster.start_worker("worker-a", "--kv-blocks", "8192", model=model)
        router.wait_for_workers(1)
        yield router


# The changes that a replay makes: answers are short, and chats tell their usage.
CHANGES = {"/v1/responses": {"max_output_tokens": 16}, "/v1/messages": {"max_tokens": 4},
           "/v1/chat/completions": {"max_tokens": 4, "stream_options": {"include_usage": True}}}


def replay(router, session):
    """Sends the session's requests one after the other; (path, prompt tokens, of them cached) of each."""
    told = []
    for path, body in session:
        answer = router.request("POST", path, {**body, "model": AGENT_MODEL, **CHANGES[path.partition("?")[0]]})
        assert answer.status == 200, (path, answer.status, answer.body)
        assert answer.events, f"{path} did not stream"
        told.append((path, *counts(answer.events)))
    return told


def counts(events):
    """The prompt's tokens and the cached ones, as each of the APIs tells them in its last events."""
    usages = [e.get("usage") or (e.get("response") or e.get("message") or {}).get("usage") for e in events]
    found = {name: value for usage in usages if usage for name, value in usage.items()}
    if "prompt_tokens" in found:
        return found["prompt_tokens"], found["prompt_tokens_details"]["cached_tokens"]
    if "input_tokens_details" in found:
        return found["input_tokens"], found["input_tokens_details"]["cached_tokens"]
    prompt = found["input_tokens"] + found["cache_read_input_tokens"] + found["cache_creation_input_tokens"]
    return prompt, found["cache_read_input_tokens"]


def check_hits(told):
    """From the third turn on, nine tokens in ten were known."""
    for path, prompt, cached in told[FIRST_WARM_TURN:]:
        assert cached > LEAST_HIT_RATE * prompt, (path, told)
