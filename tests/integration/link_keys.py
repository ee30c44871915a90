"""Keys of the link between routers and workers, as roostctl makes them."""

import json
import pathlib
import subprocess
import tempfile

from cluster import BIN


class LinkKeys:
    """A folder of keys: those of a router, and of these workers."""

    def __init__(self, *workers):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.lines = {name: self.make(name) for name in workers}
        self.write("workers.jsonl", *self.lines.values())
        self.lines["router"] = self.make("router", "router")
        self.write("routers.jsonl", self.lines["router"])

    def make(self, name, role="worker", *flags):
        command = [BIN / "roostctl", "key", "link", name, "--role", role, "--out", self.path / f"{name}.key", *flags]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def write(self, name, *lines):
        """In one step, as an operator should."""
        (self.path / (name + ".new")).write_text("# peers\n" + "".join(lines))
        (self.path / (name + ".new")).rename(self.path / name)

    def router(self, key="router"):
        return ["--link-secret-key", self.path / f"{key}.key", "--link-peers", self.path / "workers.jsonl"]

    def worker(self, key, peers="routers.jsonl"):
        return ["--link-secret-key", self.path / f"{key}.key", "--link-peers", self.path / peers]

    def public(self, name):
        return json.loads(self.lines[name])["public_key"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()
