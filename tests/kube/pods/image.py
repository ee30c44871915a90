"""Root file systems for containers: folders with just what an image of that name has."""

import pathlib
import re
import shutil
import subprocess

PROGRAMS = {"roost-router": ["roost-router", "roostctl"], "roost-worker-cpu": ["roost-worker", "roostctl"]}


def libraries(program):
    """The files that the loader maps for it, the loader too."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


class Images:
    def __init__(self, folder, binaries, demo_model):
        self.folder = pathlib.Path(folder)
        self.binaries = pathlib.Path(binaries)
        self.demo_model = demo_model

    def root_of(self, reference):
        """The folder of the image `reference`. Images of others are this machine's own file system."""
        name = reference.partition(":")[0]
        if name not in PROGRAMS:
            return pathlib.Path("/")
        root = self.folder / name
        if not root.exists():
            self.make(name, root)
        return root

    def make(self, name, root):
        for folder in ("usr/bin", "usr/share/roost", "etc"):
            (root / folder).mkdir(parents=True)
        for program in PROGRAMS[name]:
            shutil.copy2(self.binaries / program, root / "usr/bin")
            for library in libraries(self.binaries / program):
                target = root / library.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    shutil.copy2(library, target)
        if name.startswith("roost-worker"):
            shutil.copytree(self.demo_model, root / "usr/share/roost/demo-model")
