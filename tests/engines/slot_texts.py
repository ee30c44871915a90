"""Greedy texts through slots, disk and moves beside those of a fresh server of llama.cpp: equal, or they part where the fresh
server's two best lie close together. Started by llama_cpp.sh --texts N.

Two servers, each with a worker and a folder of slots, and more sessions than slots; now and then a server is killed. The fresh
server computes each prompt from nothing (cache_prompt off), as it went.
"""

import json
import pathlib
import random
import sys
import tempfile
import unittest

from llama_cpp_test import LlamaServer
from openai_test import Cluster, wait_until
from slots_test import VOCABULARY, posted

CLOSE = 1e-3
LENGTH = 12
COUNT = 500


def fresh(port, prompt, length):
    """The greedy tokens of a server that uses nothing from before, and how far the two best lie apart at each."""
    answer = posted(port, "/completion", {"prompt": prompt, "n_predict": length, "temperature": 0, "cache_prompt": False, "n_probs": 2,
                                          "return_tokens": True, "ignore_eos": True})
    gaps = [p["top_logprobs"][0]["logprob"] - p["top_logprobs"][1]["logprob"] for p in answer["completion_probabilities"]]
    return answer["tokens"], gaps


class SlotTexts(unittest.TestCase):
    def test_texts_are_those_of_a_fresh_server(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        base = ("--slots", "2", "--context", "8192", "--gguf", str(folder / "demo.gguf"))
        reference = self.started(LlamaServer(*base, "--cache-ram", "0"))
        cluster = self.enterContext(Cluster())
        router = cluster.start_router()
        servers = []
        for i in range(2):
            slots = folder / f"slots-{i}"
            slots.mkdir()
            servers.append(self.started(LlamaServer(*base, "--cache-ram", "4", "--slot-save-path", str(slots))))
            cluster.start_worker(f"box-{i}", "--engine", "llama.cpp", "--engine-url", f"http://127.0.0.1:{servers[i].port}",
                                 "--slot-directory", str(slots), "--slot-bytes", "256MB", "--slot-save-after", "0.2", model="")
        wait_until(lambda: [w["ready"] for w in router.workers()] == [True, True], "ready workers")
        draw = random.Random(7)
        sessions = [[draw.randrange(VOCABULARY) for _ in range(80)] for _ in range(10)]
        equal = close = cached = tokens = 0
        for turn in range(COUNT):
            if turn % 50 == 49:
                server = servers[turn // 50 % 2]
                server.kill()
                server.start()
                wait_until(lambda: all(w["state"] == "ready" for w in router.workers()), "that it is back")
            session = draw.choice(sessions)
            session += [draw.randrange(VOCABULARY) for _ in range(draw.randrange(10, 60))]
            answer = router.completion(session, max_tokens=LENGTH, temperature=0, ignore_eos=True, return_token_ids=True)
            self.assertEqual(answer.status, 200, answer.body)
            body = answer.json()
            ours = body["choices"][0]["token_ids"]
            theirs, gaps = fresh(reference.port, session, LENGTH)
            cached += body["usage"]["prompt_tokens_details"]["cached_tokens"]
            tokens += len(session)
            parted = next((i for i in range(LENGTH) if ours[i] != theirs[i]), None)
            equal += parted is None
            if parted is not None:
                self.assertLess(gaps[parted], CLOSE, (turn, parted, ours, theirs, gaps))
                close += 1
            session += ours
            if len(session) > 900:
                del session[80:]
        print(json.dumps({"texts": COUNT, "equal": equal, "parted_where_close": close, "found_share": round(cached / tokens, 3),
                          "on_disk": [w["disk_blocks"] for w in router.workers()]}))

    def started(self, server):
        self.addCleanup(server.kill)
        return server


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COUNT = int(sys.argv.pop())
    unittest.main()
