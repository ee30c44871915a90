"""Whole sessions of coding agents with tools, as recorded in shape, against the demo model."""

import tempfile
import unittest

from agent_sessions import agent_cluster, aider, check_hits, claude_code, codex, opencode, replay


class AgentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.router = cls.enterClassContext(agent_cluster(cls.folder.name))

    def test_claude_code(self):
        session = claude_code()
        check_hits(replay(self.router, session))
        path, body = session[-1]
        asked = {name: body[name] for name in ("model", "system", "tools", "messages", "thinking")}
        counted = self.router.request("POST", "/v1/messages/count_tokens", asked)
        self.assertEqual(counted.status, 200, counted.body)
        self.assertEqual(counted.json()["input_tokens"], replay(self.router, [(path, body)])[0][1])

    def test_codex(self):
        check_hits(replay(self.router, codex()))

    def test_opencode(self):
        title, *session = opencode()
        replay(self.router, [title])
        check_hits(replay(self.router, session))

    def test_aider(self):
        check_hits(replay(self.router, aider()))

    def test_a_text_in_front_that_changes_is_noticed(self):
        """The check fails where a client breaks its prefix."""
        session = aider()[:3]
        for number, (_, body) in enumerate(session):
            body["messages"][0] = {"role": "system", "content": f"It is {number} o'clock. " + body["messages"][0]["content"]}
        with self.assertRaises(AssertionError):
            check_hits(replay(self.router, session))


if __name__ == "__main__":
    unittest.main()
