"""Planted causes of prompts that are not found in the cache, on real daemons: each is told with its reason, its token and the number
of tokens, through the wire forms that have a word for it, through x-roost-miss and through roostctl explain. The expected places
come from the tokens of both prompts as this file renders them.

ROOST_PLANTED is how often each cause is planted, with another shape of prompt each time; ROOST_SEED begins the shapes."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, Cluster, text, wait_until

PLANTED = int(os.environ.get("ROOST_PLANTED", "3"))
SEED = int(os.environ.get("ROOST_SEED", "1"))
BLOCK = 16
# Tools and effort stand in front, as in harmony's template.
TEMPLATE = (
    "{%- for tool in tools or [] -%}{{- '<|im_start|>tool\\n' + tool.function.name + '\\n' + tool.function.description + '<|im_end|>\\n' -}}"
    "{%- endfor -%}{%- if reasoning_effort -%}{{- '<|im_start|>effort\\n' + reasoning_effort + '<|im_end|>\\n' -}}{%- endif -%}"
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}")


@dataclasses.dataclass(frozen=True)
class Ask:
    """A chat, in whichever form it is sent."""
    messages: tuple  # (role, text), without the system prompt
    system: str = ""
    tools: tuple = ()  # (name, description)
    model: str = "demo-model"
    effort: str = ""
    salt: str = ""
    format: str = ""

    def rendered(self):
        """The prompt as the template writes it, and where the text of each message begins."""
        whole = "".join(f"<|im_start|>tool\n{name}\n{description}<|im_end|>\n" for name, description in self.tools)
        whole += f"<|im_start|>effort\n{self.effort}<|im_end|>\n" if self.effort else ""
        whole += f"<|im_start|>system\n{self.system}<|im_end|>\n" if self.system else ""
        begins = []
        for role, words in self.messages:
            whole += f"<|im_start|>{role}\n"
            begins.append(len(whole))
            whole += f"{words}<|im_end|>\n"
        return whole + "<|im_start|>assistant\n", begins

    def sent(self, router, form, before=None, **fields):
        body = {"model": self.model, "max_tokens": 1, "temperature": 0, **fields}
        if self.salt:
            body["cache_salt"] = self.salt
        messages = [{"role": role, "content": words} for role, words in self.messages]
        if form == "messages":
            body["messages"] = messages
            body["diagnostics"] = {"previous_message_id": before}
            if self.system:
                body["system"] = self.system
            if self.tools:
                body["tools"] = [{"name": name, "description": words, "input_schema": {"type": "object"}} for name, words in self.tools]
            answer = router.request("POST", "/v1/messages", body)
        else:
            body["messages"] = ([{"role": "system", "content": self.system}] if self.system else []) + messages
            if before:
                body["prompt_cache_options"] = {"comparison_response_id": before}
            if self.tools:
                body["tools"] = [{"type": "function", "function": {"name": name, "description": words}} for name, words in self.tools]
            if self.effort:
                body["reasoning_effort"] = self.effort
            if self.format:
                body["response_format"] = {"type": self.format}
            answer = router.request("POST", "/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        return answer


def tokens_of(router, whole):
    told = router.request("POST", "/tokenize", {"model": "demo-model", "prompt": whole, "add_special_tokens": False,
                                                "return_token_strs": True}).json()
    assert sum(map(len, told["token_strs"])) == len(whole), "these texts are ASCII"
    return told["tokens"], told["token_strs"]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where two prompts part, from their tokens alone."""
    before: int  # tokens of the earlier one
    now: int
    common: int  # leading tokens that are equal
    begins: tuple  # of the later one: the tokens in front of each message's text

    @staticmethod
    def of(router, before, now):
        earlier, _ = tokens_of(router, before.rendered()[0])
        whole, places = now.rendered()
        later, texts = tokens_of(router, whole)
        common = next((i for i, (a, b) in enumerate(zip(earlier, later)) if a != b), min(len(earlier), len(later)))
        ends, end = [], 0
        for each in texts:
            end += len(each)
            ends.append(end)
        begins = tuple(sum(1 for end in ends if end <= place) for place in places)
        return Place(len(earlier), len(later), common, begins)

    @property
    def blocks(self):
        return self.common // BLOCK * BLOCK

    @property
    def findable(self):
        """Tokens of the later prompt that the earlier one's full blocks hold: at least one is always computed."""
        return min(self.blocks, self.now - 1)


def cached_of(answer):
    usage = answer.usage()
    return usage["cache_read_input_tokens"] if "input_tokens" in usage else usage["prompt_tokens_details"]["cached_tokens"]


class Shapes:
    """Prompts of random shapes; no two have a block in common."""

    def __init__(self, seed):
        self.seed = seed
        self.draw = random.Random(seed)
        self.count = 0

    def words(self, least, most):
        self.count += 1
        return text(self.draw.randint(least, most), f"{self.seed} {self.count}")

    def ask(self, **fields):
        turns = self.draw.randint(0, 2)
        roles = ["user", "assistant"] * turns + ["user"]
        return Ask(tuple((role, self.words(8, 40)) for role in roles),
                   **{"system": self.words(10, 40),
                      "tools": tuple((f"tool_{i}", self.words(8, 20)) for i in range(self.draw.randint(2, 4))), **fields})


def edited(words, draw, new):
    """The text with one of its words changed."""
    parts = words.split(" ")
    parts[draw.randrange(len(parts))] = new
    return " ".join(parts)


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = pathlib.Path(cls.folder.name) / "demo-model"
        shutil.copytree(DEMO_MODEL, cls.model)
        path = cls.model / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": TEMPLATE}))

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.shapes = Shapes(f"{SEED} {self.id()}")

    def start(self, workers, *flags, worker_flags=()):
        self.router = self.cluster.start_router("--pulls", "off", *flags)
        for name in workers:
            self.start_worker(name, *worker_flags)
        self.router.wait_for_workers(len(workers))

    def start_worker(self, name, *flags):
        # All that is planted fits.
        blocks = str(max(1024, 100 * PLANTED))
        return self.cluster.start_worker(name, "--served-model-name", "demo-model", "--handover-seconds", "0", "--kv-blocks", blocks, *flags, model=self.model)

    def roostctl(self, *words):
        told = subprocess.run([BIN / "roostctl", words[0], "--admin", self.router.admin, *words[1:]], capture_output=True, text=True,
                              check=False)
        self.assertEqual(told.returncode, 0, f"{words}: {told.stdout} {told.stderr}")
        return told.stdout

    def sentence_of(self, answer):
        """Of the last attempt: a busy machine may have needed several."""
        told = re.findall(r"^  cache        (.*)$", self.roostctl("explain", answer.json()["id"]), re.MULTILINE)
        return told[-1] if told else ""

    def form(self, i):
        return ("chat", "messages")[i % 2]

    def diagnosis(self, answer, form):
        """The wire form's word, tokens missed, and the token where the two part, as far as it has them."""
        body = answer.json()
        if form == "messages":
            reason = (body["diagnostics"] or {}).get("cache_miss_reason")
            return (reason["type"], reason.get("cache_missed_input_tokens"), None) if reason else ("hit", None, None)
        told = body["prompt_cache_diagnostics"]
        if told["type"] == "cache_miss":
            return told["reason"], told["cache_missed_tokens"], told["comparison_reusable_tokens"]
        return {"cache_hit": "hit"}.get(told["type"], told["type"]), None, None

    def check_hit(self, answer, form):
        self.assertEqual(self.diagnosis(answer, form)[0], "hit")
        self.assertNotIn("x-roost-miss", answer.headers)
        self.assertEqual(self.sentence_of(answer), "all that it shares with the request before was found")

    def check_changed(self, before, now, form, reasons, what, token):
        """`reasons` in the form of chats and of messages; `token` of the place, where the two part."""
        place = Place.of(self.router, before, now)
        first = before.sent(self.router, form)
        answer = now.sent(self.router, form, first.json()["id"])
        at = token(place)
        self.assertTrue(at <= place.common < at + BLOCK or at == 0, place)
        missed = place.before - at
        reason, tokens, reusable = self.diagnosis(answer, form)
        self.assertEqual(reason, reasons[form == "messages"])
        if reason != "unavailable":
            self.assertEqual(tokens, missed)
            self.assertIn(reusable, (None, at))
        again = min(missed, place.now - cached_of(answer))
        cause = "other_scope" if now.salt != before.salt else "changed"
        self.assertEqual(answer.headers.get("x-roost-miss"), f"{cause}; tokens={again}")
        self.assertEqual(self.sentence_of(answer), f"{what.format(at=f'{at:,}')}; {again:,} tokens computed again")

    def check_cause(self, now, before, answer, form, cause, sentence):
        """The cache's side: the two agree up to where one of them ends."""
        place = Place.of(self.router, before, now)
        lost = place.findable - cached_of(answer)
        self.assertGreaterEqual(lost, BLOCK)
        self.assertEqual(self.diagnosis(answer, form)[0], "unavailable")
        self.assertEqual(answer.headers.get("x-roost-miss"), f"{cause}; tokens={lost}")
        told = self.sentence_of(answer)
        self.assertRegex(told, f"^the request before is the same up to here, but {sentence}; {lost:,} tokens computed again$")

    def continued(self, ask):
        """The conversation's next turn, or the same request again."""
        if self.shapes.draw.random() < 0.3:
            return ask
        more = (("assistant", self.shapes.words(4, 10)), ("user", self.shapes.words(4, 20)))
        return dataclasses.replace(ask, messages=ask.messages + more)


class ChangesTest(Planted):
    def plant(self, change):
        self.start(["worker-a"])
        for i in range(PLANTED):
            with self.subTest(i=i, seed=SEED):
                change(self.form(i), self.shapes.draw)

    def test_nothing(self):
        def change(form, _):
            ask = self.shapes.ask()
            first = ask.sent(self.router, form)
            self.check_hit(self.continued(ask).sent(self.router, form, first.json()["id"]), form)

        self.plant(change)

    def test_tool_order(self):
        def change(form, draw):
            before = self.shapes.ask()
            tools = list(before.tools)
            while tuple(tools) == before.tools:
                draw.shuffle(tools)
            self.check_changed(before, dataclasses.replace(before, tools=tuple(tools)), form, ("tools_changed", "tools_changed"),
                               "the tools differ from the request before at token {at}", lambda place: place.blocks)

        self.plant(change)

    def test_a_date_in_the_system_prompt(self):
        def change(form, draw):
            day = draw.randint(1, 27)
            front, back = self.shapes.words(0, 30), self.shapes.words(5, 30)
            systems = [f"{front} It is 2026-11-{each:02} now. {back}" for each in (day, day + 1)]
            before = self.shapes.ask(system=systems[0])
            now = dataclasses.replace(before, system=systems[1])
            self.check_changed(before, now, form, ("input_changed", "system_changed"),
                               "the system prompt differs from the request before at token {at}", lambda place: place.blocks)

        self.plant(change)

    def test_an_edited_message(self):
        def change(form, draw):
            before = self.shapes.ask()
            which = draw.randrange(len(before.messages))
            role, words = before.messages[which]
            messages = list(before.messages)
            messages[which] = (role, edited(words, draw, self.shapes.words(1, 6)))
            rest = (("assistant", self.shapes.words(8, 8)), ("user", self.shapes.words(8, 20)))
            now = dataclasses.replace(before, messages=(*messages, *rest))
            before = dataclasses.replace(before, messages=(*before.messages, *rest))
            self.check_changed(before, now, form, ("input_changed", "messages_changed"),
                               f"message {which + 1} differs from the request before at token {{at}}",
                               lambda place: max(place.blocks, place.begins[which]))

        self.plant(change)

    def test_a_message_less(self):
        """The client left out the oldest turn."""
        def change(form, draw):
            before = self.shapes.ask()
            rest = [each for _ in range(2) for each in (("assistant", self.shapes.words(8, 20)), ("user", self.shapes.words(20, 30)))]
            before = dataclasses.replace(before, messages=(*before.messages, *rest))
            now = dataclasses.replace(before, messages=before.messages[2:])
            self.check_changed(before, now, form, ("input_changed", "messages_changed"),
                               "message 1 differs from the request before at token {at}",
                               lambda place: max(place.blocks, place.begins[0]))

        self.plant(change)

    def test_effort(self):
        """It stands behind the tools, which are the same."""
        def change(_, __):
            before = self.shapes.ask(effort="low")
            now = dataclasses.replace(before, effort="high")
            self.check_changed(before, now, "chat", ("reasoning_effort_changed", ""),
                               "what the template makes of other fields differs from the request before at token {at}",
                               lambda place: place.blocks)

        self.plant(change)

    def test_salt(self):
        def change(form, _):
            before = self.shapes.ask(salt=self.shapes.words(1, 1))
            now = dataclasses.replace(before, salt=self.shapes.words(1, 1))
            self.check_changed(before, now, form, ("unavailable", "unavailable"), "the request before had another salt", lambda _: 0)

        self.plant(change)

    def test_format(self):
        """Formats stand in no prompt: what was cached is found."""
        def change(_, __):
            before = self.shapes.ask()
            first = before.sent(self.router, "chat")
            self.check_hit(dataclasses.replace(before, format="json_object").sent(self.router, "chat", first.json()["id"]), "chat")

        self.plant(change)

    def test_model(self):
        self.start(["worker-a"])
        self.cluster.start_worker("worker-b", "--served-model-name", "other", model=self.model)
        self.router.wait_for_workers(2)
        for i in range(PLANTED):
            with self.subTest(i=i, seed=SEED):
                before = self.shapes.ask()
                self.check_changed(before, dataclasses.replace(before, model="other"), self.form(i), ("model_changed", "model_changed"),
                                   "the request before was for another model", lambda _: 0)

    def test_a_change_that_costs_nothing_is_a_hit(self):
        """Two requests alternate: each differs from the one that it names, and is found all the same."""
        def change(form, draw):
            one = self.shapes.ask()
            other = dataclasses.replace(one, system=edited(one.system, draw, "instead"))
            one.sent(self.router, form)
            first = other.sent(self.router, form)
            self.check_hit(one.sent(self.router, form, first.json()["id"]), form)

        self.plant(change)


class CacheSideTest(Planted):
    def ask_all(self, **fields):
        """PLANTED requests, each with the one that is to follow it."""
        asked = []
        for i in range(PLANTED):
            ask = self.shapes.ask(**fields)
            asked.append((ask, self.continued(ask), self.form(i), ask.sent(self.router, self.form(i))))
        return asked

    def check_all(self, asked, cause, sentence):
        for i, (before, now, form, first) in enumerate(asked):
            with self.subTest(i=i, seed=SEED):
                answer = now.sent(self.router, form, first.json()["id"])
                self.check_cause(now, before, answer, form, cause, sentence)

    def test_never_here(self):
        self.start(["worker-a"])
        for i in range(PLANTED):
            ask = self.shapes.ask()
            answer = ask.sent(self.router, self.form(i))
            whole, _ = tokens_of(self.router, ask.rendered()[0])
            lost = min(len(whole) // BLOCK * BLOCK, len(whole) - 1) - cached_of(answer)
            self.assertEqual(answer.headers.get("x-roost-miss"), f"never_here; tokens={lost}")
            self.assertRegex(self.sentence_of(answer), f"^the worker has never had it, .*; {lost:,} tokens computed$")

    def test_eviction(self):
        # 256 blocks are some three of these prompts. The worker forgets the first evictions: the router does not.
        self.start(["worker-a"], worker_flags=("--kv-blocks", "256", "--eviction", "lru"))
        asked = self.ask_all()
        for i in range(8):
            self.router.completion(text(200, f"flood {self.id()} {i}"), max_tokens=1)
        self.check_all(asked, "evicted", r"it was evicted from the memory of worker-a within the last [\d.]+ s")

    def test_an_operators_eviction(self):
        self.start(["worker-a"])
        for planted in self.ask_all(tools=()):  # the router knows the last 16 orders
            ask = planted[0]
            messages = [{"role": "system", "content": ask.system}, *({"role": role, "content": words} for role, words in ask.messages)]
            evicted = self.router.request("POST", "/admin/v1/evict", {"model": "demo-model", "messages": messages})
            self.assertGreater(evicted.json()["evicted_blocks"], 1)
            self.check_all([planted], "evicted", r"an operator's order has erased it within the last [\d.]+ s")

    def test_drain(self):
        self.start(["worker-a", "worker-b"])
        self.roostctl("cordon", "worker-b")
        asked = self.ask_all()
        self.roostctl("uncordon", "worker-b")
        self.roostctl("drain", "worker-a")
        self.check_all(asked, "elsewhere", "worker-a, which holds it, takes no requests now")

    def test_a_worker_that_left(self):
        self.start(["worker-b"])
        self.roostctl("cordon", "worker-b")
        worker = self.start_worker("worker-a")
        self.router.wait_for_workers(2)
        asked = self.ask_all()
        self.roostctl("uncordon", "worker-b")
        worker.stop()
        self.router.wait_for_workers(1)
        self.check_all(asked, "never_here", "worker-a, which had it, has left")

    def test_a_worker_that_was_lost(self):
        self.start(["worker-b"])
        self.roostctl("cordon", "worker-b")
        worker = self.start_worker("worker-a")
        self.router.wait_for_workers(2)
        asked = self.ask_all()
        self.roostctl("uncordon", "worker-b")
        worker.kill()
        self.router.wait_for_workers(1)
        self.check_all(asked, "never_here", "worker-a, which had it, was lost")

    def test_restart(self):
        self.start([])
        worker = self.start_worker("worker-a")
        self.router.wait_for_workers(1)
        asked = self.ask_all()
        worker.stop()
        self.start_worker("worker-a")
        self.router.wait_for_workers(1)
        self.check_all(asked, "never_here", "worker-a, which had it, has begun again since")

    def test_another_worker(self):
        self.start(["worker-a", "worker-b"], "--policy", "round-robin")
        for i in range(PLANTED):
            with self.subTest(i=i, seed=SEED):
                ask, form = self.shapes.ask(), self.form(i)
                first = ask.sent(self.router, form)
                now = self.continued(ask)
                answer = now.sent(self.router, form, first.json()["id"])
                holder = first.headers["x-roost-worker"]
                self.assertNotEqual(holder, answer.headers["x-roost-worker"])
                self.check_cause(now, ask, answer, form, "elsewhere", f"{holder} holds it")

    def test_in_flight(self):
        """A request waits for another one that computes the same prompt, as long as computing it would take; others go before
        both meanwhile, so that it computes the prompt too. Where it was not so, the two are asked again with another prompt."""
        self.start(["worker-a"], worker_flags=("--max-batch-tokens", "64", "--kv-blocks", "4096"))
        planted = 0
        for i in range(20 * PLANTED):
            ask, form = Ask((("user", self.shapes.words(150, 200)),)), self.form(i)
            fields = {"session_id": f"conversation {i}"}
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                first = pool.submit(ask.sent, self.router, form, priority=0, **fields)
                wait_until(lambda: first.done() or self.router.workers()[0]["in_flight_requests"] > 0, "that the first one is there")  # noqa: B023
                others = [pool.submit(self.router.completion, self.shapes.words(150, 150), max_tokens=1, priority=90) for _ in range(5)]
                answer = pool.submit(ask.sent, self.router, form, priority=60, **fields).result()
                for each in (first, *others):
                    self.assertEqual(each.result().status, 200)
            lost = Place.of(self.router, ask, ask).findable - cached_of(answer)
            told = answer.headers.get("x-roost-miss")
            if lost < BLOCK or told == f"never_here; tokens={lost}":  # the second one went before the first had begun
                continue
            self.assertEqual(told, f"in_flight; tokens={lost}")
            self.assertEqual(self.sentence_of(answer), "the request before is the same up to here, but another request was still "
                             f"computing it; {lost:,} tokens computed again")
            planted += 1
            if planted == PLANTED:
                return
        self.fail(f"planted {planted} times alone")


if __name__ == "__main__":
    unittest.main()
