"""Clients can use only a limited amount of memory: a router with 2 GiB of address space, or few file descriptors,
survives all of this, and serves others.

The long form with 10,000 requests of 32,000 tokens is ROOST_MEMORY_TEST_REQUESTS=10000 with the default budget.
"""

import json
import os
import pathlib
import select
import shutil
import socket
import struct
import tempfile
import unittest

from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, FREE_PORTS, Cluster, Router, wait_until

ADDRESS_SPACE_KIB = 2 << 20
BODY_BYTES = 8_000_000
BODIES = 300
PROMPT_TOKENS = 32_000
CONTEXT_TOKENS = 33_000
UNFINISHED_FRAMES = 200
FRAME_BYTES = 50 << 20
REQUESTS = int(os.environ.get("ROOST_MEMORY_TEST_REQUESTS", "300"))
PACE = 4  # requests that are sent at a time
# The short form fills a smaller budget: each request takes about 350 KB of the clients' share.
MEMORY_BYTES = (128 << 20) if REQUESTS < 1000 else None


DESCRIPTORS = 100
CONNECTIONS = 400


def start_bounded_router(cluster, *flags, limits=f"-v {ADDRESS_SPACE_KIB}"):
    command = [BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0",
               *FREE_PORTS, "--log-format", "json", "--log-level", "info", *flags]
    router = Router(["bash", "-c", f'ulimit {limits} && exec "$@"', "bash", *command])
    cluster.daemons.append(router)
    cluster.router = router
    return router


def head(size):
    return (f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            f"Content-Length: {size}\r\n\r\n").encode()


def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS)


class Client:
    """A connection that is left open."""

    def __init__(self, router):
        self.socket = connect(router.address)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it was refused, and the router soon stops reading what follows

    def status(self):
        """The status of the answer, if there is one."""
        if not select.select([self.socket], [], [], 0)[0]:
            return None
        try:
            line = self.socket.recv(64)
        except OSError:
            return None
        return int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else None

    def close(self):
        self.socket.close()


MORE, LAST = 3, 2  # a frame's flags, with a length of eight bytes


def part_head(flags, size):
    return struct.pack(">BQ", flags, size)


class Stranger:
    """Sends raw bytes to the workers' port, like a ZeroMQ peer up to its first message."""

    def __init__(self, router):
        self.socket = connect(router.link.removeprefix("tcp://"))
        self.send(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
        self.send(bytes([4, len(ready)]) + ready)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it was cut off

    def is_cut_off(self):
        try:
            while self.socket.recv(4096):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self):
        self.socket.close()


def resident_bytes(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class MemoryTest(unittest.TestCase):
    def assert_serves(self, router):
        self.assertIsNone(router.process.poll())
        answer = router.completion("Who comes", max_tokens=2)
        self.assertEqual(answer.status, 200, answer.body)

    def test_unfinished_bodies(self):
        with Cluster() as cluster:
            router = start_bounded_router(cluster)
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            begin = b"{" + b" " * (BODY_BYTES - 100_000)
            clients = []
            for _ in range(BODIES):
                client = Client(router)
                clients.append(client)
                client.send(head(BODY_BYTES))
                if client.status() is None:
                    client.send(begin)
            refused = int(router.metric("roost_router_requests_total", route="other", code="429"))
            print(f"{BODIES} unfinished bodies of 8 MB within 2 GiB of address space: {refused} refused")
            self.assertGreater(refused, BODIES // 2)
            self.assertLess(refused, BODIES)
            self.assert_serves(router)
            for client in clients:
                client.close()

    def test_long_prompts_that_wait(self):
        flags = ["--max-connections", "20000", "--max-queue", "20000", "--worker-queue-bound", "2"]
        if MEMORY_BYTES:
            flags += ["--memory", str(MEMORY_BYTES)]
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "demo-model"
            shutil.copytree(DEMO_MODEL, model)
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": CONTEXT_TOKENS}))
            router = start_bounded_router(cluster, *flags)
            cluster.start_worker("worker-a", "--kv-blocks", str(CONTEXT_TOKENS // 16 + 100), model=model)
            router.wait_for_workers(1)

            def refused_and_waiting():
                # The budget also refuses a body that is still arriving, before its route is known.
                refused = sum(
                    router.metric("roost_router_requests_total", route=route, code="429")
                    for route in ("completions", "other")
                )
                return int(refused), int(router.metric("roost_router_active_requests"))

            # No faster than they are read: the test is about the memory of waiting requests, not of reading.
            clients = []
            for number in range(REQUESTS):
                clients.append(self.ask(router, number))
                if number % PACE == PACE - 1:
                    wait_until(lambda least=number - PACE: sum(refused_and_waiting()) > least, "that they are read")
            refused, waiting = refused_and_waiting()
            print(f"{REQUESTS} requests of {PROMPT_TOKENS} tokens: {waiting} wait, {refused} refused")
            self.assertGreater(waiting, 10)
            self.assertGreater(refused, 10)
            for client in clients:
                client.close()
            wait_until(lambda: router.metric("roost_router_active_requests") == 0, "that all clients' requests end")
            self.assert_serves(router)

    def test_unfinished_messages_on_the_port_for_workers(self):
        """Parts of an endless message, and endless frames: libzmq would keep them."""
        with Cluster() as cluster:
            router = start_bounded_router(cluster)
            strangers = [Stranger(router) for _ in range(UNFINISHED_FRAMES)]
            for stranger in strangers[:4]:
                for _ in range(40):  # 2 GB from each, if the router read it
                    stranger.send(part_head(MORE, FRAME_BYTES) + b"\1" * FRAME_BYTES)
                self.assertTrue(stranger.is_cut_off())
            for stranger in strangers[4:]:
                stranger.send(part_head(LAST, FRAME_BYTES) + b"\1" * (FRAME_BYTES // 50))
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            self.assert_serves(router)
            resident = resident_bytes(router.process.pid)
            print(f"{UNFINISHED_FRAMES} unfinished messages on the port for workers: {resident >> 20} MB resident")
            self.assertLess(resident, 300 << 20)
            for stranger in strangers:
                stranger.close()

    def test_more_connections_than_descriptors(self):
        """On both ports, repeatedly: libzmq ends the process if it gets no descriptor for a connection."""
        with Cluster() as cluster:
            router = start_bounded_router(cluster, limits=f"-n {DESCRIPTORS}")
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            for _ in range(3):
                # A connection waits in the kernel until it is accepted, so opening these does not depend on the router.
                strangers = [connect(router.link.removeprefix("tcp://")) for _ in range(CONNECTIONS)]
                clients = [connect(router.address) for _ in range(CONNECTIONS)]
                self.assertIsNone(router.process.poll())
                for connection in strangers + clients:
                    connection.close()
                # It refuses clients until it has read that these are gone.
                wait_until(lambda: router.completion("Who", max_tokens=1).status != 429, "that there is room")
                self.assert_serves(router)
            self.assertEqual([worker["id"] for worker in router.workers() if worker["ready"]], ["worker-a"])

    def ask(self, router, number):
        prompt = [(number + i) % 2000 for i in range(PROMPT_TOKENS)]
        body = json.dumps({"model": "demo-model", "prompt": prompt, "max_tokens": 1}, separators=(",", ":")).encode()
        client = Client(router)
        client.send(head(len(body)) + body)
        return client


if __name__ == "__main__":
    unittest.main()
