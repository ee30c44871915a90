"""Pods that are not Roost's: clients, a store of models, an intruder that should be kept out."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).parent

# Whether a connection to ADDRESS PORT is made.
KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
except OSError:
    sys.exit(1)
"""


def reaches(pause, address, port):
    """Whether the pod of the process `pause` gets a connection there."""
    command = ["nsenter", f"--net=/proc/{pause.pid}/ns/net", sys.executable, "-c", KNOCK, address, str(port)]
    return subprocess.run(command).returncode == 0


class Outsider:
    def __init__(self, network, address=None):
        self.pause = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
                                      stdout=subprocess.PIPE, text=True)
        self.pause.stdout.readline()
        self.address, _ = network.connect(self.pause.pid, address)

    def start(self, *command, **pipes):
        return subprocess.Popen(["nsenter", f"--net=/proc/{self.pause.pid}/ns/net", *command], **pipes)

    def stop(self):
        self.pause.kill()
        self.pause.wait()
        self.pause.stdout.close()


class Load:
    """Requests of load.py, as they end."""

    def __init__(self, outsider, **options):
        self.process = outsider.start(sys.executable, HERE / "load.py", json.dumps(options), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.records = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.records.append(json.loads(line))
                self.changed.notify_all()

    def since(self, moment):
        with self.changed:
            return [record for record in self.records if record["end"] >= moment]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


@contextlib.contextmanager
def file_server(outsider, folder):
    """Serves the files of a folder at port 443, in plain HTTP."""
    server = outsider.start(sys.executable, "-m", "http.server", "443", "--directory", str(folder),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{outsider.address}:443"
    finally:
        server.kill()
        server.wait()


def is_listening(address, port):
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False
