"""Completions that shells propose after words of roostctl: its own commands, options and choices."""

import os
import re
import shutil
import subprocess
import unittest

from cluster import BIN, ROOT

FOLDER = ROOT / "deploy/debian/completions"
HELP = subprocess.run([BIN / "roostctl", "--help"], capture_output=True, text=True, check=True).stdout
COMMANDS = set(re.findall(r"^  ([a-z][\w-]+) ", HELP, re.MULTILINE))


class CompletionsTest(unittest.TestCase):
    """Each shell is asked for what follows a line of words."""

    def shell(self, name, script):
        if shutil.which(name) is None:
            self.skipTest(f"needs {name}")
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run([name, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")

    def bash(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        return self.shell("bash", f"""
            source {FOLDER}/roostctl.bash
            COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
            _roostctl; printf '%s\\n' "${{COMPREPLY[@]}}" """)

    def fish(self, *words):
        lines = self.shell("fish", f"source {FOLDER}/roostctl.fish; complete -C '{' '.join(words)}'")
        return [line.split("\t")[0] for line in lines]

    def zsh(self, *words):
        quoted = " ".join(f"'{word}'" for word in words)
        lines = self.shell("zsh", f"""
            _describe() {{ print -l -- ${{(P)2}} }}
            _files() {{ print files }}
            words=({quoted}); CURRENT={len(words)}
            source {FOLDER}/roostctl.zsh""")
        return [line.split(":")[0] for line in lines]

    def test_commands(self):
        for shell in (self.bash, self.fish, self.zsh):
            with self.subTest(shell.__name__):
                self.assertLessEqual(COMMANDS, set(shell("roostctl", "")))

    def test_options_of_a_command(self):
        for shell in (self.bash, self.fish, self.zsh):
            with self.subTest(shell.__name__):
                found = shell("roostctl", "explain", "--")
                self.assertLessEqual({"--last", "--admin"}, set(found))
                self.assertNotIn("--tenant", found)

    def test_what_stands_behind_key(self):
        for shell in (self.bash, self.fish, self.zsh):
            with self.subTest(shell.__name__):
                self.assertLessEqual({"new", "link"}, set(shell("roostctl", "key", "")))
                self.assertIn("--tenant", shell("roostctl", "key", "new", "--"))

    def test_bash_knows_the_choices_of_an_option(self):
        self.assertIn("mooncake", self.bash("roostctl", "simulate", "--format", "m"))
        self.assertIn("mooncake", self.bash("roostctl", "simulate", "--format", "=", "m"))


if __name__ == "__main__":
    unittest.main()
