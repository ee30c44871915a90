"""Plants faults in the product's code, one at a time: each must turn a named test red.

    python3 tests/planted_faults.py build/asan               # all that FAULTS lists
    python3 tests/planted_faults.py build/asan scatter head  # those with one of these words in their names

Tree and build stay as they are: the translation unit with the changed copy of a file is compiled aside, with the build's own
command, and the test's program is linked with it in front of the libraries. Before that the same test must be green. A fault
whose text is no longer in its file fails, and says so.
"""

import dataclasses
import pathlib
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
TEST_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    path: str
    changes: tuple[tuple[str, str], ...]  # (text of the file, what takes its place)
    program: str
    test: str


# Blocks that leave a device.
FAULTS = (
    Fault(
        "only the first rank is awaited",
        "worker/model/tensor_parallel.cc",
        (("    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) (void)ranks_[rank]->AwaitSampled();\n", ""),),
        "worker_model_late_test",
        "LateRanksTest.AFinishedBatchHasEndedOnEveryRank",
    ),
    Fault(
        "a block is gathered before the step that writes it has finished",
        "worker/engine/block_publisher.cc",
        (("stored_.front().step <= finished_count_", "stored_.front().step <= begun_count_"),),
        "worker_engine_travelling_test",
        "TravellingBlocksTest.OnlyFinishedBlocksAreReadable",
    ),
    Fault(
        "an arrived block is told before the step that writes it has finished",
        "worker/engine/block_publisher.cc",
        (("  ++begun_count_;\n  if (readable_ != nullptr) TakeChanges();\n", "  if (readable_ != nullptr) TakeChanges();\n  ++begun_count_;\n"),),
        "worker_engine_travelling_test",
        "TravellingBlocksTest.FramesAreFreeAndBlocksReadableOnceTheStepThatWritesThemHasFinished",
    ),
    Fault(
        "a step does not wait for gathers",
        "worker/model/transformer.cc",
        (("  if (copy_engine_ != nullptr) copy_engine_->HoldOps();\n", ""),),
        "worker_model_late_test",
        "LateRanksTest.AStepThatWritesABlockWaitsForItsGather",
    ),
    Fault(
        "a scatter behind the kernels",
        "worker/model/transformer.cc",
        (
            ("  WriteBlocks(batch);\n  CopyRows(batch);\n  Plan(batch);\n", "  CopyRows(batch);\n  Plan(batch);\n"),
            ("    RunOps();\n  }\n}\n", "    RunOps();\n  }\n  WriteBlocks(batch);\n}\n"),
        ),
        "worker_model_late_travel_test",
        "Ranks/LateTravelTest.BlocksHaveTheSameBytesAndLogitsAreAsNearAsThoseOfOtherBatches/0",
    ),
    Fault(
        "pinned memory is freed before its copy has ended",
        "worker/model/copy_engine.cc",
        (("  streams_->Await(direction, place);\n", ""),),
        "worker_model_late_test",
        "CopyEngineTest.BytesAreRightHoweverLateAndInWhicheverOrderCopiesEnd",
    ),
    Fault(
        "staging is freed before its scatter has ended",
        "worker/engine/engine_step.cc",
        (("  model.Compute(batch, draws);\n", "  model.Compute(batch, draws);\n  next.writes.clear();\n"),),
        "worker_engine_travelling_test",
        "TravellingBlocksTest.FramesAreFreeAndBlocksReadableOnceTheStepThatWritesThemHasFinished",
    ),
    Fault(
        "a rank takes its neighbour's heads",
        "worker/model/transformer.cc",
        (
            (
                "first_kv_head_(RangesOf(config, shard_).kv.begin / config.head_dim)",
                "first_kv_head_(RangesOf(config, {(shard_.rank + 1) % shard_.rank_count, shard_.rank_count}).kv.begin / "
                "config.head_dim)",
            ),
        ),
        "worker_model_late_travel_test",
        "Ranks/LateTravelTest.BlocksHaveTheSameBytesAndLogitsAreAsNearAsThoseOfOtherBatches/1",
    ),
)


def changed(fault):
    """The file's text with the fault."""
    text = (TOP / fault.path).read_text()
    for old, new in fault.changes:
        if text.count(old) != 1:
            sys.exit(f"{fault.name}: {fault.path} has {text.count(old)} times, not once, the text to change:\n{old}")
        text = text.replace(old, new)
    return text


def run(command, build):
    done = subprocess.run(command, cwd=build, shell=True, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def after(words, flag):
    return words[words.index(flag) + 1]


def unit_with(build, commands, path):
    """The compiler's words for the translation unit that is this source, or includes it, and the unit's file."""
    source = str(TOP / path)
    for command in commands:
        words = shlex.split(command)
        if "-c" not in words or "-o" not in words:
            continue
        unit = build / after(words, "-c")
        if str(unit) == source or (unit.suffix == ".cxx" and f'"{source}"' in unit.read_text()):
            return words, unit
    sys.exit(f"{path}: the program has no such source")


def link_with(build, fault, folder):
    """Links the fault's program in `folder`."""
    commands = run(f"ninja -t commands bin/{fault.program}", build).splitlines()
    words, unit = unit_with(build, commands, fault.path)
    copy = folder / pathlib.Path(fault.path).name
    copy.write_text(changed(fault))
    own_unit = copy
    if str(unit) != str(TOP / fault.path):
        own_unit = folder / unit.name
        own_unit.write_text(unit.read_text().replace(str(TOP / fault.path), str(copy)))
    own = {"-c": str(own_unit), "-o": str(folder / "changed.o"), "-MF": str(folder / "changed.d")}
    for flag, value in own.items():
        if flag in words:
            words[words.index(flag) + 1] = value
    run(shlex.join(words), build)
    program = f"-o bin/{fault.program} "
    if commands[-1].count(program) != 1:
        sys.exit(f"{fault.program} is not linked as was thought:\n{commands[-1]}")
    run(commands[-1].replace(program, f"-o {folder / fault.program} {folder / 'changed.o'} "), build)


def is_green(program, test):
    done = subprocess.run(
        [program, f"--gtest_filter={test}"], capture_output=True, text=True, check=False, timeout=TEST_SECONDS
    )
    if f"[ RUN      ] {test}" not in done.stdout:
        sys.exit(f"{program.name} has not run {test}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def main(build, words):
    faults = [each for each in FAULTS if not words or any(word in each.name for word in words)]
    run(f"ninja -j2 {' '.join(sorted({'bin/' + each.program for each in faults}))}", build)
    unnoticed = 0
    for fault in faults:
        if not is_green(build / "bin" / fault.program, fault.test):
            sys.exit(f"{fault.test} is red without a fault")
        with tempfile.TemporaryDirectory() as folder:
            link_with(build, fault, pathlib.Path(folder))
            is_noticed = not is_green(pathlib.Path(folder) / fault.program, fault.test)
        print(f"{'red' if is_noticed else 'NOT NOTICED'} | {fault.name} | {fault.path} | {fault.test}", flush=True)
        unnoticed += not is_noticed
    print(f"{len(faults)} faults, {unnoticed} not noticed")
    return 1 if unnoticed or not faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
