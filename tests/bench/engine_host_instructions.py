"""Instructions of the host in decode steps of 256 requests, with blocks that could travel and without, by callgrind: the
steps of roost_bench engine_host. Counts do not depend on the machine's load, times of these few microseconds do.

    engine_host_instructions.py      needs a release build with tests
"""

import os
import pathlib
import re
import statistics
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.get("ROOST_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
STEPS = "roost::bench::(anonymous namespace)::HostStation::Run()"
RUNS = ("no_transfer", "host_memory", "bus", "no_transfer", "bus")  # of stations, in the order of engine_host_bench.cc with --quick


def main():
    with tempfile.TemporaryDirectory() as name:
        profile = pathlib.Path(name) / "profile"
        subprocess.run(["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={profile}", f"--toggle-collect={STEPS}",
                        f"--dump-before={STEPS}", BIN / "roost_bench", "engine_host", "--quick"],
                       check=True, stdout=subprocess.DEVNULL)
        dumps = sorted(profile.parent.glob("profile.*"), key=lambda path: int(path.suffix[1:])) + [profile]
        counts = [int(re.search(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE)[1]) for dump in dumps]
    runs = list(zip(RUNS, counts[1:], strict=True))  # the first is of what was before the first run
    mean = {name: statistics.mean(count for run, count in runs if run == name) for name in RUNS}
    print("instructions: " + ", ".join(f"{name} {count}" for name, count in runs))
    for base in ("no_transfer", "host_memory"):
        print(f"figure engine_host_bus_over_{base}_instructions {mean['bus'] / mean[base]:.4f} x")


if __name__ == "__main__":
    main()
