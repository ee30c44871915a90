"""Roots of Debian 12 without a container daemon, made by mmdebstrap from the package mirror of this machine's apt.
Programs in them run as an image's do: without rights, on a root that can not be written.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from cluster import DEADLINE_SECONDS, wait_until

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
    """The reason why roots can not be made here; None if they can."""
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


def make_root(path, *packages, files=()):
    """A root of Debian 12 in a folder or .tar file, with these packages from the sources of this machine's apt. `files`
    are packages that apt installs last, with what they depend on.
    """
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"]
    command.append('--aptopt=APT::Install-Recommends "false"')
    if packages:
        command.append("--include=" + ",".join(packages))
    if files:
        command.append("--customize-hook=copy-in " + " ".join(map(str, files)) + " /root")
        install = "apt-get install --quiet --yes --no-install-recommends /root/*.deb"
        command.append(f"--customize-hook=chroot \"$1\" sh -ec '{install}; rm /root/*.deb'")
    command += [SUITE, str(path), str(apt_sources()[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return path


def inside(root, *command, user=USER):
    """The arguments that run a command in `root`. The process that starts with them becomes the command."""
    script = INSIDE.replace("{user}", user)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, str(root), *map(str, command)]


class Machine:
    """A root whose systemd runs as the first process of namespaces: units start there as on a real machine, on a
    network of their own that has only its loopback.
    """

    BOOT = """
    root=$0
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    for folder in dev run tmp; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
    chmod 1777 "$root/tmp"
    for name in null zero full random urandom tty; do
      touch "$root/dev/$name"
      mount --bind "/dev/$name" "$root/dev/$name"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    cd "$root"
    pivot_root . mnt
    umount -l /mnt
    export container=roost-test
    exec /lib/systemd/systemd --unit=multi-user.target --show-status=no </dev/null >/dev/null 2>&1
    """
    NAMESPACES = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]

    @staticmethod
    def why_not():
        """The reason why none can be started here; None if one can."""
        group = Machine._cgroups()
        writable = group is not None and os.access(group, os.W_OK)
        return None if writable else "needs a cgroup2 hierarchy that it may write"

    @staticmethod
    def _cgroups():
        mounts = pathlib.Path("/proc/mounts").read_text()
        found = re.search(r"^\S+ (\S+) cgroup2 ", mounts, re.MULTILINE)
        return pathlib.Path(found.group(1)) if found else None

    def __init__(self, root):
        self.group = self._cgroups() / f"roost-test-{os.getpid()}"
        self.group.mkdir()
        command = ["unshare", *self.NAMESPACES, "--fork", "--kill-child", "--propagation", "private"]
        enter = f"echo $$ >{self.group}/cgroup.procs; exec \"$@\""
        self.process = subprocess.Popen(["sh", "-ec", enter, "sh", *command, "sh", "-ec", self.BOOT, str(root)])
        try:
            self.first = wait_until(self._first_process, "that systemd starts")
            wait_until(lambda: self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"),
                       "that the machine has started")
        except BaseException:
            self.end()
            raise

    def _first_process(self):
        """The process id of systemd, seen from outside; empty until it runs."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        names = [pathlib.Path(f"/proc/{child}/comm").read_text().strip() for child in children]
        return children[0] if names == ["systemd"] else ""

    def run(self, *command):
        arguments = ["nsenter", "--target", self.first, *self.NAMESPACES, *map(str, command)]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE_SECONDS * 2)

    def property(self, unit, name):
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").stdout.strip()

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout

    def end(self):
        self.process.kill()  # and with it systemd and all that it has started
        self.process.wait()
        for group in sorted(self.group.rglob("*"), reverse=True):
            if group.is_dir():
                wait_until(lambda: self._removed(group), f"that {group} is empty")
        wait_until(lambda: self._removed(self.group), f"that {self.group} is empty")

    @staticmethod
    def _removed(group):
        try:
            group.rmdir()
        except OSError:
            return False
        return True
