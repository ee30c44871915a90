"""Real workers that overlap, are rolled to new weights, or whose engine hangs."""

import ctypes
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest

from cluster import DEMO_MODEL, Cluster, text, wait_until

PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_DETACH = 17


class StoppedThread:
    """Stops one thread of another process, which runs with --core-dumps; its other threads continue."""

    def __init__(self, tid):
        self.tid = tid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def __enter__(self):
        if self.libc.ptrace(PTRACE_SEIZE, self.tid, None, None) != 0:
            raise unittest.SkipTest(f"this machine lets no process trace another: {os.strerror(ctypes.get_errno())}")
        self.libc.ptrace(PTRACE_INTERRUPT, self.tid, None, None)
        os.waitpid(self.tid, 0x40000000)  # __WALL
        return self

    def __exit__(self, *_):
        self.libc.ptrace(PTRACE_DETACH, self.tid, None, None)


def engine_thread(process):
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "engine":
            return int(task.name)
    raise AssertionError("no thread is called engine")


def other_weights(folder):
    """The demo model with one bit of one weight changed: a different model with the same shapes."""
    model = pathlib.Path(folder) / DEMO_MODEL.name
    shutil.copytree(DEMO_MODEL, model)
    with open(model / "model.safetensors", "r+b") as file:
        file.seek(-64, 2)
        byte = file.read(1)
        file.seek(-64, 2)
        file.write(bytes([byte[0] ^ 1]))
    return model


class NamesTest(unittest.TestCase):
    def test_a_second_worker_of_a_name_is_refused_until_the_first_one_has_left(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            first = cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            second = cluster.start_worker("worker-a")
            refused = second.wait_for_log("a router refuses this worker")
            self.assertIn("another process serves under the name worker-a", refused["reason"])
            self.assertEqual(refused["level"], "error")
            router.wait_for_log("worker refused")
            self.assertEqual(router.completion("Who?", max_tokens=4).status, 200)
            self.assertTrue(second.has_logged("worker started"))
            self.assertFalse(second.has_logged("worker ready"))
            self.assertEqual(first.stop(), 0)
            second.wait_for_log("worker ready")
            router.wait_for_workers(1)
            self.assertEqual(router.completion("Who?", max_tokens=4).status, 200)
            self.assertIsNone(router.process.poll())


class HungEngineTest(unittest.TestCase):
    def test_its_streams_go_on_elsewhere_and_it_serves_again_when_it_goes_on(self):
        with Cluster() as cluster:
            router = cluster.start_router("--stall-timeout-seconds", "1", "--policy", "round-robin")
            workers = {name: cluster.start_worker(name, "--core-dumps") for name in ("worker-a", "worker-b")}
            router.wait_for_workers(2)
            for i in range(4):  # so that the times of both workers' steps are known
                router.completion(text(100, i), max_tokens=4)
            prompts = [text(40, 100 + i) for i in range(4)]
            undisturbed = [router.completion(p, temperature=0, max_tokens=300, ignore_eos=True).text() for p in prompts]

            answers = {}

            def ask(i):
                answers[i] = router.completion(prompts[i], temperature=0, max_tokens=300, ignore_eos=True, stream=True)

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
            for thread in threads:
                thread.start()
            wait_until(lambda: all(w["running_requests"] for w in router.workers()), "requests on both workers")
            with StoppedThread(engine_thread(workers["worker-a"].process)):
                lost = router.wait_for_log("worker lost")
                self.assertEqual((lost["worker"], lost["reason"]), ("worker-a", "stalled"))
                for thread in threads:
                    thread.join()
                hung = [w for w in router.workers() if w["id"] == "worker-a"]
                self.assertTrue(all(not w["ready"] for w in hung), hung)
            self.assertEqual([answers[i].text() for i in range(len(prompts))], undisturbed)
            router.wait_for_workers(2)


class RollingUpgradeTest(unittest.TestCase):
    def test_the_last_worker_of_a_revision_keeps_its_answers_to_their_ends(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            router = cluster.start_router()
            # Longer than until the routers' next ping, and shorter than the answer.
            old = [cluster.start_worker(name, "--drain-timeout-seconds", "3") for name in ("worker-a", "worker-b")]
            router.wait_for_workers(2)
            whole = {"temperature": 0, "max_tokens": 3900, "ignore_eos": True}
            undisturbed = router.completion("Who?", **whole).text()
            answers = []
            asking = threading.Thread(target=lambda: answers.append(router.completion("Who?", stream=True, **whole)))
            asking.start()
            wait_until(lambda: any(w["running_requests"] for w in router.workers()), "an answer")
            new = cluster.start_worker("worker-c", model=other_weights(folder))
            new.wait_for_log("worker ready")
            for worker in old:
                worker.process.send_signal(signal.SIGTERM)
            asking.join()
            self.assertEqual(answers[0].text(), undisturbed)
            for worker in old:
                worker.stop()

    def test_what_the_last_worker_can_not_end_in_its_time_is_told_why(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            router = cluster.start_router()
            old = cluster.start_worker("worker-a", "--drain-timeout-seconds", "0", "--last-drain-seconds", "0")
            router.wait_for_workers(1)
            answers = []
            asking = threading.Thread(target=lambda: answers.append(
                router.completion("Who?", stream=True, max_tokens=4000, ignore_eos=True)))
            asking.start()
            wait_until(lambda: any(w["running_requests"] for w in router.workers()), "an answer")
            cluster.start_worker("worker-b", model=other_weights(folder)).wait_for_log("worker ready")
            self.assertEqual(old.stop(), 1)
            asking.join()
            errors = [event["error"]["message"] for event in answers[0].events if "error" in event]
            self.assertEqual(len(errors), 1, answers[0].body[-300:])
            self.assertIn("the model's weights were replaced", errors[0])

    def test_three_workers_rolled_to_other_weights_under_load_fail_nothing(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            new_model = other_weights(folder)
            router = cluster.start_router()
            names = ("worker-a", "worker-b", "worker-c")
            workers = {name: cluster.start_worker(name, "--drain-timeout-seconds", "60") for name in names}
            router.wait_for_workers(3)
            stopping = threading.Event()
            answers = []

            def load(seed):
                i = 0
                while not stopping.is_set():
                    i += 1
                    stream = i % 2 == 0
                    answers.append(router.completion(text(30, f"{seed} {i}"), max_tokens=12, stream=stream))

            threads = [threading.Thread(target=load, args=(seed,)) for seed in range(3)]
            for thread in threads:
                thread.start()
            for name in names:
                self.assertEqual(workers[name].stop(), 0)
                workers[name] = cluster.start_worker(name, model=new_model)
                workers[name].wait_for_log("worker ready")
                served = len(answers)
                wait_until(lambda: len(answers) > served + 6, "answers after the switch")
            stopping.set()
            for thread in threads:
                thread.join()
            for answer in answers:
                self.assertEqual(answer.status, 200, answer.body)
                self.assertFalse([e for e in answer.events if "error" in e], answer.body[-300:])
            fingerprints = {(a.events[0] if a.events else a.json())["system_fingerprint"] for a in answers}
            self.assertEqual(len(fingerprints), 2)
            self.assertEqual(router.request("GET", "/v1/models").json()["data"][0]["id"], "demo-model")
            # No worker serves the model now: it is unavailable, but not unknown.
            for worker in workers.values():
                worker.stop()
            away = router.completion("Who?", max_tokens=4)
            self.assertEqual(away.status, 503)
            self.assertIn("retry-after", away.headers)


if __name__ == "__main__":
    unittest.main()
