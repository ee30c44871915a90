"""The layers of the tree: which folder may include which. Run by ctest, or by hand: python3 tests/tidy/layers_test.py"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A folder may include itself and the folders listed here. deploy (roostctl) and tests may include everything.
ALLOWED = {
    "schema": set(),
    "common": {"schema"},
    "kernels": {"common"},
    "worker": {"common", "kernels"},
    "router": {"common"},
}
# What only the own engine uses.
WORKER_PARTS = {"worker/backend", "worker/cache", "worker/disk", "worker/grammar", "worker/model", "worker/sample", "worker/sched"}
# Within the daemons: pure parts do not include the parts with threads and sockets. Folder -> folders that it must not include.
FORBIDDEN = {
    "common/base": {"common/config", "common/http", "common/json", "common/metrics", "common/prefix", "common/text", "common/trace", "common/wire"},
    "worker/cache": {"worker/sched", "worker/engine", "worker/link", "worker/model"},
    "worker/sched": {"worker/engine", "worker/link", "worker/model"},
    # Side by side on the engine's face: its own engine, the links, the adapters of other engines.
    "worker/engine_api": {*WORKER_PARTS, "worker/engine", "worker/link", "worker/adapters"},
    "worker/engine": {"worker/link", "worker/adapters"},
    "worker/link": {*WORKER_PARTS, "worker/engine", "worker/adapters"},
    "worker/adapters": {*WORKER_PARTS, "worker/engine", "worker/link", "worker/transfer"},
    "worker/disk": {*(WORKER_PARTS - {"worker/disk", "worker/model"}), "worker/engine", "worker/link", "worker/adapters"},
    "worker/transfer": {*(WORKER_PARTS - {"worker/model"}), "worker/engine", "worker/link", "worker/adapters"},
    "worker/model": {"worker/cache", "worker/sched", "worker/engine", "worker/link"},
    "router/index": {"router/route", "router/fleet", "router/api", "common/http"},
    "router/route": {"router/index", "router/policies", "router/fleet", "router/api", "common/http"},
    "router/policies": {"router/index", "router/fleet", "router/api", "common/http"},
    "router/fleet": {"router/api", "common/http"},
    "common/http": {"common/config", "common/metrics", "common/prefix", "common/text", "common/wire"},
}
# Folder -> its rooms (sub-folders; "." is the folder itself) from the lowest up. A room may include itself and the rooms of
# earlier lines; those of one line do not know each other.
ROOMS = {
    "common/text": [{"regex"}, {"."}],
    "common/text/jinja": [{"."}, {"parse", "strings"}],
    "deploy/roostctl": [{"remote"}, {"."}],
    "kernels": [{"."}, {"cpu", "cuda", "reference"}],
    "router/api": [{"."}, {"tool_parsers"}, {"requests"}, {"answers"}, {"operator"}, {"routes"}],
    "router/fleet": [{"."}, {"workers"}, {"blocks"}, {"requests", "forwards"}, {"core"}],
    "worker/adapters": [{"events"}, {"."}, {"sglang", "slots", "vllm"}, {"host", "llama_cpp", "openai"}],
    "worker/model": [{"loading"}, {"."}],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_includes():
    """Folder -> the other folders that its files include. Nothing includes a main.cc, so it can not be in a cycle."""
    includes = {}
    for top in [*ALLOWED, "deploy"]:
        for path in sources(top):
            if path.name == "main.cc":
                continue
            folder = str(path.parent.relative_to(ROOT))
            others = {str(pathlib.Path(include).parent) for include in INCLUDE.findall(path.read_text())}
            includes.setdefault(folder, set()).update(others - {folder})
    return includes


def cycle_in(graph):
    """A path that ends where it begins, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :] + [node]
        if node in done:
            return None
        path.append(node)
        found = next(filter(None, map(visit, sorted(graph.get(node, ())))), None)
        path.pop()
        done.add(node)
        return found

    return next(filter(None, map(visit, sorted(graph))), None)


def room_of(include, folder):
    """The room of `folder` that the included file is in; None if it is elsewhere."""
    path = pathlib.PurePath(include)
    return str(path.parent.relative_to(folder)) if path.is_relative_to(folder) else None


def sources(folder):
    return [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".h", ".cc", ".cu", ".cuh"}]


class LayersTest(unittest.TestCase):
    def test_layers_include_only_what_is_below_them(self):
        for folder, allowed in ALLOWED.items():
            for path in sources(folder):
                for include in INCLUDE.findall(path.read_text()):
                    top = include.split("/")[0]
                    if top not in {*ALLOWED, "deploy", "tests"}:
                        continue  # a library's header
                    self.assertIn(top, allowed | {folder}, f"{path.relative_to(ROOT)} includes {include}")

    def test_pure_parts_include_no_shell(self):
        for folder, forbidden in FORBIDDEN.items():
            for path in sources(folder):
                for include in INCLUDE.findall(path.read_text()):
                    for other in forbidden:
                        self.assertFalse(
                            include.startswith(other + "/"), f"{path.relative_to(ROOT)} includes {include}"
                        )

    def test_rooms_include_only_those_below_them(self):
        for folder, levels in ROOMS.items():
            rooms = set().union(*levels)
            below = set()
            for level in levels:
                for room in level:
                    paths = [path for path in sources(folder) if path.parent == (ROOT / folder / room)]
                    self.assertTrue(paths, f"{folder}/{room} is empty")
                    for path in paths:
                        for include in INCLUDE.findall(path.read_text()):
                            other = room_of(include, folder)
                            if other in rooms:
                                self.assertIn(other, below | {room}, f"{path.relative_to(ROOT)} includes {include}")
                below |= level

    def test_folders_form_no_cycle(self):
        self.assertEqual(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])
        includes = folder_includes()
        self.assertIn("router/route", includes["router/fleet/workers"])
        self.assertIsNone(cycle_in(includes), "folders that include each other: move what both need to one of them")

    def test_beast_stays_in_the_http_server(self):
        http = sources("common/http")
        with_beast = {str(path.relative_to(ROOT)) for path in http if "#include <boost/" in path.read_text()}
        self.assertTrue(with_beast)
        for folder in [*ALLOWED, "deploy"]:
            for path in set(sources(folder)) - set(http):
                text = path.read_text()
                self.assertNotIn("#include <boost/", text, path)
                for include in INCLUDE.findall(text):
                    self.assertNotIn(include, with_beast, f"{path}: Beast costs every file that includes it 20 s")


if __name__ == "__main__":
    unittest.main()
