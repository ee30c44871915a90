"""Runs one container: a process with a root file system, volumes and an identity of its own, in the network of its pod.

Started by pod.py as root with a JSON object as its argument:

    pause      process whose network, host name and IPC namespaces are the pod's
    image      folder with the image's files
    scratch    empty folder of this container
    read_only  whether the root file system is
    mounts     [{source, target, read_only}] source null: memory
    files      {target: text} files that Kubernetes makes in the container
    user, group, groups, command, env, directory

It stays beside the container as its parent: SIGTERM is passed on, and the exit code is the container's. If it is
killed, the container is killed too. Unlike a runtime it sets no seccomp filter and no limits of processors and memory.
"""

import ctypes
import json
import os
import pathlib
import signal
import stat
import sys

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
LAST_CAPABILITY = 40

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [None if value is None else str(value).encode() for value in (source, target, kind, data)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {source} at {target}")


def bind(source, target, read_only):
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount(None, target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def join_pod(pause):
    for namespace in ("net", "uts", "ipc"):
        with open(f"/proc/{pause}/ns/{namespace}", encoding="ascii") as file:
            check(libc.setns(file.fileno(), 0), f"setns {namespace}")


def make_root(spec):
    """Mounts the image, the devices and the volumes; returns the root."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    scratch = pathlib.Path(spec["scratch"])
    mount("tmpfs", scratch, "tmpfs")
    for name in ("upper", "work", "root"):
        (scratch / name).mkdir(mode=0o755)
    root = scratch / "root"
    mount("overlay", root, "overlay",
          data=f"lowerdir={spec['image']},upperdir={scratch}/upper,workdir={scratch}/work")
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)
    mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV)
    mount("tmpfs", root / "dev", "tmpfs", MS_NOSUID, "mode=755")
    for name in ("null", "zero", "random", "urandom"):
        (root / "dev" / name).touch()
        bind(f"/dev/{name}", root / "dev" / name, read_only=False)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (root / "dev" / name).symlink_to(f"/proc/self/fd/{number}")
    (root / "dev/shm").mkdir()
    mount("tmpfs", root / "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    for target, text in spec["files"].items():
        path = root / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a link of the image
        path.write_text(text)
    for volume in spec["mounts"]:
        target = root / volume["target"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        bind(volume["source"], target, volume["read_only"])
    if spec["read_only"]:
        mount(None, root, flags=MS_REMOUNT | MS_RDONLY)
    return root


def become(spec):
    """No capabilities, no way to get some, and the identity of the security context."""
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        os.fchown(0, spec["user"], spec["group"])  # so that it may open /dev/stdin
    os.setgroups(spec["groups"])
    os.setgid(spec["group"])
    os.setuid(spec["user"])
    # Changing the identity clears this, so it comes after it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run_inside(spec):
    os.chroot(make_root(spec))
    os.chdir(spec["directory"])
    become(spec)
    os.umask(0o022)
    os.execvpe(spec["command"][0], spec["command"], spec["env"])


def main():
    spec = json.loads(sys.argv[1])
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    join_pod(spec["pause"])
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare")
    child = os.fork()
    if child == 0:
        try:
            run_inside(spec)
        except OSError as error:
            print(f"container.py: {error}", file=sys.stderr, flush=True)
            os._exit(127)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) % 256


if __name__ == "__main__":
    sys.exit(main())
