"""Pairs of workers between which blocks travel, as operators see them: `roostctl transfers`, GET /admin/v1/transfers and
`roostctl doctor`, of pairs that work and of pairs that do not. With keys of the link and addresses beyond loopback in a
network namespace of their own, where a filter closes the port of a source, and one worker's clock is wrong."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import side_by_side
from cluster import BIN, ROOT, Cluster, text, wait_until
from link_keys import LinkKeys

sys.path.insert(0, str(ROOT / "tests/engines"))
from free_ports import free_port  # noqa: E402

ROUTER, A, B = "10.213.77.1", "10.213.77.11", "10.213.77.12"
# A clock that is wrong by SKEW seconds, put in front of the C library's.
SKEWED_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec* to) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, to);
  if (id == CLOCK_REALTIME) to->tv_sec += atol(getenv("SKEW"));
  return result;
}
"""


def roostctl(command, router, *flags):
    return subprocess.run([BIN / "roostctl", command, "--admin", router.admin, *flags], capture_output=True, text=True, check=False)


def warm(router, prompt, *flags):
    told = roostctl("warm", router, "--model", "demo-model", "--prompt", prompt, *flags)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def pairs(router):
    told = roostctl("transfers", router, "--json")
    assert told.returncode == 0, told.stderr
    return {(pair["from"], pair["to"]): pair for pair in json.loads(told.stdout)["pairs"]}


def pair_when(router, ends, condition, what):
    """The pair once it fulfils the condition: the router's view is remade a few times a second."""
    return wait_until(lambda: (found := pairs(router).get(ends)) and condition(found) and found, what)


def doctor(router, *flags):
    """What it finds of transfers, and of counters that should be zero."""
    told = subprocess.run([BIN / "roostctl", "doctor", "--router", router.url, "--admin", router.admin, "--metrics", router.metrics,
                           "--no-requests", "--json", *flags], capture_output=True, text=True, check=False)
    return [finding for finding in json.loads(told.stdout)["findings"] if finding["check"] in ("transfer", "metrics")]


HELD = []


def closed_port():
    """Nobody listens there, and nobody else can take it meanwhile."""
    HELD.append(socket.socket())
    HELD[-1].bind(("127.0.0.1", 0))
    return HELD[-1].getsockname()[1]


def tearDownModule():
    for held in HELD:
        held.close()


class PairsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()

    def start(self, *flags_of_a):
        self.cluster.start_worker("worker-a", *flags_of_a)
        self.cluster.start_worker("worker-b")
        self.router.wait_for_workers(2)

    def test_a_pull_makes_a_pair_with_its_rate(self):
        self.start()
        told = roostctl("transfers", self.router)
        self.assertEqual((told.returncode, told.stdout.splitlines()[-1]), (0, "(no blocks have travelled)"))
        for number in range(2):
            prompt = text(400, f"{self.id()} {number}")
            warm(self.router, prompt, "--workers", "worker-a")
            self.assertIn("pulled from worker-a", warm(self.router, prompt, "--workers", "worker-b"))
        pair = pair_when(self.router, ("worker-a", "worker-b"), lambda found: found["done"] == 2, "both pulls")
        self.assertEqual((pair["model"], pair["failed"], pair["in_flight"], pair["paused_seconds"], pair["last_outcome"]),
                         ("demo-model", 0, 0, 0, "complete"))
        self.assertGreater(pair["bytes_per_second"], 1e6)
        self.assertTrue(0 <= pair["start_seconds"] < 1, pair)
        self.assertNotIn(("worker-b", "worker-a"), pairs(self.router), "each direction is a pair of its own")
        table = roostctl("transfers", self.router).stdout
        self.assertRegex(table, r"\nworker-a +worker-b +demo-model +\d+\.\d [MG]B/s +\d+\.\d ms +0 +2 +0 +-  complete\n")
        self.assertEqual(doctor(self.router), [])

    def test_a_source_that_can_not_be_reached_is_named(self):
        self.start("--transfer-address", f"127.0.0.1:{free_port()}", "--transfer-advertise", f"127.0.0.1:{closed_port()}")
        prompt = text(400, self.id())
        warm(self.router, prompt, "--workers", "worker-a")
        for number in range(6):  # the last pause is half a minute
            other = text(100, f"{self.id()} {number}")
            warm(self.router, other, "--workers", "worker-a")
            self.assertIn("none pulled from worker-a: broken", warm(self.router, other, "--workers", "worker-b"))
        pair = pair_when(self.router, ("worker-a", "worker-b"), lambda found: found["failed"] == 6, "six failures")
        self.assertEqual((pair["done"], pair["bytes_per_second"], pair["last_outcome"]), (0, None, "broken"))
        self.assertTrue(0 < pair["paused_seconds"] <= 60, pair)
        self.assertRegex(roostctl("transfers", self.router).stdout, r"\nworker-a +worker-b +demo-model +- +- +0 +0 +6 +\d+ s  broken \(unreachable\)\n")
        self.assertEqual(pair["last_cause"], "unreachable")
        self.assertEqual(self.router.wait_for_log("a worker could not fetch blocks")["cause"], "unreachable")
        [finding] = doctor(self.router)
        self.assertEqual((finding["severity"], finding["subject"]), ("warning", "worker-b from worker-a"))
        self.assertIn("none of 6 fetches", finding["what"])
        self.assertIn("--transfer-address", finding["advice"])

    def test_a_worker_that_leaves_takes_its_pairs_along(self):
        self.start()
        prompt = text(400, self.id())
        warm(self.router, prompt, "--workers", "worker-a")
        warm(self.router, prompt, "--workers", "worker-b")
        pair_when(self.router, ("worker-a", "worker-b"), lambda found: found["done"] == 1, "the pull")
        self.cluster.daemons[1].kill()
        wait_until(lambda: not pairs(self.router), "that the lost worker's pairs are forgotten")

    def test_without_a_router_it_says_so(self):
        told = subprocess.run([BIN / "roostctl", "transfers", "--admin", f"http://127.0.0.1:{closed_port()}"], capture_output=True,
                              text=True, check=False)
        self.assertEqual((told.returncode, told.stdout), (1, ""))
        self.assertIn("roostctl transfers: ", told.stderr)


class BeyondLoopbackTest(unittest.TestCase):
    def test_filters_and_clocks_are_seen(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        script = "ip link set lo up; " + "".join(f"ip address add {address}/32 dev lo; " for address in (ROUTER, A, B))
        here = [sys.executable, pathlib.Path(__file__).resolve(), "--in-namespace"]
        done = subprocess.run(["unshare", "--net", "--mount", "sh", "-ec", script + 'exec "$@"', "sh", *here], capture_output=True,
                              text=True, timeout=300, check=False)
        if "SKIPPED" in done.stdout:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout)


def skewed_clock(folder):
    source, library = pathlib.Path(folder) / "clock.c", pathlib.Path(folder) / "clock.so"
    source.write_text(SKEWED_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def filtered(rules):
    return subprocess.run(["nft", "-f", "-"], input=rules, text=True, capture_output=True, check=False).returncode == 0


def in_namespace():
    if not filtered("table inet probe\ndelete table inet probe\n"):
        print("SKIPPED: no filters here")
        return
    with Cluster() as cluster, LinkKeys("worker-a", "worker-b", "worker-c") as keys, tempfile.TemporaryDirectory() as folder:
        router = cluster.start_router(*keys.router(), link=f"tcp://{ROUTER}:0")
        cluster.start_worker("worker-a", *keys.worker("worker-a"), "--transfer-address", "0.0.0.0:7100",
                             "--transfer-advertise", f"{A}:7100")
        cluster.start_worker("worker-b", *keys.worker("worker-b"), "--transfer-address", f"{B}:7102")
        router.wait_for_workers(2)

        def pull(name, *flags):
            prompt = text(200, name)
            warm(router, prompt, "--workers", "worker-a")
            return warm(router, prompt, "--workers", "worker-b", *flags)

        print(pull("encrypted"))
        pair_when(router, ("worker-a", "worker-b"), lambda found: found["done"] == 1, "the encrypted pull")

        # A firewall between them: nothing of the port comes through.
        wall = f"chain input {{\ntype filter hook input priority 0;\nip daddr {A} tcp dport 7100 drop\n}}"
        assert filtered(f"table inet wall {{\n{wall}\n}}\n")
        wait_until(lambda: "broken" in pull(f"filtered {os.urandom(4).hex()}"), "that the open connection is given up")
        for number in range(5):
            assert "none pulled from worker-a: broken" in pull(f"filtered {number}"), number
        pair_when(router, ("worker-a", "worker-b"), lambda found: found["failed"] >= 6, "the failures")
        print(roostctl("transfers", router).stdout)
        [finding] = doctor(router)
        print(json.dumps(finding, indent=1))
        assert finding["severity"] == "note" and "nothing answers" in finding["what"], finding

        # It goes: the pair is tried again after its pause, and is well.
        assert filtered("delete table inet wall\n")
        wait_until(lambda: "pulled from worker-a in" in pull(f"open {os.urandom(4).hex()}"), "that blocks travel again")
        pair_when(router, ("worker-a", "worker-b"), lambda found: found["last_outcome"] == "complete", "the pair's recovery")
        assert doctor(router) == [], doctor(router)

        # A source whose clock is an hour fast takes every ticket for one that has ended.
        os.environ.update(LD_PRELOAD=str(skewed_clock(folder)), SKEW="3600")
        fast = cluster.start_worker("worker-c", *keys.worker("worker-c"), "--transfer-address", f"{B}:7101")
        del os.environ["LD_PRELOAD"]
        router.wait_for_workers(3)
        for number in range(3):
            prompt = text(200, f"clocks {number}")
            warm(router, prompt, "--workers", "worker-c")
            assert "none pulled from worker-c: broken" in warm(router, prompt, "--workers", "worker-b"), number
        pair_when(router, ("worker-c", "worker-b"), lambda found: found["failed"] == 3, "the refusals")
        print(roostctl("transfers", router).stdout)
        metrics = fast.wait_for_log("worker ready")["metrics"]
        findings = {finding["subject"]: finding for finding in doctor(router, "--worker-metrics", metrics)}
        print(json.dumps(findings, indent=1))
        assert "clocks" in findings["worker-b from worker-c"]["advice"], findings
        assert any("clock" in finding["advice"] for finding in findings.values() if finding["check"] == "metrics"), findings


if __name__ == "__main__":
    if sys.argv[1:] == ["--in-namespace"]:
        in_namespace()
    else:
        side_by_side.main(2)
