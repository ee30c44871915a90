"""An HTTP proxy before a router that keeps what a client sent and with which status it was answered."""

import http.client
import http.server
import json
import threading
import urllib.parse
from typing import NamedTuple

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
BODY_SECONDS = 120


class Exchange(NamedTuple):
    method: str
    path: str
    headers: dict
    body: dict | None
    status: int


class RecordingProxy:
    """Passes each request to the router at `url` and streams its answer. `exchanges` is in the order of the answers."""

    def __init__(self, url):
        self.target = urllib.parse.urlparse(url).netloc
        self.exchanges = []
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def of(self, path):
        """The exchanges with this path, whatever its query."""
        with self.lock:
            return [e for e in self.exchanges if urllib.parse.urlparse(e.path).path == path]

    def _handler(proxy):
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def _pass(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
                connection = http.client.HTTPConnection(proxy.target, timeout=BODY_SECONDS)
                try:
                    connection.request(self.command, self.path, raw or None, headers)
                    response = connection.getresponse()
                    body = json.loads(raw) if raw else None
                    with proxy.lock:
                        proxy.exchanges.append(Exchange(self.command, self.path, headers, body, response.status))
                    self._answer(response)
                finally:
                    connection.close()

            # Ends with the connection (HTTP/1.0), so that a stream needs no length.
            def _answer(self, response):
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in HOP_BY_HOP:
                        self.send_header(name, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                while piece := response.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

            do_GET = do_POST = do_HEAD = _pass

        return Handler
