"""Instructions of the host in decode steps of 256 requests, with blocks that could travel and without, by callgrind: the
steps of roost_bench engine_host. Counts do not depend on the machine's load, times of these few microseconds do.

    engine_host_instructions.py      needs a release build with tests
"""

import os
import pathlib
import re
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.get("ROOST_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
STEPS = "*Station::Run()*"
RUNS = ("off", "host_memory", "bus", "off", "bus")  # of stations, in the order of engine_host_bench.cc with --quick


def main():
    with tempfile.TemporaryDirectory() as name:
        profile = pathlib.Path(name) / "profile"
        subprocess.run(["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={profile}", f"--toggle-collect={STEPS}",
                        f"--dump-after={STEPS}", BIN / "roost_bench", "engine_host", "--quick"],
                       check=True, stdout=subprocess.DEVNULL)
        dumps = sorted(profile.parent.glob("profile.*"), key=lambda path: int(path.suffix[1:]))
        counts = [int(re.search(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE)[1]) for dump in dumps]
    runs = list(zip(RUNS, [count for count in counts if count > 0], strict=True))
    off, bus = ([count for name, count in runs if name == wanted] for wanted in ("off", "bus"))
    print("instructions: " + ", ".join(f"{name} {count}" for name, count in runs))
    print(f"figure engine_host_bus_over_no_transfer_instructions {sum(bus) / sum(off):.4f} x")


if __name__ == "__main__":
    main()
