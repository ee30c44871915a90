"""Workers out of service: an operator's roostctl commands against two routers that share two workers."""

import subprocess
import threading
import unittest

from cluster import BIN, Cluster, text, wait_until

PROMPT = text(60, "the prompt")


class CordonTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.first = self.cluster.start_router()
        self.other = self.cluster.start_router()
        self.links = f"{self.first.link},{self.other.link}"
        self.workers = {name: self.cluster.start_worker(name, "--router", self.links) for name in ("worker-a", "worker-b")}
        for router in (self.first, self.other):
            router.wait_for_workers(2)

    def roostctl(self, router, *words, code=0):
        told = subprocess.run([BIN / "roostctl", words[0], "--admin", router.admin, *words[1:]], capture_output=True,
                              text=True, check=False)
        self.assertEqual(told.returncode, code, f"{words}: {told.stdout} {told.stderr}")
        return told.stdout + told.stderr

    def state(self, router, worker):
        return {each["id"]: each["state"] for each in router.workers()}.get(worker)

    def wait_for_state(self, router, worker, state):
        wait_until(lambda: self.state(router, worker) == state, f"that {worker} is {state}")

    def answered_by(self, router, count=8):
        answers = [router.completion(text(40, f"{router.url} {i}"), max_tokens=1) for i in range(count)]
        self.assertEqual({answer.status for answer in answers}, {200})
        return {answer.headers["x-roost-worker"] for answer in answers}

    def test_one_command_takes_a_worker_out_of_service_for_every_router(self):
        self.assertEqual(self.roostctl(self.first, "cordon", "worker-a"),
                         "worker-a is cordoned; no request is left there\n")
        self.assertEqual(self.state(self.first, "worker-a"), "cordoned")
        self.wait_for_state(self.other, "worker-a", "cordoned")
        for router in (self.first, self.other):
            self.assertEqual(self.answered_by(router), {"worker-b"})
            self.assertRegex(self.roostctl(router, "status"), r"worker-a +demo-model +cordoned +exact ")
        wait_until(lambda: self.first.metric("roost_router_workers", state="cordoned") == 1, "that the metric tells of it")

        self.assertEqual(self.roostctl(self.other, "uncordon", "worker-a"), "worker-a takes requests\n")
        self.wait_for_state(self.first, "worker-a", "ready")
        self.assertEqual(self.answered_by(self.first, 20), {"worker-a", "worker-b"})

    def test_it_outlives_a_router_and_ends_with_the_worker(self):
        self.roostctl(self.first, "cordon", "worker-a")
        http, link = (url.split("//")[1] for url in (self.other.url, self.other.link))
        self.other.kill()
        again = self.cluster.start_router(http=http, link=f"tcp://{link}")
        again.wait_for_workers(2)
        self.assertEqual(self.state(again, "worker-a"), "cordoned")
        self.assertEqual(self.answered_by(again), {"worker-b"})

        self.workers["worker-a"].stop()
        self.cluster.start_worker("worker-a", "--router", self.links)
        self.wait_for_state(again, "worker-a", "ready")

    def test_a_drain_waits_for_the_requests_of_every_router(self):
        self.roostctl(self.first, "cordon", "worker-b")
        self.wait_for_state(self.other, "worker-b", "cordoned")
        body = {"model": "demo-model", "prompt": PROMPT, "temperature": 0, "max_tokens": 600, "ignore_eos": True}
        alone = self.first.request("POST", "/v1/completions", body).json()
        answers = []
        threads = [threading.Thread(target=lambda r=router: answers.append(r.request("POST", "/v1/completions", body)))
                   for router in (self.first, self.other)]
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(worker["running_requests"] for worker in self.first.workers()) == 2, "that both run")
        self.roostctl(self.first, "uncordon", "worker-b")
        told = self.roostctl(self.first, "drain", "worker-a")  # does not wait
        self.assertRegex(told, r"worker-a is cordoned; requests left there: [12] running")
        self.assertEqual(self.answered_by(self.other, 4), {"worker-b"})
        told = self.roostctl(self.other, "drain", "worker-a", "--wait", "60")
        self.assertIn("worker-a is cordoned; no request is left there", told)
        for thread in threads:
            thread.join()
        self.assertEqual([answer.json()["choices"][0]["text"] for answer in answers],
                         [alone["choices"][0]["text"]] * 2)
        self.assertEqual({answer.headers["x-roost-worker"] for answer in answers}, {"worker-a"})

    def test_a_drain_that_takes_too_long_exits_with_1_and_the_last_worker_may_be_cordoned(self):
        body = {"model": "demo-model", "prompt": PROMPT, "max_tokens": 900, "ignore_eos": True, "stream": True}
        self.roostctl(self.first, "cordon", "worker-b")
        thread = threading.Thread(target=lambda: self.first.request("POST", "/v1/completions", body))
        thread.start()
        wait_until(lambda: sum(worker["running_requests"] for worker in self.first.workers()) == 1, "that it runs")
        told = self.roostctl(self.first, "drain", "worker-a", "--wait", "0.1", code=1)
        self.assertIn("1 running", told)
        away = self.first.completion(PROMPT, max_tokens=1)
        self.assertEqual((away.status, away.json()["error"]["param"]), (503, "model"), away.body)
        thread.join()
        self.roostctl(self.first, "uncordon", "worker-b")
        self.assertEqual(self.first.completion(PROMPT, max_tokens=1).status, 200)

    def test_a_name_that_no_worker_has(self):
        for command in ("cordon", "uncordon", "drain"):
            self.assertIn("there is no worker 'nobody'", self.roostctl(self.first, command, "nobody", code=1))
            self.roostctl(self.first, command, code=64)


if __name__ == "__main__":
    unittest.main()
