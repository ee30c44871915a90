"""roostctl simulate replays what a router records of real traffic, and roostctl lint finds what it costs."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, ROOT, Cluster, text
from keys import KeyFile, bearer

SYSTEM = (ROOT / "deploy/demo-prompts/system-1-prompter.txt").read_text()
QUESTIONS = ["Who comes here at this hour?", "And who else?", "Since when?"]


class RecordTest(unittest.TestCase):
    def test_a_recorded_chat_has_in_the_simulation_the_hits_that_it_had(self):
        with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
            recording = pathlib.Path(folder) / "recording.jsonl"
            router = cluster.start_router("--record", recording)
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            prompt_tokens, cached_tokens = self.chat(router)
            self.assertEqual(router.stop(), 0)
            text = recording.read_text()
            self.assertNotIn(QUESTIONS[0], text)
            records = [json.loads(line) for line in text.splitlines()]
            self.assertEqual(len(records), len(QUESTIONS))
            self.assertEqual(sum(record["input"] for record in records), prompt_tokens)
            outcome = self.simulate(recording)
            self.assertEqual(outcome["refused"], 0)
            # At the end of a prompt the real worker shares tokens that a recording of whole blocks lacks.
            self.assertAlmostEqual(outcome["hit_ratio"], cached_tokens / prompt_tokens, delta=0.02)

    def test_lint_names_the_key_whose_prompts_have_a_value_that_changes(self):
        with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
            recording = pathlib.Path(folder) / "recording.jsonl"
            keys = KeyFile(folder)
            for name in ("web", "batch"):
                keys.add(name, "--tenant", "acme")
            router = cluster.start_router("--record", recording, "--api-keys", keys.path)
            cluster.start_worker("worker-a", "--kv-blocks", "4096")
            router.wait_for_workers(1)
            front, back = text(20, "front"), text(60, "back")
            for number in range(12):
                for name, value in (("web", number), ("batch", 0)):
                    body = {"model": "demo-model", "prompt": f"{front} {value:04} {back}", "max_tokens": 1}
                    self.assertEqual(router.request("POST", "/v1/completions", body, bearer(keys.secrets[name])).status, 200)
            self.assertEqual(router.stop(), 0)
            for secret in keys.secrets.values():
                self.assertNotIn(secret, recording.read_text())
            told = subprocess.run([BIN / "roostctl", "lint", recording], capture_output=True, text=True, check=True).stdout
            self.assertRegex(told, r"^demo-model: key web: token [\d]+ of about [\d]+ differs in 9\d\.\d % of 12 requests")
            self.assertIn("24 requests; ", told)
            self.assertTrue(told.endswith("; 1 places\n"), told)

    def chat(self, router):
        """A chat of some turns; returns the prompt tokens, and how many of them were cached."""
        messages = [{"role": "system", "content": SYSTEM}]
        prompt_tokens = cached_tokens = 0
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = router.chat(messages, temperature=0, max_tokens=24)
            self.assertEqual(answer.status, 200, answer.body)
            messages.append({"role": "assistant", "content": answer.text()})
            prompt_tokens += answer.usage()["prompt_tokens"]
            cached_tokens += answer.cached_tokens()
        return prompt_tokens, cached_tokens

    def simulate(self, recording):
        command = [BIN / "roostctl", "simulate", "--trace", recording, "--format", "roost", "--workers", "1",
                   "--utilisation", "0", "--cache-tokens", "16384", "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


class SimulateCommandTest(unittest.TestCase):
    def test_a_bad_value_is_named(self):
        for flag, value in {"--workers": "0", "--utilisation": "-1", "--format": "csv", "--eviction": "mru"}.items():
            ended = subprocess.run([BIN / "roostctl", "simulate", "--generate", "chat", flag, value],
                                   capture_output=True, text=True)
            self.assertEqual(ended.returncode, 64, ended.stderr)
            self.assertIn(flag.lstrip("-"), ended.stderr)


if __name__ == "__main__":
    unittest.main()
