"""Everything that pages name exists: links, paths, flags and metrics, in links, inline and fenced code of all Markdown
files. Run by ctest, or by hand: python3 tests/tidy/pages_test.py
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import ablations  # noqa: E402
import dynamo_replay  # noqa: E402
import evictions  # noqa: E402
import figures  # noqa: E402
import loads  # noqa: E402
import page_tables  # noqa: E402
import simulations  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
README_LINES = 190
README_COLUMNS = 160  # but for tables
RESULT_LINES = 150
MOST_WORDS = 65_000  # of all pages that people write
GENERATED_PAGES = {"dashboards/metrics.md"}  # dashboards/generate.py
FOLDERS_WITH_A_PAGE = (
    "common", "dashboards", "deploy", "deploy/roostctl", "kernels", "router", "router/route", "schema", "tests", "worker",
    "worker/cache",
)  # fmt: skip
# A file with such a name is in the page's folder or below, if the page names it without its folder.
SOURCE_SUFFIXES = ("h", "cc", "cu", "cuh", "capnp", "sh")
# Flags of other programs in commands of the pages.
FOREIGN_FLAGS = {
    "clang-format-14": {"dry-run"},
    "cosign": {"bundle", "certificate-identity-regexp", "certificate-oidc-issuer"},
    "cmake": {"preset", "build", "target"},
    "ctest": {"preset", "output-on-failure", "rerun-failed", "test-dir"},
    "helm": {"namespace", "values"},
    "kubectl": {"cascade", "from-file", "image", "replicas", "timeout", "type"},
    "systemctl": {"now"},
    "valgrind": {"tool"},
    "vllm": {"enable-prefix-caching", "enable-prompt-tokens-details", "kv-events-config"},
}
# Programs that run another one, whose flags follow theirs.
RUNNERS = {"podman": {"entrypoint", "network", "read-only", "rm", "tmpfs"}}
TEST_FLAGS = {"gtest_filter"}  # of every test program
PROGRAM_SOURCES = {
    "roost-worker": ["worker/options.cc"],
    "roost-router": ["router/options.cc"],
    "roostctl": ["deploy/roostctl/**/*.cc"],
}
COMMON_FLAGS = {"help", "version", "config", "print-config"}
MAX_DAEMON_FLAGS = 98  # distinct names of router and worker together, without the common ones


def git_files(*patterns):
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def flags_in(path):
    """The flags that a source declares, without dashes."""
    text = path.read_text()
    if path.suffix == ".cc":
        return set(re.findall(r'(?:Add(?:Bytes|Choice|List|Secret|Switch)?|DeclareAccess)\(\s*"([a-z][a-z0-9-]*)"', text))
    if path.suffix == ".py":
        return set(re.findall(r'add_argument\(\s*"--([a-z][a-z0-9-]*)"', text))
    labels = re.findall(r"^\s*((?:-[\w-]+ *\| *)*--[\w-]+(?: *\| *-[\w-]+)*)\)", text, re.MULTILINE)  # of a case
    compared = re.findall(r"= *[\"']?(--[a-z][a-z0-9-]*)", text)
    return set(re.findall(r"--([a-z][a-z0-9-]*)", " ".join([*labels, *compared])))


def program_flags():
    """Program -> its flags; "" -> the flags of all programs and scripts."""
    flags = {}
    for program, patterns in PROGRAM_SOURCES.items():
        sources = [path for pattern in patterns for path in ROOT.glob(pattern)]
        flags[program] = set().union(COMMON_FLAGS, *map(flags_in, sources))
    scripts = git_files("*.py", "*.sh", ".ci/*")
    flags[""] = set().union(*flags.values(), *map(flags_in, scripts))
    return flags


def metric_names():
    return set(re.findall(r'"(roost_(?:router|worker)_\w+)"', (ROOT / "common/metrics/catalog.h").read_text()))


def fenced(text):
    return re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def without_fences(text):
    return re.sub(r"^```[^\n]*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def code_of(text):
    """Inline code and fenced code."""
    return re.findall(r"`([^`\n]+)`", without_fences(text)) + fenced(text)


def anchors_of(text):
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", without_fences(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(name, folder):
    """A path from the top or from the page's folder, with * for any name."""
    return any(True for base in (ROOT, folder) for _ in base.glob(name.rstrip("/")))


def commands(block):
    """The command lines of a fenced block, continued ones joined."""
    return [line.strip() for line in block.replace("\\\n", " ").splitlines()]


def flags_used(text):
    return re.findall(r"(?<![\w-])--([a-z][\w-]+)", text)


class Pages:
    """Finds names in a page that the repository does not have."""

    def __init__(self):
        self.flags = program_flags()
        self.metrics = metric_names()
        self.files = git_files()
        self.tops = {path.relative_to(ROOT).parts[0] for path in self.files if path.parent != ROOT}
        self.file_pattern = re.compile(rf"[\w-]+\.(?:{'|'.join(SOURCE_SUFFIXES)})")

    def problems(self, page, text):
        """Checks the text of the page at that path."""
        return [
            *self.dead_links(page, text),
            *self.missing_paths(page, text),
            *self.unknown_flags(text),
            *self.unknown_metrics(text),
        ]

    def dead_links(self, page, text):
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", without_fences(text))):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                yield f"there is no {link}"
            elif anchor and anchor not in anchors_of(text if target == page else target.read_text()):
                yield f"no heading makes the anchor of {link}"

    def missing_paths(self, page, text):
        folders = {*self.tops, *(path.name for path in page.parent.iterdir() if path.is_dir())} - {"build", ".git"}
        begins = "|".join(map(re.escape, sorted(folders)))
        path_pattern = re.compile(rf"(?<![\w/.:-])(?:\./)?((?:{begins})/[\w.*/-]*[\w*/])")
        for code in code_of(text):
            for name in path_pattern.findall(code):
                if not is_there(name, page.parent):
                    yield f"there is no {name}"
            if self.file_pattern.fullmatch(code) and not self.is_below(page.parent, code):
                yield f"there is no {code}"

    def is_below(self, folder, file_name):
        return any(path.name == file_name and folder in path.parents for path in self.files)

    def unknown_flags(self, text):
        for code in re.findall(r"`([^`\n]+)`", without_fences(text)):
            yield from self.unknown_flags_of(code)
        for block in fenced(text):
            for command in commands(block):
                yield from self.unknown_flags_of(command)

    def unknown_flags_of(self, line):
        # The words after "--" are the command of another program, as in kubectl exec … -- roostctl status.
        for command in line.split(" -- "):
            yield from self.unknown_flags_of_program(command)

    def unknown_flags_of_program(self, command):
        words = [pathlib.PurePath(word).name for word in command.split()]
        known = self.flags[""]
        for before, program in zip(["", *words], words):
            if program.endswith("_test"):
                known = TEST_FLAGS
                break
            if program in FOREIGN_FLAGS and not before.startswith("--"):  # or it is a flag's value, as in --engine vllm
                known = FOREIGN_FLAGS[program]
                break
            if program in RUNNERS:
                known = RUNNERS[program] | self.flags[""]
                break
            if program in self.flags:
                known = self.flags[program]
                break
        for flag in flags_used(command):
            if flag not in known:
                yield f"'{command}': there is no --{flag}"

    def unknown_metrics(self, text):
        for name in re.findall(r"(?<![\w:])roost_(?:router|worker)_\w+(?![\w:])", "\n".join(code_of(text))):
            if not name.endswith("_") and re.sub(r"_(bucket|sum|count)$", "", name) not in self.metrics:
                yield f"there is no metric {name}"


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = Pages()

    def problems(self, text):
        return list(self.pages.problems(ROOT / "worker/README.md", text))

    def test_vllm_gets_the_same_settings_of_events_everywhere(self):
        """README, the page of vLLM and the manifests: a reader who follows two of them must not wonder which is right."""
        found = {}
        for name in ("README.md", "worker/adapters/README.md", "deploy/compose.vllm.yaml", "deploy/components/vllm/worker.yaml",
                     "deploy/helm/roost/templates/_vllm.tpl"):
            for settings in re.findall(r'\{[^{}]*"publisher"[^{}]*\}', (ROOT / name).read_text()):
                found[name] = json.loads(settings)
        self.assertEqual(len(found), 5, found.keys())
        for name, settings in found.items():
            self.assertEqual(settings, found["README.md"], name)

    def test_the_first_page_is_short(self):
        lines = (ROOT / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), README_LINES, "README.md: move what is long into the README.md of its folder")
        self.assertEqual([line for line in lines if len(line) > README_COLUMNS and not line.startswith("|")], [])

    def test_all_pages_can_be_read(self):
        pages = [page for page in git_files("*.md") if str(page.relative_to(ROOT)) not in GENERATED_PAGES]
        words = {str(page.relative_to(ROOT)): len(page.read_text().split()) for page in pages}
        longest = sorted(words, key=words.get)[-5:]
        self.assertLessEqual(sum(words.values()), MOST_WORDS, f"shorten pages; the longest: {longest}")

    def test_every_page_names_what_is_there(self):
        found = []
        for page in git_files("*.md"):
            found += [f"{page.relative_to(ROOT)}: {problem}" for problem in self.pages.problems(page, page.read_text())]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_folder_of_code_has_a_page_and_the_first_page_leads_there(self):
        first = (ROOT / "README.md").read_text()
        for folder in FOLDERS_WITH_A_PAGE:
            self.assertTrue((ROOT / folder / "README.md").is_file(), f"{folder} has no README.md")
            self.assertTrue(f"]({folder}/README.md" in first, f"README.md has no link to {folder}/README.md")

    def test_a_dead_link_is_found(self):
        self.assertEqual(self.problems("[a](../router/nowhere.md)"), ["there is no ../router/nowhere.md"])
        self.assertEqual(self.problems("# Here\n[a](#there)"), ["no heading makes the anchor of #there"])
        self.assertEqual(self.problems("# Here, too\n[a](#here-too) [b](../LICENSE) [c](https://example.org/x)"), [])
        self.assertEqual(self.problems("a pattern: `[a](?:b)`"), [])

    def test_a_missing_path_is_found_in_inline_and_fenced_code(self):
        self.assertEqual(self.problems("`router/nowhere.cc`"), ["there is no router/nowhere.cc"])
        self.assertEqual(self.problems("```sh\n./deploy/nowhere.sh\n```"), ["there is no deploy/nowhere.sh"])
        self.assertEqual(self.problems("`nowhere.h` `model/no.h`"), ["there is no nowhere.h", "there is no model/no.h"])
        there = "`router/main.cc` `worker/` `link_core.h` `loading/weights.h` `kernels/cpu/*_cpu.cc` `a/b.cc`"
        self.assertEqual(self.problems(there), [])

    def test_an_unknown_flag_is_found(self):
        self.assertEqual(self.problems("`--no-such-flag`"), ["'--no-such-flag': there is no --no-such-flag"])
        self.assertEqual(self.problems("`--kv-memory` `roostctl status --router URL` `kubectl scale --replicas=2`"), [])

    def test_the_daemons_have_few_flags(self):
        flags = (program_flags()["roost-router"] | program_flags()["roost-worker"]) - COMMON_FLAGS
        self.assertLessEqual(len(flags), MAX_DAEMON_FLAGS, sorted(flags))

    def test_a_flag_of_another_program_is_found(self):
        command = "roost-router --link-address tcp://127.0.0.1:7001 --kv-memory 1"
        found = self.problems("```sh\nroost-router --link-address tcp://127.0.0.1:7001 \\\n  --kv-memory 1\n```")
        self.assertEqual([problem.split(": ")[-1] for problem in found], ["there is no --kv-memory"], command)
        self.assertEqual(self.problems("`vllm serve --enable-prefix-caching` `--router vllm`"), [])
        inner = "kubectl exec pod --replicas 1 -- roostctl status --{}"
        self.assertEqual(self.problems(f"`{inner.format('router')}`"), [])
        self.assertEqual(len(self.problems(f"`{inner.format('replicas')}`")), 1)

    def test_an_unknown_metric_is_found(self):
        self.assertEqual(self.problems("`roost_router_wishes_total`"), ["there is no metric roost_router_wishes_total"])
        self.assertEqual(self.problems("`rate(roost_router_ttft_seconds_bucket[1m])`"), [])


class DecisionPageTest(unittest.TestCase):
    """A constant of the decision is kept only with its reason, on the page of the decision."""

    MOST_CONSTANTS = 12

    @classmethod
    def setUpClass(cls):
        cls.page = (ROOT / "router/route/README.md").read_text()
        sources = [path.read_text() for path in git_files("router/route/*.h", "router/route/*.cc")]
        cls.declared = set(re.findall(r"constexpr [^;=()]*\b(k[A-Z]\w+) = [^;]+;", "\n".join(sources)))

    def test_every_constant_of_the_decision_has_its_reason(self):
        self.assertIn("kTieSeconds", self.declared)
        self.assertEqual(self.declared - set(re.findall(r"`(k\w+)`", self.page)), set())

    def test_the_decision_has_few_constants(self):
        section = self.page.split("### The constants\n")[1].split("\n### ")[0]
        rows = re.findall(r"^\| (`k\w+`.*?) \|", section, flags=re.MULTILINE)
        self.assertGreater(len(rows), 5)
        names = [name for row in rows for name in re.findall(r"`(k\w+)`", row)]
        self.assertEqual([name for name in names if name not in self.declared], [])
        self.assertLessEqual(len(names), self.MOST_CONSTANTS)


class RoostctlPageTest(unittest.TestCase):
    def test_every_command_has_a_row(self):
        table = (ROOT / "deploy/roostctl/main.cc").read_text().split("kCommands[] = {")[1].split("};")[0]
        sources = "\n".join(path.read_text() for path in git_files("deploy/roostctl/*.cc", "deploy/roostctl/**/*.cc"))
        names = dict(re.findall(r'^const Command (k\w+)\{"([\w-]+)"', sources, flags=re.MULTILINE))
        commands = [names[constant] for constant in re.findall(r"&(k\w+)", table)]
        self.assertIn("explain", commands)
        rows = re.findall(r"^\| (`.*?) \|", (ROOT / "deploy/roostctl/README.md").read_text(), flags=re.MULTILINE)
        named = {word for row in rows for code in re.findall(r"`([^`]+)`", row) for word in code.split()[:1]}
        self.assertEqual([command for command in commands if command not in named], [])


# Members of roostctl simulate's JSON.
LINE = {
    "ttft_mean_s": 1.234, "ttft_p50_s": 0.5, "ttft_p99_s": 10, "itl_mean_s": 0.008, "itl_p99_s": 0.02, "whole_mean_s": 5,
    "whole_p99_s": 9, "goodput_rps": 7, "hit_ratio": 0.25, "imbalance": 1.5,
}  # fmt: skip


class ResultsTest(unittest.TestCase):
    """Scripts that measure keep data; the tables of the pages are made of these, each between its own two markers."""

    def test_pages_say_what_the_data_say(self):
        for page in (page_tables.PAGE, page_tables.FIRST_PAGE):
            self.assertEqual(page.read_text(), page_tables.written(page), f"{page}: tests/page_tables.py writes it")
        self.assertLessEqual(len(page_tables.PAGE.read_text().splitlines()), RESULT_LINES)

    def test_data_are_read_as_they_were_written(self):
        for path in git_files("tests/results/*.tsv"):
            tables = page_tables.parse(path.read_text())
            self.assertEqual("\n".join(table.text() for table in tables.values()), path.read_text(), path.name)
            for table in tables.values():
                self.assertLessEqual(max(map(len, table.rows)), len(table.heads), f"{path.name}: {table.name}")

    def test_a_table_replaces_what_stood_at_its_place_and_nothing_else(self):
        begin, end = page_tables.markers("evictions", "hits")
        page = f"before\n{begin}\nold\n{end}\nafter\n"
        self.assertEqual(
            page_tables.replaced(page, "evictions", "hits", "new\n"), f"before\n{begin}\nnew\n{end}\nafter\n"
        )

    def test_a_page_without_the_place_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "needs '<!-- tests/evictions.py hits -->'"):
            page_tables.replaced("no place", "evictions", "hits", "new")

    def test_runs_are_compared_with_the_first_of_their_load_seed_by_seed(self):
        def runs(*means):
            return [{"ttft_mean_s": mean, "goodput_rps": 7} for mean in means]

        runs_of = {("one", "ours"): runs(1, 2), ("one", "theirs"): runs(1.1, 2.6), ("two", "ours"): runs(3, 3)}
        table = page_tables.compared("paired", "Seeds 1 to 2.", ("load", "policy"), runs_of)
        self.assertEqual(table.heads, ["load", "policy", "ttft_mean_s", "goodput_rps", "ttft_mean_s %", "goodput_rps %"])
        self.assertEqual(table.rows[0], ["one", "ours", "1.5", "7"])
        # 10 and 30 % more: 20 ± 12.706 · 14.14 / √2
        self.assertEqual(table.rows[1], ["one", "theirs", "1.85", "7", "+20 ± 127", "+0.0 ± 0.0"])
        self.assertEqual(table.rows[2], ["two", "ours", "3", "7"])

    def test_a_single_seed_has_no_differences(self):
        table = page_tables.compared("weka", "Seed 1.", ("cluster", "policy"), {("4 × 2M", "random"): [{"goodput_rps": 7}]})
        self.assertEqual(table.text(), "# weka\n# Seed 1.\ncluster\tpolicy\tgoodput_rps\n4 × 2M\trandom\t7\n")

    def test_a_difference_is_bold_beyond_its_interval(self):
        told = [page_tables.later(text) for text in ("+3.1 ± 2.0", "+3 ± 3", "-7 ± 1", "same")]
        self.assertEqual(told, ["**+3.1 ± 2.0**", "+3 ± 3", "-7 ± 1", "same"])

    def test_simulated_times_have_the_units_of_their_columns(self):
        (figures,) = simulations.figures_of([LINE])
        self.assertEqual([figures["itl_mean_ms"], figures["itl_p99_ms"], figures["hits_percent"]], [8, 20, 25])
        (figures,) = simulations.figures_of([{**LINE, "pulls": 7, "pulled_share": 0.015}], simulations.LINK_FIGURES)
        self.assertEqual([figures["pulls"], figures["pulled_percent"]], [7, 1.5])

    def test_a_replay_beside_dynamo_has_both_programs_and_their_difference_in_round_robin(self):
        row = dynamo_replay.Row(2, 10, 8, 20, 90, 0.25)
        other = row._replace(ttft_mean=2.1, whole_mean=19)
        rows = dynamo_replay.table({6.0: ({"round_robin": row}, {"round-robin": other})}, "Now.").rows
        self.assertEqual(rows[0], ["×6", "Dynamo 1.6.1 round_robin", "2", "10", "8", "20", "90", "25.0"])
        self.assertEqual(rows[1], ["×6", "ours round-robin", "2.1", "10", "8", "19", "90", "25.0"])
        differences = dynamo_replay.differences(other, row)
        self.assertEqual([round(100 * value, 3) for value in differences], [5, 0, -5])

    def test_a_table_of_real_daemons_has_the_requests_of_each_worker(self):
        times = {"mean": 0.5, "p99": 2}
        run = {"ttft_seconds": times, "itl_seconds": times, "total_seconds": times, "good_per_second": 3,
               "output_tokens_per_second": 4, "cached_ratio": 0.25, "share_by_worker": {"a": 0.4, "b": 0.6}}  # fmt: skip
        table = loads.table("agents", {"cache-aware": [run] * 2, "lmetric": [run] * 2}, "Now.")
        self.assertEqual([table.heads[-1], *(row[-1] for row in table.rows)], ["requests at each", "40 % 60 %", "40 % 60 %"])
        self.assertEqual({len(row) for row in table.rows}, {len(table.heads)})

    def test_a_table_of_real_daemons_says_what_it_was_measured_with(self):
        options = argparse.Namespace(seeds=8, rate=12.0, seconds=6.0, scale=0.2, workers=2, kv_blocks=4096, model="a/demo-model", costs="")
        said = "Seeds 1 to 8, 12 requests/s for 6 s, lengths times 0.2, 2 workers of 4,096 blocks, model demo-model, commit "
        self.assertEqual(loads.measured("agents", options), f"{said}{page_tables.commit()}.")

    def test_an_eviction_table_has_a_row_per_load_and_pool(self):
        line = "figure eviction_{}_agents_48_500k_{} {} %"
        for kind in evictions.KINDS:
            lines = [line.format(each, policy, 10 * i) for i, policy in enumerate(evictions.POLICIES) for each in (kind, "other")]
            row = ["coding agents (Weka), 48 sessions", "500k", "0.0", "10.0", "20.0", "30.0"]
            self.assertEqual(evictions.table("\n".join(lines), kind).rows, [row])

    def test_every_ablation_changes_what_stands_in_the_source(self):
        for row in ablations.ROWS.values():
            for change in row.changes:
                source = (ROOT / "router/route" / change.file).read_text()
                self.assertNotEqual(ablations.changed(source, change), source, row.title)

    def test_an_ablation_of_what_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "cost.cc has 2 times, not once: kTwo"):
            ablations.changed("kTwo kTwo", ablations.Change("cost.cc", "kTwo", "kOne"))

    def test_an_ablation_is_beside_the_decision_as_it_is(self):
        results = {}
        for cell in simulations.PAIRED_CELLS:
            results[ablations.AS_IS, cell[0]] = [LINE] * 2
            results["pace", cell[0]] = [{**LINE, "ttft_mean_s": 2.468}] * 2
        table = ablations.table("terms", ["pace", "displaced"], results, "Seeds 1 to 2.")
        self.assertEqual([row[1] for row in table.rows], [ablations.AS_IS, "`pace`"] * len(simulations.PAIRED_CELLS))
        self.assertEqual(table.by("load", "without")["reasoning", "`pace`"]["ttft_mean_s %"], "+100 ± 0")

    def test_figures_change_the_values_of_their_rows_alone(self):
        row = "{}_us\t{} us\t{}\twhat\n"
        data = "# index\nfigure\tvalue\tcommit\t\n" + row.format("b", 2, "old")
        changed = figures.replaced(data + row.format("a", 1, "old"), {"a_us": "3.5 us"}, "new")
        self.assertEqual(changed, data + row.format("a", 3.5, "new"))

    def test_figures_are_read_from_the_lines_of_the_benchmarks(self):
        self.assertEqual(figures.measured("noise\nfigure a_us 3.456 us\n"), {"a_us": "3.46 us"})


if __name__ == "__main__":
    unittest.main()
