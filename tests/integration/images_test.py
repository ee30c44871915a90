"""The container images: built by buildah, without a daemon, from deploy/container/Containerfile, on the base that
base.sh makes in place of Debian's image. Two stages are replaced, because they would compile everything again: the
programs are those of this build. Programs in the images run as their user does, without rights and on a root that is
read-only; where podman can run, it runs them too, as the page and deploy/compose.yaml do. ROOST_IMAGES_STORE names a
folder that keeps base and layers for the next run.
"""

import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import yaml
from cluster import BIN, DEADLINE_SECONDS, FREE_PORTS, ROOT, Cluster, Daemon, Router
from debian_root import inside, why_not

CONTAINER = ROOT / "deploy/container"
BACKEND = BIN / "libroost_cuda.so"
NOT_HERE = why_not("buildah")
BASE = "localhost/debian:12"
MOST_MEGABYTES = 130  # of an image without CUDA
PORTS = {"router": {8000, 8002, 7001}, "worker-cpu": {9101, 7100}, "worker-cuda": {9101, 7100}}
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]


def run(*command, **settings):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-1000:]} {done.stderr[-3000:]}"
    return done.stdout


def version():
    return run(CONTAINER / "build.sh", "--version").strip()


def install(file, folder):
    folder.mkdir(parents=True, exist_ok=True)
    run("install", "--strip", "-t", folder, file)


def cuda_libraries():
    """The libraries that the backend loads, as they are on this machine; empty if one is missing."""
    if not BACKEND.exists():
        return []
    found = re.search(r"libcublasLt\S+ => (\S+)", run("ldd", BACKEND))
    files = [pathlib.Path(found.group(1)), pathlib.Path(found.group(1)).parent / "libnccl.so.2"] if found else []
    return files if files and all(file.exists() for file in files) else []


def related(made, kind):
    """Name and version of the parts of an SPDX document that are related to the image this way."""
    parts = {part["SPDXID"]: (part["name"], part.get("versionInfo")) for part in made["packages"]}
    return {parts[each["relatedSpdxElement"]] for each in made["relationships"] if each["relationshipType"] == kind}


class Buildah:
    """Images in a folder of their own."""

    def __init__(self, folder):
        self.command = ["buildah", "--storage-driver", "overlay"]
        self.command += ["--root", f"{folder}/root", "--runroot", f"{folder}/run"]
        self.folder = str(folder)
        self.mounted = {}

    def run(self, *arguments, **settings):
        return run(*self.command, *arguments, **settings).strip()

    def root_of(self, image):
        """The folder of the image's files."""
        if image not in self.mounted:
            container = self.run("from", "--pull-never", image)
            self.mounted[image] = (container, pathlib.Path(self.run("mount", container)))
        return self.mounted[image][1]

    def inspect(self, image):
        return json.loads(self.run("inspect", "--type", "image", image))["OCIv1"]["config"]

    def close(self):
        """Leaves no mount behind, also of a build that failed."""
        for container, _ in self.mounted.values():
            self.run("rm", container)
        lines = pathlib.Path("/proc/mounts").read_text().splitlines()
        mounts = [line.split()[1] for line in lines if line.split()[1].startswith(self.folder + "/")]
        for path in sorted(mounts, reverse=True):
            run("umount", path)


class Podman:
    """Runs images of a Buildah, as root, in namespaces of their own that have no network but a loopback."""

    def __init__(self, buildah, hosts):
        """`hosts` becomes /etc/hosts, with the names that a network of compose would resolve."""
        hosts.write_text("127.0.0.1 localhost router\n")
        self.hosts = hosts
        self.command = ["podman", *buildah.command[1:], "--cgroup-manager", "cgroupfs"]
        self.command += [f"--runtime={name}" for name in ("runc", "crun") if shutil.which(name)][:1]
        # By default it asks for more than a process may have that is root in a container itself.
        wanted = {"nofile": (resource.RLIMIT_NOFILE, 20_000), "nproc": (resource.RLIMIT_NPROC, 4096)}
        hard = {name: (resource.getrlimit(limit)[1], most) for name, (limit, most) in wanted.items()}
        least = {name: most if limit == resource.RLIM_INFINITY else min(limit, most) for name, (limit, most) in hard.items()}
        self.limits = [f"--ulimit={name}={most}:{most}" for name, most in least.items()]
        self.names = []

    def why_not(self):
        """The reason why it can not run anything here; None if it can. `BASE` is no image of ours."""
        if shutil.which("podman") is None:
            return "needs podman"
        done = subprocess.run(self.arguments("probe", {}, BASE, "true"), capture_output=True, text=True)
        return None if done.returncode == 0 else f"podman can not run here: {done.stderr[-300:]}"

    def arguments(self, name, service, image, *command, network="none"):
        """To run an image with the rights that a service of compose.yaml has."""
        self.names.append(f"roost-test-{name}-{os.getpid()}")
        flags = ["run", "--rm", "--name", self.names[-1], "--network", network, *self.limits]
        flags += ["--read-only", "--read-only-tmpfs=false"] if service.get("read_only") else []
        flags += [f"--cap-drop={each}" for each in service.get("cap_drop", [])]
        flags += [f"--security-opt={each.removesuffix(':true')}" for each in service.get("security_opt", [])]
        if "healthcheck" in service:
            flags += ["--health-cmd", json.dumps(service["healthcheck"]["test"][1:]), "--health-interval", "disable"]
        flags += ["--no-hosts", "--volume", f"{self.hosts}:/etc/hosts:ro"]
        return [*self.command, *flags, image, *command]

    def close(self):
        for name in reversed(self.names):  # one may use the namespaces of an earlier one
            subprocess.run([*self.command, "rm", "--force", "--ignore", name], capture_output=True)


@unittest.skipIf(NOT_HERE, NOT_HERE)
class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.buildah = Buildah(os.environ.get("ROOST_IMAGES_STORE", cls.folder / "images"))
        cls.addClassCleanup(cls.buildah.close)
        if not cls.buildah.run("images", "--quiet", "--filter", f"reference={BASE}"):
            run(CONTAINER / "base.sh", BASE, env={**os.environ, "ROOST_CONTAINER_ENGINE": " ".join(cls.buildah.command)})
        for program in ("roost-router", "roost-worker", "roostctl"):
            install(BIN / program, cls.folder / "cpu/out/bin")
        status = cls.folder / "cpu/var/lib/dpkg"
        status.mkdir(parents=True)
        shutil.copy("/var/lib/dpkg/status", status)
        targets = ["router", "worker-cpu"]
        if cuda_libraries():
            targets.append("worker-cuda")
            install(BACKEND, cls.folder / "cuda/out/lib")
            (cls.folder / "cuda/out/licenses").mkdir()
            for file in cuda_libraries():
                shutil.copy(file, cls.folder / "cuda/out/lib")
        cls.images = {target: cls.build(target) for target in targets}

    @classmethod
    def build(cls, target):
        """Returns the image's id, which is the digest of its configuration and so of its layers."""
        file = cls.folder / "id"
        flags = ["--isolation", "chroot", "--pull-never", "--iidfile", str(file)]
        for stage in ("cpu", "cuda"):
            if (cls.folder / stage).exists():
                flags += ["--build-context", f"build-{stage}={cls.folder / stage}"]
        settings = {"ROOST_CONTAINER_ENGINE": " ".join(cls.buildah.command), "ROOST_BUILD_FLAGS": " ".join(flags),
                    "ROOST_BASE_IMAGE": BASE, "BUILDAH_LAYERS": "false"}  # a second build is a build
        run(CONTAINER / "build.sh", target, env={**os.environ, **settings})
        return file.read_text().strip().removeprefix("sha256:")

    def root(self, target):
        return self.buildah.root_of(self.images[target])

    def output(self, target, *command):
        """Both outputs of a command in the image, and its exit code."""
        arguments = inside(self.root(target), *command)
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        return done.stdout + done.stderr, done.returncode

    def test_every_program_starts(self):
        wanted = {"router": {"roost-router", "roostctl"}, "worker-cpu": {"roost-worker", "roostctl"}}
        for target in self.images:
            with self.subTest(target):
                programs = {path.name for path in (self.root(target) / "usr/bin").glob("roost*")}
                self.assertEqual(programs, wanted.get(target, wanted["worker-cpu"]))
                for program in programs:
                    self.assertEqual(self.output(target, program, "--version"), (version() + "\n", 0), program)

    def test_router_and_workers_of_the_images_serve(self):
        with Cluster() as cluster:
            flags = ["--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0", *FREE_PORTS]
            flags += ["--log-format", "json", "--drain-announce-seconds", "0"]
            router = Router(inside(self.root("router"), "roost-router", *flags))
            cluster.daemons.append(router)
            workers = [target for target in self.images if target != "router"]
            flags = ["--model", "/usr/share/roost/demo-model", "--router", router.link, "--threads", "1"]
            flags += ["--kv-blocks", "1024", "--log-format", "json", "--worker-id"]
            for target in workers:
                cluster.daemons.append(Daemon(inside(self.root(target), "roost-worker", *flags, target)))
            router.wait_for_workers(len(workers))
            answer = router.chat([{"role": "user", "content": "Who comes here?"}], max_tokens=8)
            self.assertEqual(answer.status, 200)
            self.assertGreater(len(answer.text()), 0)
            status, code = self.output("router", "roostctl", "status", "--admin", router.admin)
            self.assertEqual(code, 0, status)
            self.assertIn("worker-cpu", status)
            for daemon in reversed(cluster.daemons):
                self.assertEqual(daemon.stop(), 0)

    def test_podman_runs_the_services_of_compose(self):
        podman = Podman(self.buildah, self.folder / "hosts")
        self.addCleanup(podman.close)
        if (reason := podman.why_not()) is not None:
            self.skipTest(reason)
        service = COMPOSE["router"]
        router = Daemon(podman.arguments("router", service, self.images["router"], *service["command"]))
        name = podman.names[-1]
        router.wait_for_log("router ready")
        process = run(*podman.command, "inspect", "--format", "{{.State.Pid}}", name).strip()
        within = ["nsenter", "--target", process, "--net"]
        service = COMPOSE["worker-1"]
        address = service["networks"]["link"]["ipv4_address"]
        run(*within, "ip", "address", "add", f"{address}/32", "dev", "lo")
        worker = Daemon(podman.arguments("worker", service, self.images["worker-cpu"], *service["command"],
                                         network=f"container:{name}"))
        worker.wait_for_log("worker ready")
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        for line in (r"Uid:(\t65532){4}", r"Gid:(\t65532){4}", r"CapEff:\t0{16}", r"CapBnd:\t0{16}", r"NoNewPrivs:\t1"):
            self.assertRegex(status, line)
        self.assertRegex(pathlib.Path(f"/proc/{process}/mountinfo").read_text(), r"(?m)^\S+ \S+ \S+ \S+ / ro,")
        body = {"model": "demo-model", "max_tokens": 8, "messages": [{"role": "user", "content": "Who comes here?"}]}
        answer = run(*within, "curl", "--silent", "--fail-with-body", "--max-time", str(DEADLINE_SECONDS),
                     "--header", "Content-Type: application/json", "--data", json.dumps(body),
                     "http://127.0.0.1:8000/v1/chat/completions")
        self.assertEqual(json.loads(answer)["usage"]["completion_tokens"], 8)
        run(*podman.command, "healthcheck", "run", name)
        for daemon in (worker, router):
            self.assertEqual(daemon.stop(), 0)

    def test_processes_can_not_write(self):
        text, code = self.output("router", "roost-router", "--record", "/etc/x", "--http-address", "127.0.0.1:0")
        self.assertNotEqual(code, 0)
        self.assertIn("/etc/x can not be written", text)

    def test_they_hold_programs_and_libraries_alone(self):
        for target in self.images:
            with self.subTest(target):
                root = self.root(target)
                files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
                executable = {str(path.relative_to(root)) for path in files
                              if path.stat().st_mode & 0o111 and ".so" not in path.name}
                daemon = "roost-router" if target == "router" else "roost-worker"
                self.assertEqual(executable, {f"usr/bin/{daemon}", "usr/bin/roostctl"})
                self.assertEqual([path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)], [])
                self.assertEqual([path for path in root.rglob("*") if path.stat(follow_symlinks=False).st_uid], [])
                self.assertEqual((root / "usr/share/doc/roost/LICENSE").read_bytes(), (ROOT / "LICENSE").read_bytes())
                megabytes = sum(path.stat().st_size for path in files) / 1e6
                if target != "worker-cuda":
                    self.assertLess(megabytes, MOST_MEGABYTES)

    def test_the_same_tree_makes_the_same_images(self):
        self.assertEqual(self.build("router"), self.images["router"])

    def test_labels_user_and_entry(self):
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        revision = asked.stdout.strip()
        for target, image in self.images.items():
            with self.subTest(target):
                config = self.buildah.inspect(image)
                prefix = "org.opencontainers.image."
                labels = {name.removeprefix(prefix): value for name, value in config["Labels"].items()}
                self.assertEqual(labels["version"], version())
                self.assertEqual(labels["title"], f"roost-{target}")
                self.assertEqual(labels["revision"], revision or "unknown")
                self.assertRegex(labels["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
                self.assertTrue(labels["licenses"].startswith("Apache-2.0"))
                self.assertTrue(labels["description"])
                self.assertEqual(config["User"], "65532:65532")
                program = "/usr/bin/roost-router" if target == "router" else "/usr/bin/roost-worker"
                self.assertEqual(config["Entrypoint"], [program])
                self.assertIn("PATH=/usr/bin", config["Env"])
                self.assertEqual(set(config["ExposedPorts"]), {f"{port}/tcp" for port in PORTS[target]})

    def test_the_list_of_parts_is_that_of_the_image(self):
        packages = (ROOT / "deploy/packages.sh").read_text()
        xgrammar = re.search(r"^xgrammar_version=(\S+)", packages, re.MULTILINE).group(1)
        for target in self.images:
            with self.subTest(target):
                root = self.root(target)
                made = json.loads((root / "usr/share/roost/sbom.spdx.json").read_text())
                self.assertEqual(made["name"], f"roost-{target}-{version()}")
                held, linked = related(made, "CONTAINS"), related(made, "STATIC_LINK")
                wheels = {part for part in held if part[0].startswith("nvidia-")}
                listed = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show",
                             "--showformat=${Package} ${Version}\\n")
                self.assertEqual(held - wheels, {tuple(line.split()) for line in listed.splitlines()})
                names = {"nvidia-cublas", "nvidia-nccl-cu13"} if target == "worker-cuda" else set()
                self.assertLessEqual(names, {name for name, _ in wheels})
                self.assertEqual(bool(wheels), bool(names))
                self.assertIn(("xgrammar", xgrammar), linked)
                self.assertIn("libboost1.81-dev", {name for name, _ in linked})

    def test_the_list_of_parts_is_valid(self):
        validator = self.folder / "venv/bin/pyspdxtools"
        try:
            run(sys.executable, "-m", "venv", self.folder / "venv")
            run(self.folder / "venv/bin/pip", "install", "--quiet", "spdx-tools==0.8.3")
        except AssertionError as error:
            self.skipTest(f"spdx-tools can not be installed: {error}")
        for target in self.images:
            with self.subTest(target):
                run(validator, "--infile", self.root(target) / "usr/share/roost/sbom.spdx.json")
        broken = json.loads((self.root("router") / "usr/share/roost/sbom.spdx.json").read_text())
        broken["packages"][3]["SPDXID"] = "no id"
        (self.folder / "broken.spdx.json").write_text(json.dumps(broken))
        self.assertRaises(AssertionError, run, validator, "--infile", self.folder / "broken.spdx.json")

    def test_libraries_of_every_program_are_in_the_image(self):
        for target in self.images:
            with self.subTest(target):
                programs = [f"/usr/bin/{path.name}" for path in (self.root(target) / "usr/bin").glob("roost*")]
                libraries = (self.root(target) / "usr/lib/roost").glob("*.so*")
                programs += [f"/usr/lib/roost/{path.name}" for path in libraries]
                for program in programs:
                    text, code = self.output(target, "/lib64/ld-linux-x86-64.so.2", "--list", program)
                    self.assertEqual((code, "not found" in text), (0, False), text)

    def test_the_cuda_worker_lacks_nothing_but_the_driver(self):
        if "worker-cuda" not in self.images:
            self.skipTest("the CUDA backend is not built, or cuBLASLt or NCCL are missing")
        flags = ["--backend", "cuda", "--model", "/usr/share/roost/demo-model", "--router", "tcp://127.0.0.1:1"]
        text, code = self.output("worker-cuda", "roost-worker", *flags)
        if code == 69:
            self.assertRegex(text, "(?i)driver|no CUDA-capable device")
            self.assertNotIn("cannot open shared object", text)
        held = {path.name for path in (self.root("worker-cuda") / "usr/lib/roost").iterdir()}
        self.assertEqual(held, {"libroost_cuda.so", "libcublasLt.so.13", "libnccl.so.2"})

    def test_the_demo_model_is_in_the_worker(self):
        for target in self.images:
            with self.subTest(target):
                file = self.root(target) / "usr/share/roost/demo-model/model.safetensors"
                self.assertEqual(file.exists(), target != "router")
                if file.exists():
                    wanted = (ROOT / "deploy/demo-model/model.safetensors").read_bytes()
                    self.assertEqual(hashlib.sha256(file.read_bytes()).digest(), hashlib.sha256(wanted).digest())

    def test_builds_take_neither_old_builds_nor_keys_along(self):
        context = self.folder / "context"
        wanted = {"CMakeLists.txt", "deploy/packages.sh", "common/base/clock.h"}
        stray = {"build/release/CMakeCache.txt", "router.key", "deploy/tls.pem", "deploy/w1.key", ".git/config",
                 "tests/x.py", "deploy/__pycache__/x.pyc", "notes.txt"}
        for name in wanted | stray:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            (context / name).write_text("x")
        shutil.copy(ROOT / ".dockerignore", context)
        (self.folder / "Containerfile").write_text("FROM scratch\nCOPY . /\n")
        file = self.folder / "Containerfile"
        self.buildah.run("build", "--quiet", "--isolation", "chroot", "-f", file, "-t", "context", context)
        root = self.buildah.root_of("localhost/context")
        held = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        self.assertEqual(held, wanted)


class ManifestsTest(unittest.TestCase):
    """Manifests in deploy/ use the images as the Containerfile makes them."""

    TEXT = (CONTAINER / "Containerfile").read_text()

    def containers(self):
        """File, and container of it, of all that run an image of ours."""
        for path in sorted((ROOT / "deploy").rglob("*.yaml")):
            if "templates" not in path.parts:
                for document in yaml.safe_load_all(path.read_text()):
                    for each in self.objects(document):
                        if str(each.get("image", "")).startswith("roost-") and not isinstance(each.get("model"), dict):
                            yield path, each

    def objects(self, value):
        if isinstance(value, dict):
            yield value
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
            yield from self.objects(each)

    def stage(self, image):
        """The text of the stage that makes the image."""
        name = image.split(":")[0].removeprefix("roost-")
        return re.search(rf"^FROM base AS {re.escape(name)}$(.*?)(?:^FROM|\Z)", self.TEXT, re.MULTILINE | re.DOTALL).group(1)

    def test_ports_and_programs(self):
        seen = set()
        for path, container in self.containers():
            with self.subTest(f"{path.relative_to(ROOT)} {container['image']}"):
                stage = self.stage(container["image"])
                exposed = set(map(int, re.search(r"^EXPOSE (.*)$", stage, re.MULTILINE).group(1).split()))
                self.assertEqual(exposed, PORTS[container["image"].split(":")[0].removeprefix("roost-")])
                ports = container.get("ports", [])
                named = {port["containerPort"] for port in ports if isinstance(port, dict)}
                named |= {int(port.rsplit(":", 1)[1]) for port in ports if isinstance(port, str)}
                self.assertLessEqual(named, exposed)
                program = container.get("command", ["--"])[0]
                if not program.startswith("--"):
                    self.assertIn(f'ENTRYPOINT ["/usr/bin/{program}"]', stage)
                seen.add(path.parent.name if "ports" in container else None)
        self.assertLessEqual({"base", "deploy", "models"}, seen)

    def test_helm_has_the_same_ports(self):
        templates = ROOT / "deploy/helm/roost/templates"
        for name, image in (("router", "router"), ("worker", "worker-cpu")):
            ports = re.findall(r"containerPort: (\d+)", (templates / f"{name}.yaml").read_text())
            self.assertLessEqual(set(map(int, ports)), PORTS[image])
            self.assertTrue(ports)

    def test_users_and_paths(self):
        user = re.search(r"^USER (\d+):(\d+)$", self.TEXT, re.MULTILINE).groups()
        self.assertEqual(user[0], user[1])
        found = 0
        for path in sorted((ROOT / "deploy").rglob("*.yaml")):
            for key, value in re.findall(r"\b(runAsUser|runAsGroup|fsGroup): (\d+)", path.read_text()):
                self.assertEqual(value, user[0], f"{path} {key}")
                found += 1
            for model in re.findall(r"/usr/share/roost/[\w-]+", path.read_text()):
                self.assertIn(f"/image{model}\n", self.TEXT if "sbom" not in model else "/image/usr/share/roost/sbom\n")
        self.assertGreater(found, 5)


class ContainerfileTest(unittest.TestCase):
    """Checks that need no build."""

    def test_an_unknown_image_is_refused(self):
        asked = subprocess.run([CONTAINER / "build.sh", "desktop"], capture_output=True, text=True)
        self.assertEqual(asked.returncode, 2)
        self.assertIn("no image 'desktop'", asked.stderr)

    def test_all_that_the_build_needs_is_in_its_context(self):
        ignored = (ROOT / ".dockerignore").read_text()
        cmake = (ROOT / "CMakeLists.txt").read_text()
        for folder in re.findall(r"^add_subdirectory\((\w+)", cmake, re.MULTILINE):
            self.assertIn(f"\n!{folder}\n", ignored, folder)

    def test_wheels_are_pinned_by_hash(self):
        for line in (CONTAINER / "cuda.txt").read_text().splitlines():
            self.assertRegex(line, r"^#|^[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}$")


if __name__ == "__main__":
    unittest.main()
