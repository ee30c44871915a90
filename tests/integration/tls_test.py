"""HTTPS on real daemons: certificates are replaced under many streams, bad ones change nothing, roostctl is a client.

ROOST_STREAMS sets how many streams (500 here).
"""

import asyncio
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from certificates import Authority
import side_by_side
from cluster import BIN, DEMO_MODEL, FREE_PORTS, ROOT, Cluster, Daemon, wait_until

sys.path.insert(0, str(ROOT / "tests/bench"))
import router_load as load  # noqa: E402

STREAMS = int(os.environ.get("ROOST_STREAMS", "500"))
ANSWER = " ".join(f"{i}" for i in range(100, 132))
# So long that certificates can change three times before the streams end.
STEP_MS = 60
MAX_STREAM_BYTES = 64 * 1024


class Secret:
    """A folder like that of a mounted Kubernetes secret: all files change at once, when a link is switched."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.revision = 0
        self.certificate = self.folder / "tls.crt"
        self.key = self.folder / "tls.key"

    def write(self, files):
        self.revision += 1
        target = self.folder / f"..{self.revision}"
        target.mkdir()
        (target / "tls.crt").write_bytes(files.certificate.read_bytes())
        (target / "tls.key").write_bytes(files.key.read_bytes())
        (self.folder / "..next").symlink_to(target.name)
        (self.folder / "..next").rename(self.folder / "..data")
        for path in (self.certificate, self.key):
            if not path.is_symlink():
                path.symlink_to(f"..data/{path.name}")


class TlsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.authority = Authority(self.folder, "authority")
        self.secret = Secret(self.folder / "secret")
        self.secret.write(self.authority.issue("first"))
        self.cluster = self.enterContext(Cluster())

    def start_router(self, *flags, own=None):
        return self.cluster.start_router("--tls-cert", self.secret.certificate, "--tls-key", self.secret.key, *flags,
                                         tls=self.authority.client_context(own))

    def name_of_server(self, router):
        """The name in the certificate that a new connection sees."""
        host, port = router.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            with router.tls.wrap_socket(plain, server_hostname=host) as tls:
                return dict(part[0] for part in tls.getpeercert()["subject"])["commonName"]

    def wait_for_server(self, router, name):
        wait_until(lambda: self.name_of_server(router) == name, f"the certificate '{name}'")

    def test_certificates_change_under_streams_and_none_is_cut(self):
        if not load.allow_descriptors(2 * STREAMS + 200):
            self.skipTest(f"{STREAMS} streams need more descriptors than this process may have")
        router = self.start_router("--worker-queue-bound", 2 * STREAMS, "--max-connections", 2 * STREAMS,
                                   "--max-queue", 2 * STREAMS, "--stall-timeout-seconds", 60)
        script = self.folder / "script.json"
        script.write_text(json.dumps([{"answer": ANSWER}]))
        self.cluster.daemons.append(
            Daemon([BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", "demo-model",
                    "--script", script, "--router", router.link, "--hold-until", STREAMS, "--step-ms", STEP_MS]))
        wait_until(lambda: any(worker["ready"] for worker in router.workers()), "a ready worker")
        before = load.memory_bytes(router.process.pid)
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(self.stream(router)))
        thread.start()
        wait_until(lambda: router.metric("roost_router_active_requests") == STREAMS, f"{STREAMS} open streams")

        self.secret.write(self.authority.issue("second"))  # is seen by itself
        self.wait_for_server(router, "second")
        self.secret.write(self.authority.issue("third"))
        router.process.send_signal(signal.SIGHUP)
        self.wait_for_server(router, "third")
        for _ in range(20):
            router.process.send_signal(signal.SIGHUP)
        self.assertEqual(router.metric("roost_router_active_requests"), STREAMS, "the streams ended too early")

        thread.join()
        wrong = sum(load.text_of(load.events_of(answer)) != ANSWER for answer in answers)
        print(f"figure tls_reload_{STREAMS}_dropped_streams {wrong} streams")
        each = (load.memory_bytes(router.process.pid, "VmHWM") - before) / STREAMS
        print(f"figure tls_stream_bytes_each {each:.0f} bytes")
        self.assertLessEqual(each, MAX_STREAM_BYTES)
        self.assertEqual(len(answers), STREAMS)
        self.assertEqual(wrong, 0)
        for reason in ("timeout", "protocol"):
            self.assertEqual(router.metric("roost_router_tls_handshake_failures_total", reason=reason), 0)

    def stream(self, router):
        request = load.chat_request("demo-model", [{"role": "user", "content": "Count."}], max_tokens=500)
        requests = iter([request] * STREAMS)
        port = int(router.address.rsplit(":", 1)[1])
        return asyncio.run(load.run_clients(port, STREAMS, lambda: next(requests, None), router.tls))

    def test_a_bad_certificate_changes_nothing_until_a_good_one_comes(self):
        router = self.start_router()
        second = self.authority.issue("second")
        second.certificate.rename((self.secret.folder / "..data/tls.crt").resolve())  # the key is still the first's
        record = router.wait_for_log("could not reload, the old contents stay in use")
        self.assertIn("tls-key", record["error"])
        self.assertEqual(self.name_of_server(router), "first")
        second.key.rename((self.secret.folder / "..data/tls.key").resolve())
        self.wait_for_server(router, "second")
        self.assertGreater(router.metric("roost_router_tls_certificate_expiry_timestamp_seconds"), 1e9)

    def test_clients_show_certificates_where_the_router_asks(self):
        client = self.authority.issue("client", use="client")
        # Clients prove who they are, so that the router may listen beyond loopback.
        router = self.cluster.start_router("--tls-cert", self.secret.certificate, "--tls-key", self.secret.key,
                                           "--tls-client-ca", self.authority.certificate, http="0.0.0.0:0",
                                           tls=self.authority.client_context(client))
        self.assertTrue(router.url.startswith("https://0.0.0.0:"), router.url)
        status = [BIN / "roostctl", "status", "--admin", router.admin, "--ca-file", self.authority.certificate]
        asked = subprocess.run([*status, "--client-cert", client.certificate, "--client-key", client.key],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        refused = subprocess.run(status, capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("certificate", refused.stderr)

    def test_a_start_without_what_tls_needs_names_the_flag(self):
        for flags, name in ((["--tls-cert", self.secret.certificate], "tls-key"),
                            (["--tls-cert", self.secret.certificate, "--tls-key", self.authority.certificate], "tls-key"),
                            (["--tls-client-ca", self.authority.certificate], "tls-client-ca")):
            run = subprocess.run([BIN / "roost-router", "--http-address", "127.0.0.1:0", *FREE_PORTS, *flags],
                                 capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 78, run.stderr)
            self.assertIn(name, run.stderr)


if __name__ == "__main__":
    side_by_side.main(2)
