"""The daemons' messages to a service manager over NOTIFY_SOCKET: ready when they serve, alive while their loops turn,
and that they stop.
"""

import os
import pathlib
import signal
import socket
import tempfile
import unittest

from cluster import DEADLINE_SECONDS, Cluster, wait_until


class Manager:
    """The manager's end of the socket, whose name the daemons find in their environment."""

    def __init__(self, watchdog_seconds=None):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        path = str(pathlib.Path(self.folder.name) / "notify")
        self.socket.bind(path)
        self.variables = {"NOTIFY_SOCKET": path}
        if watchdog_seconds is not None:
            self.variables["WATCHDOG_USEC"] = str(int(watchdog_seconds * 1e6))

    def __enter__(self):
        os.environ.update(self.variables)
        return self

    def __exit__(self, *_):
        for name in self.variables:
            del os.environ[name]
        self.socket.close()
        self.folder.cleanup()

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def wait_for(self, name):
        """The next message with this variable."""
        while True:
            message = self.next()
            if name in message:
                return message


class ServiceTest(unittest.TestCase):
    def test_a_router_is_ready_when_it_serves_and_says_that_it_stops(self):
        with Manager() as manager, Cluster() as cluster:
            router = cluster.start_router()
            self.assertEqual(manager.next(), {"READY": "1", "STATUS": "serves"})
            self.assertEqual(router.request("GET", "/health").status, 200)
            self.assertEqual(router.stop(), 0)
            self.assertEqual(manager.next(), {"STOPPING": "1", "STATUS": "drains"})

    def test_a_worker_is_ready_once_its_model_is_loaded_and_says_whether_it_serves(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            router.process.send_signal(signal.SIGSTOP)  # it takes connections, and answers none
            with Manager() as manager:
                worker = cluster.start_worker("a")
                self.assertEqual(manager.next(), {"READY": "1", "STATUS": "waits for a router"})
                router.process.send_signal(signal.SIGCONT)
                self.assertEqual(manager.next(), {"STATUS": "serves demo-model"})
                self.assertEqual(worker.stop(), 0)
                self.assertEqual(manager.next(), {"STOPPING": "1", "STATUS": "drains"})

    def test_a_signal_while_a_worker_waits_for_a_router_ends_it(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            router.process.send_signal(signal.SIGSTOP)
            with Manager() as manager:
                worker = cluster.start_worker("a")
                manager.wait_for("READY")
                self.assertEqual(worker.stop(), 0)
                self.assertIn("STOPPING", manager.next())
            router.process.send_signal(signal.SIGCONT)

    def test_daemons_say_that_they_are_alive(self):
        with Manager(watchdog_seconds=2) as manager, Cluster() as cluster:
            cluster.start_router()
            for _ in range(2):
                self.assertEqual(manager.wait_for("WATCHDOG"), {"WATCHDOG": "1"})
        with Cluster() as cluster:
            router = cluster.start_router()
            with Manager(watchdog_seconds=2) as manager:
                cluster.start_worker("a")
                router.wait_for_workers(1)
                for _ in range(2):
                    self.assertEqual(manager.wait_for("WATCHDOG"), {"WATCHDOG": "1"})

    def test_without_a_watchdog_nobody_hears_of_life(self):
        with Manager() as manager, Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("a")
            router.wait_for_workers(1)
            for daemon in reversed(cluster.daemons):
                self.assertEqual(daemon.stop(), 0)
            manager.socket.settimeout(0)
            heard = []
            try:
                while True:
                    heard.append(manager.next())
            except BlockingIOError:
                pass
            self.assertEqual([message for message in heard if "WATCHDOG" in message], [])
            self.assertEqual(len([message for message in heard if "READY" in message]), 2)

    def test_a_manager_that_is_gone_is_logged_and_stops_nothing(self):
        os.environ["NOTIFY_SOCKET"] = "/nowhere/notify"
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")
        with Cluster() as cluster:
            router = cluster.start_router()
            message = "the service manager can not be told of the daemon's state"
            wait_until(lambda: router.has_logged(message), message)
            self.assertEqual(router.request("GET", "/health").status, 200)
            self.assertEqual(router.stop(), 0)


if __name__ == "__main__":
    unittest.main()
