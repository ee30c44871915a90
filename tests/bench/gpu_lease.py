#!/usr/bin/env python3
"""Checks and measures a CUDA device within a fixed time, stage after stage.

    gpu_lease.py BIN OUT SECONDS [--only STAGE,STAGE|all]

BIN has the programs of a pack (gpu_pack.sh). Each stage is a command in its own process group under `timeout`; its output
goes to OUT/log, and one line {stage, rc, seconds, commit, device} to OUT/stages.jsonl. A stage for which too little time is
left is skipped, with that reason in place of rc. Only a failing probe stops the rest. --only runs the named stages, for what
failed or was not reached before, `travel` those of blocks that travel; `all` includes the stages that run only by name. Figures are in OUT/figures.json, where
those of earlier runs stay. The last lines of the output are the stages and the figures.

Exits with 1 if a stage failed, and with 77 if the probe found no device.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = sys.executable
NO_DEVICE = 77
MAX_LOG_BYTES = 15 << 20
KILL_AFTER = "5"  # seconds after the limit
# A stage is worth its start with this share of its limit.
LEAST_SHARE = 0.5
LAST_LINES = 40


class Stage:
    """`least` is the time that must be left for it; `by_name_only` stages run when --only names them, or their group: a name up to
    its first dash."""

    def __init__(self, name, limit, command, least=None, by_name_only=False):
        self.name = name
        self.limit = limit
        self.least = limit * LEAST_SHARE if least is None else least
        self.command = [str(word) for word in command]
        self.by_name_only = by_name_only

    def is_named(self, names):
        return self.name in names or (self.by_name_only and self.name.partition("-")[0] in names)


def stages(bin_folder, out):
    """In the order in which they run: what later ones rest on comes first, and what may spoil the device last."""
    ops, models = bin_folder / "kernels_cuda_gpu_test", bin_folder / "worker_model_gpu_test"
    tests = [PYTHON, HERE / "gpu_tests.py"]
    collect = [PYTHON, HERE / "gpu_figures.py", out / "figures.json", "--silence", "60"]

    def ours(pattern):
        return [*collect, "--figures", pattern, "--", bin_folder / "roost_gpu_bench"]

    def others(pattern):
        return [*collect, "--figures", pattern, "--", PYTHON, HERE / "torch_figures.py"]

    def start(shape):
        return ["--", PYTHON, HERE / "start_figure.py", "--bin", bin_folder, "--shape", shape]

    travel = [PYTHON, HERE / "gpu_travel.py", "--bin", bin_folder]
    return [
        Stage("probe", 15, ["bash", HERE / "gpu_probe.sh", bin_folder, out]),
        Stage("ops", 60, [*tests, ops, "--without", "DeviceFailure"]),
        Stage("model", 45, [*tests, models, "--without", "CudaRanks"]),
        Stage("serve", 45, [PYTHON, HERE / "gpu_serve.py", "--bin", bin_folder]),
        Stage("kernels", 40, ours("^gpu_(copy|product|decode|prefill|shared)_")),
        Stage("0.6B", 35, ours("0.6b")),
        Stage("8B", 70, ours("8b_(inter|prefill|ttft)")),
        Stage("torch", 40, others("^torch_")),
        Stage("ranks", 20, [*tests, models, "--only", "CudaRanks", "--may-skip", "devices are needed"]),
        Stage("sanitizer", 50, ["bash", HERE / "gpu_sanitizer.sh", bin_folder]),
        Stage("start", 40, [*collect, "--figures", "0.6b_start", *start("qwen3-0.6b")]),
        Stage("ncu", 40, ["bash", HERE / "gpu_ncu.sh", bin_folder]),
        Stage("failures", 20, [*tests, ops, "--only", "DeviceFailure"]),
        # Its weights are 16 GB, which have to be made first.
        Stage("start-8B", 120, [*collect, "--figures", "8b_start", *start("llama-3.1-8b")], least=120),
        Stage("transformers", 90, others("^transformers_"), by_name_only=True),
        Stage("travel-copies", 15, ours("^gpu_travel_(out|in)($|_over)"), by_name_only=True),
        Stage("travel-decodes", 30, ours("^gpu_travel_inter_token_"), by_name_only=True),
        Stage("travel-fetch", 30, [*collect, "--figures", "^gpu_travel_f", "--", *travel, "first-token"], by_name_only=True),
        Stage("travel-soak", 50, [*travel, "soak"], by_name_only=True),
        Stage("travel-kill", 25, [*travel, "--seconds", 10, "kill"], by_name_only=True),
    ]


class Lease:
    """Runs stages until the time is up, and writes down what became of each."""

    def __init__(self, out, seconds):
        self.out = out
        self.end = time.monotonic() + seconds
        self.log = open(out / "log", "ab")
        self.records = []

    def left(self):
        return self.end - time.monotonic()

    def run(self, stage):
        """The exit code; None if the stage was skipped."""
        left = self.left()
        if left < stage.least:
            self.note(stage, None, 0, f"{left:.0f} s are left, and it needs {stage.least:.0f}")
            return None
        limit = min(stage.limit, left)
        self.log.write(f"\n==== {stage.name}: {' '.join(stage.command)} ====\n".encode())
        self.log.flush()
        begin = time.monotonic()
        code = self.run_within(stage.command, limit)
        reason = f"cut at its limit of {limit:.0f} s" if code in (124, 137) else None
        self.note(stage, code, time.monotonic() - begin, reason)
        return code

    def run_within(self, command, limit):
        process = subprocess.Popen(
            ["timeout", "-k", KILL_AFTER, f"{limit:.0f}", *command], stdout=self.log, stderr=self.log, start_new_session=True
        )
        code = process.wait()
        end_descendants()
        return 128 - code if code < 0 else code

    def note(self, stage, code, seconds, reason=None):
        record = {"stage": stage.name, "rc": code, "seconds": round(seconds, 1)}
        record.update(commit=os.environ.get("ROOST_COMMIT", "unknown"), device=self.device())
        if reason:
            record["reason"] = reason
        self.records.append(record)
        with open(self.out / "stages.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(f"stage {describe(record)}", flush=True)

    def device(self):
        """The name that the probe has found."""
        path = self.out / "device"
        return path.read_text(encoding="utf-8").strip() if path.exists() else "unknown"


def adopt_orphans():
    """From now on a process whose parent has ended is a child of this one, whatever its group and session."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def children():
    of_this = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(child) for child in of_this.read_text().split()]


def end_descendants():
    """Ends what a stage has left behind. The children of a process that ends become this one's."""
    while left := children():
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def describe(record):
    outcome = "skipped" if record["rc"] is None else "ok" if record["rc"] == 0 else f"FAILED ({record['rc']})"
    reason = f"  {record['reason']}" if "reason" in record else ""
    return f"{record['stage']:<13}{outcome:<14}{record['seconds']:>6.1f} s{reason}"


def shorten(path):
    """Keeps the beginning and the end of a file that is too large to be sent back."""
    size = path.stat().st_size
    if size <= MAX_LOG_BYTES:
        return
    with open(path, "rb") as file:
        begin = file.read(MAX_LOG_BYTES // 2)
        file.seek(size - MAX_LOG_BYTES // 2)
        path.write_bytes(begin + b"\n[...]\n" + file.read())


def print_summary(lease, out):
    lines = [describe(record) for record in lease.records]
    figures = out / "figures.json"
    if figures.exists():
        shown = subprocess.run(
            [PYTHON, HERE / "gpu_figures.py", "--show", figures], capture_output=True, text=True, check=False
        )
        lines += [""] + shown.stdout.splitlines()
    print("\n" + "\n".join(lines[:LAST_LINES]))


def chosen(all_stages, only):
    if only is None:
        return [stage for stage in all_stages if not stage.by_name_only]
    names = only.split(",")
    if names == ["all"]:
        return all_stages
    unknown = {name for name in names if not any(stage.is_named([name]) for stage in all_stages)}
    if unknown:
        sys.exit(f"gpu_lease.py: there is no stage {', '.join(sorted(unknown))}")
    # The probe is cheap, and names the device.
    return [stage for stage in all_stages if stage.is_named(names) or stage.name == "probe"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    selected = chosen(stages(options.bin.resolve(), options.out.resolve()), options.only)
    adopt_orphans()
    lease = Lease(options.out, options.seconds)
    codes = []
    for stage in selected:
        codes.append(lease.run(stage))
        if stage.name == "probe" and codes[-1] != 0:
            break
    lease.log.close()
    shorten(options.out / "log")
    print_summary(lease, options.out)
    if codes == [NO_DEVICE]:
        return NO_DEVICE
    return 1 if any(code not in (0, None) for code in codes) else 0


if __name__ == "__main__":
    sys.exit(main())
