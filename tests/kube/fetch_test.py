"""The script by which an init container fetches a model, run by sh against a store on loopback: archives, single files, a
hub, a bucket; with and without a token, cut off and changed."""

import hashlib
import http.server
import io
import json
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


COMMIT = "9c1e0f" + "0" * 34
# Small files have git's name, large ones a sha256 too; a model's other formats and folders are nobody's here.
HUB_FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": bytes(range(256)) * 5000,
    "consolidated.safetensors": b"the same in another form",
    "pytorch_model.bin": b"the same in a third",
    "onnx/config.json": b"{}",
}


def hub_entry(name, content):
    entry = {"type": "file", "oid": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(), "size": len(content)}
    if name.endswith((".safetensors", ".bin")):
        entry["lfs"] = {"oid": digest(content), "size": len(content), "pointerSize": 134}
        entry["oid"] = hashlib.sha1(b"the pointer").hexdigest()
    return {**entry, "path": name}


class Store:
    """Serves the archive and its files, and a hub's model; asks for a token if it has one, and cuts `cuts` answers off in
    their middle. With `has_ranges` it gives the rest of a file that is asked for from a byte on."""

    def __init__(self):
        self.token, self.cuts, self.asked, self.sent = "", 0, [], 0
        self.has_ranges = True
        self.files = {"/model.tar": ARCHIVE, **{f"/folder/{name}": content for name, content in FILES.items()}}
        self.set_hub(HUB_FILES)
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                store.asked.append(self.path)
                content = store.files.get(self.path)
                allowed = not store.token or self.headers.get("Authorization") == f"Bearer {store.token}"
                if content is None or not allowed:
                    self.send_error(404 if allowed else 401)
                    return
                begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0]) if store.has_ranges else 0
                self.send_response(206 if begin else 200)
                if begin:
                    self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
                    content = content[begin:]
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if store.cuts:
                    store.cuts -= 1
                    content = content[: len(content) // 2]
                store.sent += len(content)
                self.wfile.write(content)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def set_hub(self, files):
        listed = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "onnx"}]
        listed += [hub_entry(name, content) for name, content in files.items()]
        model = json.dumps({"id": "team/my-model", "sha": COMMIT, "siblings": []})
        self.files |= {f"/api/models/team/my-model/revision/{revision}": model.encode() for revision in ("main", "9c1e0f")}
        self.files[f"/api/models/team/my-model/tree/{COMMIT}?recursive=true"] = json.dumps(listed).encode()
        self.files |= {f"/team/my-model/resolve/{COMMIT}/{name}": content for name, content in files.items()}

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

    def fetch(self, path="/model.tar", sha256="", files="", token="", path_variable=None):
        """Runs the script as the container does, but for its two folders and its pauses; its exit code."""
        script = SCRIPT.replace("/tmp/", f"{self.scratch}/").replace("cd /models", f"cd {self.disk}").replace("sleep $pause", ":")
        url = path if "://" in path else self.store.url + path
        values = {"MODEL_URL": url, "MODEL_SHA256": sha256, "MODEL_FILES": files, "MODEL_TOKEN": token,
                  "HF_ENDPOINT": self.store.url, "PATH": path_variable or os.environ["PATH"]}
        done = subprocess.run(["sh", "-ec", script], env=values, capture_output=True, text=True, timeout=60)
        self.errors = done.stderr
        return done.returncode

    def on_disk(self):
        return {str(file.relative_to(self.disk / "model")): file.read_bytes()
                for file in (self.disk / "model").rglob("*") if file.is_file()}

    def assert_whole(self):
        self.assertEqual(self.on_disk(), FILES)
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
            for file in (self.disk / "fetched", *(self.disk / "model" / name for name in FILES)):
                file.unlink()

    def test_what_is_cut_off_or_changed_is_not_taken_for_whole(self):
        self.store.cuts = 1
        self.assertNotEqual(self.fetch(sha256=digest(ARCHIVE)), 0)
        self.assertFalse((self.disk / "fetched").exists())
        self.assertEqual(self.fetch(sha256=digest(ARCHIVE)), 0, self.errors)
        self.assert_whole()
        self.assertNotEqual(self.fetch(sha256="0" * 64), 0)
        self.assertIn("not the archive of MODEL_SHA256", self.errors)
        self.assertNotEqual(self.fetch("/folder", files="0" * 64 + "  config.json\n"), 0)
        self.assertFalse((self.disk / "fetched").exists())

    def test_a_file_that_is_cut_off_goes_on_where_it_ended(self):
        self.store.cuts = 3
        self.assertEqual(self.fetch("/folder", files=LIST), 0, self.errors)
        self.assert_whole()
        self.assertEqual(self.store.sent, sum(map(len, FILES.values())), "nothing came twice")

    def test_a_store_without_ranges_begins_a_file_anew(self):
        self.store.has_ranges = False
        self.store.cuts = 1
        self.assertEqual(self.fetch("/folder", files=LIST), 0, self.errors)
        self.assert_whole()

    def test_a_start_that_was_ended_keeps_what_had_come(self):
        largest_first = "".join(reversed(LIST.splitlines(keepends=True)))
        self.store.cuts = 100
        self.assertNotEqual(self.fetch("/folder", files=largest_first), 0)
        self.assertIn("can not be fetched", self.errors)
        self.store.cuts = self.store.sent = 0
        self.assertEqual(self.fetch("/folder", files=largest_first), 0, self.errors)
        self.assert_whole()
        self.assertLess(self.store.sent, sum(map(len, FILES.values())) / 4)

    def test_a_hub_tells_files_and_checksums(self):
        for url in ("hf://team/my-model", "hf://team/my-model@9c1e0f"):
            for _ in range(2):
                asked = len(self.store.asked)
                self.assertEqual(self.fetch(url), 0, self.errors)
            self.assertEqual(len(self.store.asked), asked, "it is there")
            wanted = ("config.json", "tokenizer.json", "model.safetensors")
            self.assertEqual(self.on_disk(), {name: HUB_FILES[name] for name in wanted})
        changed = f"/team/my-model/resolve/{COMMIT}/tokenizer.json"
        self.store.files[changed] = b'{"version": "1.1"}'
        for file in ("fetched", "model/tokenizer.json"):
            (self.disk / file).unlink()
        self.assertNotEqual(self.fetch("hf://team/my-model"), 0)
        self.assertIn("tokenizer.json is not the file of its checksum", self.errors)
        self.assertNotEqual(self.fetch("hf://team/nowhere"), 0)
        self.assertIn("404", self.errors)

    def test_only_what_changed_of_a_model_is_fetched_again(self):
        self.assertEqual(self.fetch("hf://team/my-model"), 0, self.errors)
        self.store.set_hub({**HUB_FILES, "config.json": b'{"model_type": "qwen3", "rope_theta": 1}'})
        self.store.asked.clear()
        self.assertEqual(self.fetch("hf://team/my-model@9c1e0f"), 0, self.errors)
        self.assertEqual([path.rsplit("/", 1)[1] for path in self.store.asked if "/resolve/" in path], ["config.json"])

    def test_a_bucket_is_read_by_rclone(self):
        programs = pathlib.Path(self.scratch) / "bin"
        programs.mkdir()
        self.assertNotEqual(self.fetch("s3://bucket/my-model", path_variable=self.without("rclone", programs)), 0)
        self.assertIn("needs rclone", self.errors)
        fake = programs / "rclone"
        fake.write_text('#!/bin/sh\necho "$@" >model/arguments\n')
        fake.chmod(0o755)
        self.assertEqual(self.fetch("s3://bucket/my-model", path_variable=str(programs)), 0, self.errors)
        arguments = self.on_disk()["arguments"].decode().split()
        self.assertEqual(arguments[-3:], ["sync", ":s3,env_auth=true,provider=AWS:bucket/my-model", "model"])
        self.assertEqual(self.fetch("gs://bucket/my-model", path_variable=str(programs)), 0, self.errors)
        self.assertIn(":gcs,env_auth=true:bucket/my-model", self.on_disk()["arguments"].decode())

    @staticmethod
    def without(name, folder):
        """A PATH whose one folder links the programs that the script calls, but not this one."""
        for program in ("sh", "curl", "cat", "cut", "find", "grep", "mkdir", "rm", "sed", "sha256sum", "tar", "tee"):
            if program != name:
                (folder / program).symlink_to(shutil.which(program))
        return str(folder)

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
