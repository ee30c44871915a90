#!/usr/bin/env python3
"""Collects the figures of a CUDA device from the programs that measure them, even if some fail.

    gpu_figures.py FILE.json [--silence SECONDS] [--figures REGEX] -- PROGRAM [ARGUMENT …] [-- PROGRAM [ARGUMENT …]] …
    gpu_figures.py --show FILE.json

A program answers --list with the names of its figures, and measures those whose names it is given, in order, with a line
`figure <name> <value> <unit>` for each. A program that exits with 77 has nothing to measure here and says why. If a program
ends or falls silent, its current figure has failed, and the program is started again for the remaining ones. FILE.json is
rewritten after every figure, and keeps the figures that it had. --figures picks those whose names match. Each figure is listed with its target, its share of the limit that was measured, or of the
best possible value that follows from these limits (gpu_bounds.py), and the results of PyTorch and transformers.

Exits with 1 when a figure failed, and with 77 when the first program, which is Roost's, found no device. Missing a target is
not a failure.
"""

import argparse
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

import gpu_bounds

SKIPPED = 77
# The members that are kept of a figure; the rest follows from the others.
FACTS = ("value", "unit", "date", "commit")
OURS = "gpu_"
OTHERS = ("torch_", "transformers_")
# Figure -> (comparison, value, whether the value is a share of the figure's limit or bound, so that it holds for any device).
SHARE, ABSOLUTE = True, False
TARGETS = {
    "gpu_decode_attention_64x1024": (">=", 0.6, SHARE),
    "gpu_decode_attention_64x4096": (">=", 0.8, SHARE),
    "gpu_decode_attention_64x32768": (">=", 0.8, SHARE),
    "gpu_prefill_attention": (">=", 0.32, SHARE),
    "gpu_product_8b": (">=", 0.75, SHARE),
    "gpu_shared_prefix_speedup": (">=", 0.25, SHARE),
    "gpu_qwen3-0.6b_serve_256": (">=", 0.3, SHARE),
    "gpu_qwen3-0.6b_host_step_256": ("<=", 50, ABSOLUTE),
    "gpu_llama-3.1-8b_inter_token": (">=", 0.8, SHARE),
    "gpu_llama-3.1-8b_prefill": (">=", 0.7, SHARE),
    "gpu_llama-3.1-8b_ttft_hit_over_cold": ("<=", 0.1, ABSOLUTE),
    "gpu_llama-3.1-8b_start": ("<=", 5, ABSOLUTE),
    "gpu_travel_inter_token_beside_10_gb_per_s": ("<=", 1.03, ABSOLUTE),
}


class Report:
    """The figures so far, in a file."""

    def __init__(self, path):
        self.path = path
        self.figures = {}
        self.failed = {}  # name -> reason
        self.failed_now = set()  # in this run
        self.about = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit()}
        if os.path.exists(path):
            self._go_on()

    def _go_on(self):
        """Takes over what an earlier run has measured on the same device, with its date and commit."""
        with open(self.path, encoding="utf-8") as file:
            before = json.load(file)
        self.figures = {name: {key: figure[key] for key in FACTS if key in figure} for name, figure in before["figures"].items()}
        self.failed = before["failed"]
        self.about = {**{key: before[key] for key in before if key not in ("figures", "failed", "targets_without_figure")}, **self.about}

    def name_device(self, device):
        if self.about.setdefault("device", device) != device:
            sys.exit(f"gpu_figures.py: {self.path} has figures of {self.about['device']}, and this is {device}")

    def add(self, name, value, unit):
        self.failed.pop(name, None)
        self.figures[name] = {"value": value, "unit": unit, **{key: self.about[key] for key in ("date", "commit")}}
        self.write()

    def fail(self, name, reason):
        print(f"gpu_figures.py: {name} failed: {reason}", file=sys.stderr, flush=True)
        self.failed[name] = reason
        self.failed_now.add(name)
        self.write()

    def describe(self, name):
        """The figure with the values to compare it with, as far as they were measured."""
        described = dict(self.figures[name])
        unit = described["unit"]
        limit = gpu_bounds.limit(unit, self.figures)
        if limit is not None and name not in gpu_bounds.LIMITS[unit]:
            described["of_ceiling"] = round(described["value"] / limit, 4)
        described.update(self.beside_bound(name))
        if name.startswith(OURS):
            for prefix in OTHERS:
                other = self.figures.get(prefix + name[len(OURS) :])
                if other:
                    described[prefix.rstrip("_")] = other["value"]
        if name in TARGETS:
            comparison, wanted, is_share = TARGETS[name]
            of_what = f"{wanted:.0%} of the bound" if is_share else f"{wanted} {unit}"
            described["target"] = f"{comparison} {of_what}"
            reached = described.get("of_ceiling") if is_share else described["value"]
            if reached is not None:
                described["met"] = reached >= wanted if comparison == ">=" else reached <= wanted
        return described

    def beside_bound(self, name):
        """The best possible value of such a device, and the share of it that was reached (of its inverse if less is better)."""
        bound = gpu_bounds.bound(name, self.figures)
        if bound is None:
            return {}
        value, direction = bound
        reached = self.figures[name]["value"] / value
        share = reached if direction == ">=" else 1 / reached
        return {"bound": float(f"{value:.4g}"), "of_ceiling": round(share, 4)}

    def write(self):
        described = {name: self.describe(name) for name in self.figures}
        missing = [name for name in TARGETS if name not in self.figures]
        whole = {**self.about, "figures": described, "failed": self.failed, "targets_without_figure": missing}
        beside = f"{self.path}.new"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(whole, file, indent=1)
            file.write("\n")
        os.replace(beside, self.path)

    def table(self):
        rows = [("figure", "value", "unit", "bound", "of ceiling", "target", "met", "torch", "transformers")]
        for name in self.figures:
            figure = self.describe(name)
            met = {True: "yes", False: "NO", None: ""}[figure.get("met")]
            share = f"{figure['of_ceiling']:.0%}" if "of_ceiling" in figure else ""
            others = [f"{figure[other]:.4g}" if other in figure else "" for other in ("torch", "transformers")]
            value = f"{figure['value']:.4g}"
            bound = f"{figure['bound']:.4g}" if "bound" in figure else ""
            rows.append((name, value, figure["unit"], bound, share, figure.get("target", ""), met, *others))
        blank = [""] * (len(rows[0]) - 2)
        rows += [(name, "FAILED", *blank) for name in self.failed]
        rows += [(name, "not measured", *blank) for name in TARGETS if name not in self.figures | self.failed]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def commit():
    """The commit that is measured; without a checkout, ROOST_COMMIT names it."""
    if "ROOST_COMMIT" in os.environ:
        return os.environ["ROOST_COMMIT"]
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Lines:
    """A running program: its lines as they come, and the end of its stderr, which is passed on."""

    def __init__(self, command):
        # Its own process group, so that its children end with it.
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.last_error = ""
        self.lines = queue.Queue()
        self.readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._pass_on)]
        for reader in self.readers:
            reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _pass_on(self):
        for line in self.process.stderr:
            self.last_error = line.strip() or self.last_error
            print(line, end="", file=sys.stderr, flush=True)

    def next(self, silence):
        """The next line, None at the end; raises queue.Empty if none comes for this many seconds."""
        return self.lines.get(timeout=silence)

    def end(self):
        """Its exit code, once it has ended or been killed together with its children."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = self.process.wait() if code is None else code
        for reader in self.readers:
            reader.join(5)
        return code


def list_figures(command, silence):
    """The names; if there are none, also the reason, or None if there is nothing to measure here."""
    try:
        program = Lines([*command, "--list"])
    except OSError as error:
        return [], str(error)
    names = []
    try:
        while (line := program.next(silence)) is not None:
            names.append(line)
    except queue.Empty:
        program.process.kill()
    code = program.end()
    if code == 0:
        return names, None
    return [], None if code == SKIPPED else program.last_error or f"--list ended with {code}"


def run(command, names, silence, report):
    """Measures as many of the names as one process can. Returns those that it reached, and why it stopped."""
    program = Lines([*command, *names])
    done = []
    reason = None
    try:
        while (line := program.next(silence)) is not None:
            print(line, flush=True)
            words = line.split()
            if words[:1] == ["device"]:
                report.name_device(line.removeprefix("device "))
            if len(words) == 4 and words[0] == "figure":
                report.add(words[1], float(words[2]), words[3])
                done.append(words[1])
    except queue.Empty:
        program.process.kill()
        reason = f"nothing was heard of it for {silence:g} s"
    code = program.end()
    if reason is None and len(done) < len(names):
        reason = program.last_error or f"the program ended with {code}"
    return done, reason


def measure(command, names, silence, report):
    while names:
        done, reason = run(command, names, silence, report)
        names = [name for name in names if name not in done]
        if names:
            report.fail(names.pop(0), reason)


def split(arguments):
    parts = [[]]
    for argument in arguments:
        if argument == "--":
            parts.append([])
        else:
            parts[-1].append(argument)
    return parts[0], parts[1:]


def parse(arguments):
    ours, commands = split(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--silence", type=float, default=120.0)
    parser.add_argument("--figures", default="")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args(ours)
    if options.show == bool(commands) or not all(commands):
        parser.error("a program to run stands behind each --, and none with --show")
    return options, commands


def main():
    options, commands = parse(sys.argv[1:])
    report = Report(options.file)
    if options.show:
        print(report.table())
        return 0
    skipped = []
    for command in commands:
        names, reason = list_figures(command, options.silence)
        names = [name for name in names if re.search(options.figures, name)]
        if reason:
            report.fail(command[-1], reason)
        elif not names:
            skipped.append(command)
        measure(command, names, options.silence, report)
    if len(skipped) == len(commands):
        return SKIPPED
    if commands[0] in skipped:
        report.fail(commands[0][0], "it has no such figure, or found no device")
    print(report.table())
    return 1 if report.failed_now else 0


if __name__ == "__main__":
    sys.exit(main())
