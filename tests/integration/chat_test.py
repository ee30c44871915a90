"""roostctl chat, through pipes and on a terminal; roostctl prefix-diff, through a router and with a model folder."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest

from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, Cluster, text

SYSTEM = text(60, "chat")
LOCAL_FLAGS = 3  # index into the result of tcgetattr


def chat(router, questions, *flags, code=0):
    arguments = [BIN / "roostctl", "chat", "--router", router.url, "--max-tokens", "8", *flags]
    told = subprocess.run(arguments, input=questions, capture_output=True, text=True, check=False)
    assert told.returncode == code, f"{arguments}: {told.returncode} {told.stdout} {told.stderr}"
    return told


class Terminal:
    """A roostctl chat on a pseudo-terminal."""

    def __init__(self, router, *flags):
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            arguments = [str(BIN / "roostctl"), "chat", "--router", router.url, *flags]
            os.execv(arguments[0], arguments)
        # Otherwise ^C discards output on its way to the screen, even a "[stopped]" that was written quickly.
        attributes = termios.tcgetattr(self.screen)
        attributes[LOCAL_FLAGS] |= termios.NOFLSH
        termios.tcsetattr(self.screen, termios.TCSANOW, attributes)
        self.shown = ""

    def type(self, keys):
        os.write(self.screen, keys.encode())

    def wait_for(self, pattern):
        """Waits until the screen shows it, after everything that was waited for before. Returns the match."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not (match := re.search(pattern, self.shown)):
            assert time.monotonic() < end, f"{pattern} is not in {self.shown[-2000:]!r}"
            if select.select([self.screen], [], [], 0.1)[0]:
                self.shown += os.read(self.screen, 4096).decode(errors="replace")
        self.shown = self.shown[match.end() :]
        return match

    def end(self):
        """Waits for the exit code."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(status)


class ChatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router()
        cls.cluster.start_worker("worker-a")
        cls.router.wait_for_workers(1)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def test_each_line_is_answered_with_the_history_before_it(self):
        told = chat(self.router, "Who comes here?\n\nAnd then?\n", "--model", "demo-model", "--system", SYSTEM)
        figures = [re.findall(r"\d+", line) for line in told.stderr.splitlines()[1:]]
        self.assertEqual(told.stderr.splitlines()[0], f"[demo-model at {self.router.url}]")
        self.assertEqual(len(figures), 2, told.stderr)
        self.assertRegex(told.stderr, r"\[worker-a: \d+ prompt tokens, \d+ cached; first token after [\d.]+ ms; ")
        (first, first_cached), (second, second_cached) = (map(int, numbers[:2]) for numbers in figures)
        self.assertLess(first_cached, 16)
        self.assertGreater(second, first)
        self.assertGreaterEqual(second_cached, first // 16 * 16)
        self.assertTrue(told.stdout.strip())
        self.assertNotIn("> ", told.stdout)

    def test_an_answer_is_that_of_the_api(self):
        told = chat(self.router, "Who comes here?\n")  # the router's first model
        again = self.router.chat([{"role": "user", "content": "Who comes here?"}], max_tokens=8)
        self.assertEqual(len(told.stderr.splitlines()), 2)
        self.assertEqual(again.usage()["prompt_tokens"], int(re.search(r": (\d+) prompt", told.stderr).group(1)))

    def test_what_is_refused_is_one_line_and_the_talk_goes_on(self):
        told = chat(self.router, text(2500, "too long") + "\nWho comes here?\n", code=1)
        lines = told.stderr.splitlines()
        self.assertEqual(len(lines), 3, told.stderr)
        self.assertIn("roostctl chat: the router answers 400: messages: the prompt has", lines[1])
        self.assertIn("[worker-a: ", lines[2])
        told = chat(self.router, "Who?\n", "--model", "nobody", code=1)
        # 503 while the router has just begun, so that a worker may yet bring it.
        self.assertRegex(told.stderr, "the router answers (404|503): model: ")

    def test_ctrl_c_stops_an_answer_and_ctrl_d_ends_the_talk(self):
        terminal = Terminal(self.router, "--model", "demo-model", "--max-tokens", "3500")
        terminal.wait_for("> ")
        terminal.type("Tell a long tale.\n")
        terminal.wait_for(r"tale\.\r\n[^\r]")
        terminal.type("\x03")
        terminal.wait_for(r"\[stopped\]|\[worker-a: ")  # the answer may have ended just before
        terminal.wait_for("> ")
        terminal.type("Who comes here?\n")
        terminal.wait_for(r"here\?\r\n[^\r]")
        terminal.type("\x03")
        terminal.wait_for(r"\[")
        terminal.wait_for("> ")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_an_interrupt_ends_a_talk_through_pipes(self):
        arguments = [BIN / "roostctl", "chat", "--router", self.router.url]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdin.write("Who comes here?\n")
            process.stdin.flush()
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(DEADLINE_SECONDS), -signal.SIGINT)


    def test_nobody_who_reads_ends_it(self):
        arguments = [BIN / "roostctl", "chat", "--router", self.router.url, "--max-tokens", "3500"]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdin.write("Tell a long tale.\n" * 100)
            process.stdin.flush()
            process.stdout.read(1)
            process.stdout.close()
            self.assertNotEqual(process.wait(DEADLINE_SECONDS), 0)


class PrefixDiffTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, day):
        body = {
            "model": "demo-model",
            "messages": [{"role": "system", "content": f"{SYSTEM} Today is {day}."}, {"role": "user", "content": "Who?"}],
        }
        path = self.folder / name
        path.write_text(json.dumps(body))
        return path

    def diff(self, model, *flags):
        arguments = [BIN / "roostctl", "prefix-diff", self.write("a", "Monday"), self.write("b", "Friday")]
        arguments += ["--model", model, *flags]
        told = subprocess.run(arguments, capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout

    def test_a_router_and_a_model_folder_show_the_same_place(self):
        offline = self.diff(DEMO_MODEL)
        blocks, tokens = map(int, re.search(r"same (\d+) blocks \((\d+) tokens\)", offline).groups())
        self.assertEqual(tokens, blocks * 16)
        self.assertRegex(offline, r'both .*Today is')
        self.assertRegex(offline, r'/a  "[^"]*day')
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            self.assertEqual(self.diff("demo-model", "--router", router.url), offline)
            # This is the position that matters to the cache.
            first, second = (json.loads((self.folder / name).read_text()) for name in "ab")
            router.request("POST", "/v1/chat/completions", {**first, "max_tokens": 1})
            match = router.request("POST", "/admin/v1/match", second).json()
            self.assertEqual(match["workers"][0]["held_blocks"], blocks)


if __name__ == "__main__":
    unittest.main()
