"""The script by which an init container fetches a model, run by sh against a store on loopback: archives and single files,
with and without a token, cut off and changed."""

import hashlib
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest

from manifests import DEPLOY, rendered, variables

SCRIPT = (DEPLOY / "helm/roost/fetch-model.sh").read_text()
FILES = {"config.json": b'{"model_type": "llama"}', "weights/part-1.safetensors": bytes(range(256)) * 4000}
TOKEN = "a-token-of-the-store"


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = archive()


def digest(content):
    return hashlib.sha256(content).hexdigest()


LIST = "".join(f"{digest(content)}  {name}\n" for name, content in FILES.items())


class Store:
    """Serves the archive and its files; asks for a token if it has one, and cuts `cuts` answers off in their middle."""

    def __init__(self):
        self.token, self.cuts, self.asked = "", 0, []
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                store.asked.append(self.path)
                content = ARCHIVE if self.path == "/model.tar" else FILES.get(self.path.removeprefix("/folder/"))
                allowed = not store.token or self.headers.get("Authorization") == f"Bearer {store.token}"
                if content is None or not allowed:
                    self.send_error(404 if allowed else 401)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if store.cuts:
                    store.cuts -= 1
                    content = content[: len(content) // 2]
                self.wfile.write(content)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@unittest.skipUnless(shutil.which("curl"), "needs curl")
class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.disk = pathlib.Path(folder.name) / "models"
        self.scratch = pathlib.Path(folder.name) / "tmp"
        self.disk.mkdir()
        self.scratch.mkdir()
        self.store = Store()
        self.addCleanup(self.store.close)

    def fetch(self, path="/model.tar", sha256="", files="", token=""):
        """Runs the script as the container does, but for its two folders; its exit code."""
        script = SCRIPT.replace("/tmp/", f"{self.scratch}/").replace("cd /models", f"cd {self.disk}")
        values = {"MODEL_URL": self.store.url + path, "MODEL_SHA256": sha256, "MODEL_FILES": files, "MODEL_TOKEN": token}
        done = subprocess.run(["sh", "-ec", script], env={"PATH": os.environ["PATH"], **values}, capture_output=True, text=True,
                              timeout=60)
        self.errors = done.stderr
        return done.returncode

    def assert_whole(self):
        found = {str(file.relative_to(self.disk / "model")): file.read_bytes()
                 for file in (self.disk / "model").rglob("*") if file.is_file()}
        self.assertEqual(found, FILES)
        self.assertEqual({file.name for file in self.disk.iterdir()}, {"fetched", "model"}, "no archive beside the folder")

    def test_an_archive_is_fetched_once(self):
        for _ in range(2):
            self.assertEqual(self.fetch(sha256=digest(ARCHIVE)), 0, self.errors)
            self.assert_whole()
        self.assertEqual(self.store.asked, ["/model.tar"])

    def test_files_of_a_hub_are_fetched_once(self):
        for _ in range(2):
            self.assertEqual(self.fetch("/folder", files=LIST), 0, self.errors)
            self.assert_whole()
        self.assertEqual(len(self.store.asked), len(FILES))

    def test_a_store_may_ask_for_a_token(self):
        self.store.token = TOKEN
        for path, of in (("/model.tar", {"sha256": digest(ARCHIVE)}), ("/folder", {"files": LIST})):
            self.assertNotEqual(self.fetch(path, **of), 0)
            self.assertIn("401", self.errors)
            self.assertFalse((self.disk / "fetched").exists())
            self.assertEqual(self.fetch(path, token=TOKEN, **of), 0, self.errors)
            self.assert_whole()
            (self.disk / "fetched").unlink()

    def test_what_is_cut_off_or_changed_is_not_taken_for_whole(self):
        for path, of in (("/model.tar", {"sha256": digest(ARCHIVE)}), ("/folder", {"files": LIST})):
            self.store.cuts = 1
            self.assertNotEqual(self.fetch(path, **of), 0)
            self.assertFalse((self.disk / "fetched").exists())
            self.assertEqual(self.fetch(path, **of), 0, self.errors)
            self.assert_whole()
            (self.disk / "fetched").unlink()
        self.assertNotEqual(self.fetch(sha256="0" * 64), 0)
        self.assertIn("not the archive of MODEL_SHA256", self.errors)
        self.assertNotEqual(self.fetch("/folder", files="0" * 64 + "  config.json\n"), 0)
        self.assertFalse((self.disk / "fetched").exists())

    def test_other_weights_take_the_place_of_the_old(self):
        self.assertEqual(self.fetch(sha256=digest(ARCHIVE)), 0, self.errors)
        self.assertEqual(self.fetch("/folder", files=f"{digest(FILES['config.json'])}  config.json\n"), 0, self.errors)
        self.assertEqual([file.name for file in (self.disk / "model").iterdir()], ["config.json"])

    def test_the_manifests_run_this_script(self):
        pod = next(d for d in rendered("overlays/cpu") if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]
        (container,) = pod["initContainers"]
        self.assertEqual(container["args"], [SCRIPT])
        token = variables(container)["MODEL_TOKEN"]["secretKeyRef"]
        self.assertEqual(token, {"name": "roost-model-token", "key": "token", "optional": True})


if __name__ == "__main__":
    unittest.main()
