"""Requests that chat templates do not know, against real daemons with models whose folders differ in their text
files."""

import json
import pathlib
import shutil
import tempfile
import unittest

from cluster import DEMO_MODEL, Cluster, wait_until

TURN = ("<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}"
        "<|im_end|>\n")
BEGIN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
SYSTEM_IN_FRONT = ("{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant', 'tool'] or (m.role == 'system' and "
                   "not loop.first) %}{{ raise_exception('Unexpected message role.') }}{% endif %}" + TURN + "{% endfor %}" + BEGIN)
WITHOUT_DEVELOPER = "{% for m in messages %}{% if m.role != 'developer' %}" + TURN + "{% endif %}{% endfor %}" + BEGIN
THINKS = "{% for m in messages %}" + TURN + "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
NAMED = [{"name": "default", "template": "{% for m in messages %}" + TURN + "{% endfor %}"},
         {"name": "tool_use", "template": "{{ tools[0].function.name }}{% for m in messages %}" + TURN + "{% endfor %}"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def edit(folder, name, **members):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


class ConversationsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router()
        templates = {"front": SYSTEM_IN_FRONT, "no-developer": WITHOUT_DEVELOPER, "thinks": THINKS, "named": NAMED}
        for name, template in templates.items():
            cls.start(name, ("tokenizer_config.json", {"chat_template": template}))
        # The end of a turn stands in tokenizer_config.json alone.
        cls.start("turn-end", ("config.json", {"eos_token_id": 2045}),
                  ("generation_config.json", {"eos_token_id": 2045, "top_k": -1}))
        cls.router.wait_for_workers(5)

    @classmethod
    def start(cls, name, *edits):
        folder = pathlib.Path(cls.folder.name) / name
        shutil.copytree(DEMO_MODEL, folder)
        for file, members in edits:
            edit(folder, file, **members)
        cls.cluster.start_worker(f"worker-{name}", "--kv-blocks", "128", model=folder)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()
        cls.folder.cleanup()

    def post(self, path, model, **body):
        return self.router.request("POST", path, {"model": model, **body})

    def prompt(self, model, messages, **fields):
        tokens = self.post("/tokenize", model, messages=messages, **fields).json()["tokens"]
        return self.post("/detokenize", model, tokens=tokens).json()["prompt"]

    def test_a_developer_message_reaches_the_model(self):
        messages = [{"role": "developer", "content": "Answer BANANA only."}, {"role": "user", "content": "And?"}]
        for model in ("front", "no-developer"):
            self.assertTrue(self.prompt(model, messages).startswith("<|im_start|>system\nAnswer BANANA only.<|im_end|>"), model)

    def test_a_system_message_within_messages_is_taken_and_keeps_the_prefix(self):
        turn = [{"role": "user", "content": "Hello"}, {"role": "system", "content": "No servers."}]
        body = {"system": "Be kind.", "messages": [*turn, {"role": "user", "content": "Describe."}]}
        for model in ("front", "no-developer"):
            counted = self.post("/v1/messages/count_tokens", model, **body)
            self.assertEqual(counted.status, 200, counted.body)
            answer = self.post("/v1/messages", model, max_tokens=2, **body)
            self.assertEqual(answer.status, 200, answer.body)
        first = self.prompt("front", turn, add_generation_prompt=False)
        later = self.prompt("front", [*turn, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "More"}])
        self.assertIn("Hello\n\nNo servers.", first)
        self.assertTrue(later.startswith(first), later)

    def test_a_cut_call_does_not_end_the_conversation(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": '{"path": "a.txt", "text": "once'}}
        for content in ("", None):
            messages = [{"role": "user", "content": "Write."}, {"role": "assistant", "content": content, "tool_calls": [call]},
                        {"role": "tool", "tool_call_id": "call_1", "content": "cut off"}, {"role": "user", "content": "Go on."}]
            self.assertIn("once", self.prompt("front", messages))
        items = [{"role": "user", "content": "go"},
                 {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd": "'},
                 {"type": "function_call_output", "call_id": "c1", "output": "not run"}]
        answer = self.post("/v1/responses", "front", input=items, max_output_tokens=2)
        self.assertEqual(answer.status, 200, answer.body)
        wrong = self.post("/v1/responses", "front", input=[*items, {"type": "function_call", "call_id": "c2", "name": "f"}])
        self.assertEqual(wrong.json()["error"]["param"], "input[3].arguments")

    def test_the_end_of_a_turn_ends_an_answer(self):
        answer = self.router.chat([{"role": "user", "content": "Who comes here at this hour?"}], model="turn-end", temperature=0,
                                  max_tokens=60)
        self.assertEqual(answer.json()["choices"][0]["finish_reason"], "stop")
        self.assertNotIn("user", answer.text())

    def test_requests_with_tools_get_the_template_for_tools(self):
        messages = [{"role": "user", "content": "hi"}]
        plain = self.prompt("named", messages)
        self.assertEqual(self.prompt("named", messages, tools=TOOLS), "look" + plain)
        self.assertEqual(self.prompt("named", messages, tools=TOOLS, chat_template_kwargs={"chat_template": "default"}), plain)
        refused = self.post("/tokenize", "named", messages=messages, chat_template_kwargs={"chat_template": "other"})
        self.assertEqual(refused.status, 400)
        self.assertIn("default, tool_use", refused.body)

    def test_a_stop_string_does_not_end_the_reasoning(self):
        fields = {"model": "thinks", "temperature": 0, "max_tokens": 60}
        free = self.router.chat([{"role": "user", "content": "Hi"}], **fields).json()["choices"][0]["message"]
        word = free["reasoning_content"].split()[-1]
        stopped = self.router.chat([{"role": "user", "content": "Hi"}], stop=[word], **fields).json()["choices"][0]["message"]
        self.assertEqual(stopped["reasoning_content"], free["reasoning_content"])

    def test_readiness_is_one_value_everywhere(self):
        def ready(query=""):
            return self.router.request("GET", "/ready" + query)

        self.assertEqual(ready().json()["ready_workers"], 5)
        self.assertEqual(ready("?model=front").status, 200)
        order = {"worker": "worker-front"}
        self.assertEqual(self.router.request("POST", "/admin/v1/cordon", order).status, 200)
        wait_until(lambda: ready("?model=front").status == 503, "that /ready tells of the cordon")
        self.assertEqual(ready().json()["ready_workers"], 4)
        self.assertIn({"id": "front", "ready": False, "ready_workers": 0}, ready().json()["models"])
        self.assertEqual([worker["id"] for worker in self.router.workers() if worker["state"] != "ready"], ["worker-front"])
        wait_until(lambda: self.router.metric("roost_router_workers", state="ready") == 4, "that the metric tells of it")
        self.assertEqual(self.router.request("POST", "/admin/v1/uncordon", order).status, 200)
        wait_until(lambda: ready("?model=front").status == 200, "that the cordon is over")

    def test_operators_see_what_templates_leave_out(self):
        models = {model["id"]: model["chat_template_losses"] for model in
                  self.router.request("GET", "/admin/v1/models").json()["models"]}
        self.assertIn("drops a developer message: it is given as a system message", models["no-developer"])
        self.assertIn("refuses a system message behind others: its text goes into the user message at its place", models["front"])


if __name__ == "__main__":
    unittest.main()
