"""llama_double.py against recordings of llama.cpp's server: what it says is said there, with the same types."""

import http.client
import json
import pathlib
import tempfile
import unittest

import openai_test

RECORDINGS = pathlib.Path(__file__).resolve().parent / "recordings/llama.cpp"
ASKED = [{"role": "system", "content": "You answer in one word what anybody asks."},
         {"role": "user", "content": "Who comes here at this hour?"}]
CHAT = {"model": "demo-model", "messages": ASKED, "max_tokens": 4, "temperature": 0}
TOKENS = {"prompt": list(range(300, 340)), "n_predict": 4, "temperature": 0, "return_tokens": True, "stream": True,
          "return_progress": True, "id_slot": 1, "n_probs": 2}
# In this order: some find those before in their slot.
EXCHANGES = {
    "models.json": ("GET", "/v1/models", None),
    "props.json": ("GET", "/props", None),
    "slots.json": ("GET", "/slots", None),
    "chat.json": ("POST", "/v1/chat/completions", CHAT),
    "chat-again.json": ("POST", "/v1/chat/completions", CHAT),
    "chat-stream.txt": ("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
    "chat-stream-usage.txt": ("POST", "/v1/chat/completions",
                              {**CHAT, "stream": True, "stream_options": {"include_usage": True}}),
    "completion.json": ("POST", "/v1/completions", {"model": "demo-model", "prompt": "Once upon", "max_tokens": 4}),
    "tokens.json": ("POST", "/completion", {**TOKENS, "stream": False}),
    "tokens-stream.txt": ("POST", "/completion", TOKENS),
    "no-slot.json": ("POST", "/completion", {**TOKENS, "prompt": [1 << 30]}),
    "slots-used.json": ("GET", "/slots", None),
    "slot-save.json": ("POST", "/slots/1?action=save", {"filename": "recorded.slot"}),
    "slot-erase.json": ("POST", "/slots/1?action=erase", {}),
    "slot-restore.json": ("POST", "/slots/0?action=restore", {"filename": "recorded.slot"}),
    "slot-no-file.json": ("POST", "/slots/0?action=restore", {"filename": "other.slot"}),
    "slot-no-name.json": ("POST", "/slots/0?action=save", {}),
    "slot-no-action.json": ("POST", "/slots/0?action=turn", {"filename": "recorded.slot"}),
    "slots-restored.json": ("GET", "/slots", None),
    "no-route.json": ("POST", "/pooling", {}),
    "no-json.json": ("POST", "/v1/chat/completions", None),
}


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def documents(text):
    """The JSON documents of an answer, streamed or not."""
    if not text.startswith("data: "):
        return [json.loads(text)]
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def extra(ours, theirs, path=""):
    """Where `ours` has a name or type that `theirs` has not. Of lists the first elements are compared."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [place for name, value in ours.items()
                for place in ([f"{path}/{name}"] if name not in theirs else extra(value, theirs[name], f"{path}/{name}"))]
    if isinstance(ours, list) and isinstance(theirs, list):
        return extra(ours[0], theirs[0], f"{path}/0") if ours and theirs else []
    kinds = [float if isinstance(value, int) else type(value) for value in (ours, theirs)]
    return [] if kinds[0] == kinds[1] else [path]


class LlamaDoubleTest(unittest.TestCase):
    def test_what_it_says_is_in_the_recordings(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        server = openai_test.Server("--slots", "2", "--slot-save-path", folder)
        self.addCleanup(server.kill)
        for name, (method, path, body) in EXCHANGES.items():
            with self.subTest(name):
                ours = documents(ask(server.port, method, path, body))
                theirs = documents((RECORDINGS / name).read_text())
                for mine in ours:
                    self.assertIn([], [extra(mine, each) for each in theirs], f"{mine} is none of {theirs}")

    def test_without_a_path_nothing_is_saved(self):
        server = openai_test.Server("--slots", "2")
        self.addCleanup(server.kill)
        ours = json.loads(ask(server.port, "POST", "/slots/1?action=save", {"filename": "recorded.slot"}))
        self.assertEqual(ours, json.loads((RECORDINGS / "slot-no-path.json").read_text()))

    def test_usage_is_told_at_the_same_places(self):
        for name, (cached, prompt) in {"chat.json": ("usage", "usage"), "chat-stream.txt": ("timings", None)}.items():
            last = documents((RECORDINGS / name).read_text())[-1]
            self.assertIn(cached, last)
            self.assertEqual(prompt is not None, "usage" in last)
        again = json.loads((RECORDINGS / "chat-again.json").read_text())
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], again["usage"]["prompt_tokens"] - 1)
        self.assertEqual(again["timings"]["cache_n"], again["usage"]["prompt_tokens"] - 1)


if __name__ == "__main__":
    unittest.main()
