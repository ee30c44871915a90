#!/usr/bin/env python3
"""The time of a model's steps on a machine that is not theirs alone, as ratios to the same steps on the quiet machine,
in turns within one run: beside a busy process of normal and of low priority, under a CPU quota, and beside a second
model. And what --threads 0 gains beside one and beside four busy processes, over a thread for each core.

    tests/bench/neighbours.py                    Qwen3-0.6B's shape, random weights, all cores
    tests/bench/neighbours.py --other BINARY     another program in the same turns: an older
                                                 roost_stepper, or llama.cpp (llama_stepper.py)

It prints a line per figure: figure <name> <value> <unit>. A quota needs a cgroup that this user may make.
"""
import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
PERIOD_US = 100_000
CORES = len(os.sched_getaffinity(0))


class Stepper:
    """A model that computes steps on command."""

    def __init__(self, binary, shape, threads, start=()):
        command = [*start, binary, shape, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_ready(self):
        if self._process.stdout.readline().strip() != "ready":
            sys.exit("neighbours.py: roost_stepper did not start")

    def send(self, command):
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def receive(self):
        return [float(word) for word in self._process.stdout.readline().split()]

    def run(self, command):
        self.send(command)
        return self.receive()

    def end(self):
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def stepper(*arguments, **options):
    model = Stepper(*arguments, **options)
    try:
        model.wait_ready()
        yield model
    finally:
        model.end()


class BusyProcess:
    """Computes all the time, but only while it is used in a `with`. In this session, so that its priority counts even
    where the kernel shares the CPU out among sessions."""

    def __init__(self, nice):
        self._process = subprocess.Popen(["nice", "-n", str(nice), sys.executable, "-c", "while True: pass"])
        self.__exit__()

    def __enter__(self):
        os.kill(self._process.pid, signal.SIGCONT)

    def __exit__(self, *_):
        os.kill(self._process.pid, signal.SIGSTOP)

    def end(self):
        self._process.kill()
        self._process.wait()


class Quota:
    """A cgroup with that many cores' time in each period, version 2 or 1; OSError if none can be made."""

    def __init__(self, cores):
        version_2 = "cpu" in _words(CGROUPS / "cgroup.controllers")
        self._folder = (CGROUPS if version_2 else CGROUPS / "cpu") / f"neighbours-{os.getpid()}"
        self._folder.mkdir()
        quota = int(cores * PERIOD_US)
        if version_2:
            (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
            (self._folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self._folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota))

    def start(self):
        """The beginning of a command that runs inside."""
        return ["sh", "-c", f'echo $$ > {self._folder}/cgroup.procs && exec "$0" "$@"']

    def end(self):
        self._folder.rmdir()


def _words(path):
    try:
        return path.read_text().split()
    except OSError:
        return []


def figure(name, value, unit):
    print(f"figure neighbours_{name} {value:.3g} {unit}", flush=True)


def beside_processes(models, effort):
    """Steps in turns with quiet ones; the mean, since a step that waits for milliseconds is what a user waits for."""
    times = {}
    neighbours = {"normal": BusyProcess(0), "low": BusyProcess(19)}
    try:
        for _ in range(effort.rounds):
            for name, model in models.items():
                for command in (f"decode {effort.steps}", f"prefill {effort.prefills}"):
                    kind = command.split()[0]
                    times.setdefault((name, kind, "quiet"), []).extend(model.run(command))
                    for priority, process in neighbours.items():
                        with process:
                            times.setdefault((name, kind, priority), []).extend(model.run(command))
    finally:
        for process in neighbours.values():
            process.end()
    for name in models:
        for kind in ("decode", "prefill"):
            quiet = statistics.mean(times[name, kind, "quiet"])
            figure(f"{name}{kind}_quiet", quiet, "ms")
            for priority in neighbours:
                ratio = statistics.mean(times[name, kind, priority]) / quiet
                figure(f"{name}{kind}_{priority}_priority", ratio, "x")
    if len(models) > 1:
        for kind in ("decode", "prefill"):
            new, old = (statistics.median(times[name, kind, "quiet"]) for name in models)
            figure(f"{kind}_quiet_over_other", new / old, "x")


def in_a_quota(binary, shape, prefix, effort):
    for threads, name in ((0, f"{prefix}quota"), (2, f"{prefix}quota_2t")):
        try:
            quota = Quota(1.5)
        except OSError as error:
            print(f"skipped: {name}, no cgroup with a quota: {error}", flush=True)
            return
        try:
            with stepper(binary, shape, threads, start=quota.start()) as model:
                steps = sorted(model.run(f"decode {effort.quota_steps}"))
        finally:
            quota.end()
        median = statistics.median(steps)
        figure(f"{name}_decode", median, "ms")
        figure(f"{name}_p99", steps[len(steps) * 99 // 100] / median, "x")


def varied_threads(binary, shape, effort):
    """Decode steps with --threads 0 over those with a thread for each core: beside busy processes, and quiet."""
    with stepper(binary, shape, 0) as varied, stepper(binary, shape, CORES) as fixed:

        def ratio_beside(count, settling):
            times = {varied: [], fixed: []}
            for _ in range(effort.rounds):
                with contextlib.ExitStack() as stack:
                    for _ in range(count):
                        process = BusyProcess(0)
                        stack.callback(process.end)
                        stack.enter_context(process)
                    varied.run(f"for {settling}")
                    for model, all_times in times.items():
                        all_times.extend(model.run(f"decode {effort.steps}"))
            means = [statistics.mean(all_times) for all_times in times.values()]
            figure(f"varied_decode_beside_{count}", means[0], "ms")
            return means[0] / means[1]

        figure("varied_over_fixed_quiet", ratio_beside(0, effort.recovery), "x")
        for count in (1, 4):
            figure(f"varied_over_fixed_beside_{count}", ratio_beside(count, effort.settling), "x")
        figure("varied_over_fixed_quiet_again", ratio_beside(0, effort.recovery), "x")


def two_models(models, prefix, effort):
    """Tokens/s of two models that decode at the same time, over those of one alone."""
    alone, together = [], []
    for _ in range(effort.rounds):
        for model in models:
            alone.append(len(model.run(f"for {effort.seconds}")) / effort.seconds)
        for model in models:
            model.send(f"for {effort.seconds}")
        together.append(sum(len(model.receive()) / effort.seconds for model in models))
    figure(f"{prefix}two_workers", statistics.mean(together) / statistics.mean(alone), "x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=BIN, help="folder of roost_stepper")
    parser.add_argument("--other", type=pathlib.Path, help="another program with the face of roost_stepper, to measure in the same turns")
    parser.add_argument("--shape", default="qwen3-0.6b")
    parser.add_argument("--only", choices=["processes", "quota", "two", "threads"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny, to check that it runs")
    options = parser.parse_args()
    binary = options.bin / "roost_stepper"
    options.steps, options.prefills, options.quota_steps, options.seconds = (2, 1, 4, 0.1) if options.quick else (
        20, 2, 120, 3)
    # Until --threads 0 has noticed a load, and until it has noticed that there is none.
    options.settling, options.recovery = (0.1, 0.1) if options.quick else (2, 10)
    binaries = {"": binary} | ({"other_": options.other} if options.other else {})
    if options.only in (None, "processes"):
        with contextlib.ExitStack() as stack:
            models = {prefix: stack.enter_context(stepper(of, options.shape, CORES)) for prefix, of in binaries.items()}
            beside_processes(models, options)
    if options.only in (None, "quota"):
        for prefix, of in binaries.items():
            in_a_quota(of, options.shape, prefix, options)
    if options.only in (None, "threads"):
        varied_threads(binary, options.shape, options)
    if options.only in (None, "two"):
        pairs = [(of, options.shape, prefix) for prefix, of in binaries.items()] + [(binary, "demo", "demo_")]
        for of, shape, prefix in pairs:
            with stepper(of, shape, CORES) as first, stepper(of, shape, CORES) as second:
                two_models([first, second], prefix, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
