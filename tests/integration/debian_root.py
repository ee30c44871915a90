"""Roots of Debian 12 without a container daemon, made by mmdebstrap from the package mirror of this machine's apt.
Programs in them run as an image's do: without rights, on a root that can not be written.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

SUITE = "bookworm"
USER = "65532:65532"
# $0 is the root, the rest the command. /tmp is writable, as it is with an emptyDir or a tmpfs.
INSIDE = """
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/tmp"
mount -o remount,bind,ro "$0"
exec setpriv --no-new-privs chroot --userspec={user} --groups= "$0" "$@"
"""


def apt_sources():
    """The file in which this machine's apt finds Debian 12, and the URL of its archive; None if there is none."""
    for path in [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]:
        text = path.read_text() if path.is_file() else ""
        line = re.search(rf"^deb (?:\[.*\] )?(\S+) {SUITE} ", text, re.MULTILINE)
        stanza = re.search(rf"^URIs: (\S+)\nSuites: {SUITE}\b", text, re.MULTILINE)
        if line or stanza:
            return path, (line or stanza).group(1)
    return None


def why_not(*programs):
    """Why roots can not be made here; None if they can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [program for program in ("mmdebstrap", "setpriv", *programs) if shutil.which(program) is None]
    if missing:
        return f"needs {' and '.join(missing)}"
    sources = apt_sources()
    if sources is None:
        return "apt has no source of Debian 12"
    with tempfile.TemporaryDirectory() as folder:
        probe = [f"{sources[1].rstrip('/')}/dists/{SUITE}/InRelease", f"{folder}/InRelease"]
        asked = subprocess.run(["/usr/lib/apt/apt-helper", "download-file", *probe], capture_output=True, timeout=60)
    return None if asked.returncode == 0 else "offline: Debian's package mirror does not answer"


def make_root(path, *packages, variant="minbase"):
    """A root of Debian 12 in a folder or .tar file, with these packages, and with the sources of this machine's apt."""
    command = ["mmdebstrap", "--quiet", f"--variant={variant}", "--mode=root"]
    command.append('--aptopt=APT::Install-Recommends "false"')
    if packages:
        command.append("--include=" + ",".join(packages))
    command += [SUITE, str(path), str(apt_sources()[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return path


def inside(root, *command, user=USER):
    """The arguments that run a command in `root`. The process that starts with them becomes the command."""
    script = INSIDE.replace("{user}", user)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, str(root), *map(str, command)]
