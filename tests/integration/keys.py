"""API keys for tests, made by roostctl.

    keys = KeyFile(folder)
    secret = keys.add("chat", "--tenant", "acme")
    router = cluster.start_router("--api-keys", str(keys.path))
    router.request("POST", path, body, bearer(secret))
"""

import pathlib
import subprocess

from cluster import BIN


class KeyFile:
    """Keys made by roostctl, in a file that a router reads."""

    def __init__(self, folder, name="keys.jsonl"):
        self.path = pathlib.Path(folder) / name
        self.secrets = {}
        self.lines = {}

    def add(self, name, *flags):
        made = subprocess.run([BIN / "roostctl", "key", "new", name, *flags], capture_output=True, text=True, check=True)
        self.secrets[name] = made.stderr.strip().splitlines()[-1]
        self.lines[name] = made.stdout
        self.write()
        return self.secrets[name]

    def write(self):
        """As a whole, at once."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(self.lines.values()))
        fresh.rename(self.path)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}
