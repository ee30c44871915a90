#!/usr/bin/env python3
"""Keeps what leases have measured, and writes the table of the page tests/results/README.md.

    gpu_results.py keep OUT …     merges the results of leases of one device into figures/<date>-<device>.json beside this file;
                                  figures and stages of later ones replace earlier ones
    gpu_results.py write          the table of figures with a target, from the newest file of each device
    gpu_results.py check          exits with 1 if the page says something else

Attention: 64 query heads on 8 KV heads of 128, bytes of K and V; prefill_attention: 8,192 tokens, half of the square.
shared_prefix: 64 decodes behind 8,192 tokens that all share, against 64 prefixes. travel_inter_token: 64 decodes behind 4,096
tokens beside copies of blocks, over those without copies. serve_256: 256 requests at once, prompts
and outputs of 100 to 1,024 tokens. host_step: the host's part of a step of 256 decodes, which runs while the device
computes. inter_token: one request behind 512 tokens. ttft_hit_over_cold: 8,192 tokens, cached over new. start: from the
start of the process to a client's first token, weights in the page cache. copy_bandwidth: bytes read and written.
"""

import json
import pathlib
import re
import sys

import gpu_figures

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import page_tables  # noqa: E402

KEPT = HERE / "figures"
PAGE = page_tables.PAGE


def short_name(device):
    """h200 of 'cuda:0 NVIDIA H200, sm_90, 139 GiB'."""
    found = re.search(r"\b([A-Z]+\d+\w*)\b", device.replace("NVIDIA", ""))
    return found.group(1).lower() if found else "device"


def stages_of(out):
    lines = (out / "stages.jsonl").read_text(encoding="utf-8").splitlines()
    return {record["stage"]: record for record in map(json.loads, lines)}


def merge(folders):
    stages = {}
    figures = {}
    about = {}
    for folder in folders:
        for name, record in stages_of(folder).items():
            # A stage that was not reached replaces nothing.
            if record["rc"] is not None or name not in stages:
                stages[name] = record
        path = folder / "figures.json"
        if not path.exists():
            continue
        measured = json.loads(path.read_text(encoding="utf-8"))
        if about.setdefault("device", measured["device"]) != measured["device"]:
            sys.exit(f"gpu_results.py: {folder} is of {measured['device']}, and others of {about['device']}")
        about["date"] = max(about.get("date", ""), measured["date"])
        about["commit"] = measured["commit"]
        about["failed"] = {**about.get("failed", {}), **measured["failed"]}
        for name, figure in measured["figures"].items():
            figures[name] = figure
            about["failed"].pop(name, None)
    if not figures:
        sys.exit("gpu_results.py: no lease has measured a figure")
    return {**about, "figures": figures, "stages": stages}


def keep(folders):
    merged = merge(folders)
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{merged['date'][:10]}-{short_name(merged['device'])}.json"
    path.write_text(json.dumps(merged), encoding="utf-8")
    report = gpu_figures.Report(path)
    report.about.update(date=merged["date"], commit=merged["commit"])
    report.write()  # shares follow from all figures together
    print(path)


def newest():
    """The newest file of each device."""
    paths = {path.stem[11:]: path for path in sorted(KEPT.glob("????-??-??-*.json"))}
    return [paths[name] for name in sorted(paths)]


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def row(name, figure):
    share = f"{figure['of_ceiling']:.0%}" if "of_ceiling" in figure else ""
    met = {True: "met", False: "**missed**", None: ""}[figure.get("met")]
    target = f"{figure['target'].replace('>=', '≥').replace('<=', '≤')}, {met}" if "target" in figure else ""
    others = figure.get("torch", figure.get("transformers"))
    return [f"`{name}`", f"{number(figure['value'])} {figure['unit']}", share, target, number(others) if others else ""]


def table(path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    ours = {name: figure for name, figure in kept["figures"].items() if name.startswith(gpu_figures.OURS)}
    failed = [record["stage"] for record in kept["stages"].values() if record["rc"] not in (0, None)]
    about = f"{kept['device']}, {kept['date'][:10]}, commit {kept['commit']}."
    about += f" **Failed: {', '.join(failed)}.**" if failed else ""
    rows = [row(name, figure) for name, figure in ours.items() if "target" in figure]
    for name, (comparison, wanted, is_share) in gpu_figures.TARGETS.items():
        if name not in kept["figures"]:
            target = f"{'≥' if comparison == '>=' else '≤'} {f'{wanted:.0%} of the bound' if is_share else wanted}"
            rows.append([f"`{name}`", "not yet on a device", "", target, ""])
    return page_tables.markdown([about, "value", "share of the bound", "target", "PyTorch"], rows)


def page():
    return page_tables.replaced(PAGE.read_text(encoding="utf-8"), "bench/gpu_results", "gpu", "\n\n".join(map(table, newest())))


def main():
    verb, folders = sys.argv[1:2], [pathlib.Path(folder) for folder in sys.argv[2:]]
    if verb == ["keep"] and folders:
        keep(folders)
    elif verb == ["write"] and not folders:
        PAGE.write_text(page(), encoding="utf-8")
    elif verb == ["check"] and not folders:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("gpu_results.py: tests/results/README.md says something else; gpu_results.py write makes it")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
