"""Traces of real daemons: a collector of ours gets the spans of router and worker, in one tree under the client's span."""

import http.server
import json
import threading
import unittest

from cluster import Cluster, wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT = "b7ad6b7169203331"


class Collector:
    """Takes OTLP/HTTP in JSON; `spans` maps names to spans, each with its service."""

    def __init__(self):
        self.spans = {}
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                for resource in body["resourceSpans"]:
                    attributes = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
                    for span in resource["scopeSpans"][0]["spans"]:
                        span["service"] = attributes["service.name"]["stringValue"]
                        collector.spans.setdefault(span["name"], []).append(span)
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class TracesTest(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.stop)
        self.cluster = Cluster()
        self.cluster.__enter__()
        self.addCleanup(self.cluster.__exit__, None, None, None)
        self.router = self.cluster.start_router("--otlp-endpoint", self.collector.url)
        self.cluster.start_worker("worker-a", "--otlp-endpoint", self.collector.url)
        self.router.wait_for_workers(1)

    def one(self, name):
        found = wait_until(lambda: self.collector.spans.get(name), f"a span '{name}'")
        self.assertEqual(len(found), 1)
        return found[0]

    def test_router_and_worker_continue_the_clients_trace(self):
        answer = self.router.request(
            "POST", "/v1/completions", {"model": "demo-model", "prompt": "The hens", "max_tokens": 4},
            {"traceparent": f"00-{TRACE}-{CLIENT}-01"})
        self.assertEqual(answer.status, 200)
        own, route, generate = self.one("text_completion demo-model"), self.one("route"), self.one("generate")
        parts = [self.one(name) for name in ("queue", "prefill", "decode")]
        for span in [own, route, generate, *parts]:
            self.assertEqual(span["traceId"], TRACE, span)
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]), span)
        self.assertEqual(own["parentSpanId"], CLIENT)
        self.assertEqual([route["parentSpanId"], generate["parentSpanId"]], [own["spanId"]] * 2)
        self.assertEqual({part["parentSpanId"] for part in parts}, {generate["spanId"]})
        self.assertEqual([own["service"], generate["service"]], ["roost-router", "roost-worker"])
        # One follows the other without a gap.
        self.assertEqual([part["startTimeUnixNano"] for part in parts[1:]],
                         [part["endTimeUnixNano"] for part in parts[:-1]])

    def test_a_request_without_a_trace_gets_one_and_an_untraced_one_does_not(self):
        body = {"model": "demo-model", "prompt": "The hens", "max_tokens": 1}
        self.router.request("POST", "/v1/completions", body, {"traceparent": f"00-{TRACE}-{CLIENT}-00"})
        self.router.request("POST", "/v1/completions", body)
        own = self.one("text_completion demo-model")
        self.assertNotEqual(own["traceId"], TRACE)
        self.assertNotIn("parentSpanId", own)
        self.assertEqual(self.one("generate")["traceId"], own["traceId"])


if __name__ == "__main__":
    unittest.main()
