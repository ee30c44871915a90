"""The commands of deploy/kubernetes.md, run as they are written there. Those of kubectl are understood, not run."""

import os
import pathlib
import re
import shlex
import subprocess

PAGE = pathlib.Path(__file__).resolve().parents[3] / "deploy/kubernetes.md"


def commands(heading):
    """The lines of the shell blocks under a heading, continued ones joined."""
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE).group(1)
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def run(lines, begins, folder, binaries):
    """Runs those lines that begin with `begins`, in the folder, as a shell would."""
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    for line in lines:
        if line.startswith(begins):
            subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environment, check=True)


def created_secrets(lines, folder):
    """Name -> {file: bytes} of the Secrets that the lines create from files of the folder."""
    secrets = {}
    for line in lines:
        found = re.match(r"kubectl -n roost create secret generic (\S+) (.*)", line)
        if not found:
            continue
        files = {}
        for word in shlex.split(found.group(2)):
            if word.startswith("--from-file="):
                key, _, path = word.removeprefix("--from-file=").rpartition("=")
                files[key or path] = (pathlib.Path(folder) / path).read_bytes()
        secrets[found.group(1)] = files
    return secrets


def executed(lines):
    """The command that is executed in a router's pod, and the file of its input or None."""
    line = next(line for line in lines if " exec " in line and "deployment/roost-router" in line)
    command, _, file = line.partition(" -- ")[2].partition("<")
    return shlex.split(command), file.strip() or None
