"""Measurements of leases, merged and written into a page; and that tests/results/README.md says what the kept
files say."""

import json
import pathlib
import tempfile
import unittest
from unittest import mock

import gpu_results


def figure(value, unit="ms", commit="a1"):
    return {"value": value, "unit": unit, "date": "2030-01-02T00:00:00Z", "commit": commit}


class GpuResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, value in (("KEPT", self.folder / "figures"), ("PAGE", self.folder / "README.md")):
            patch = mock.patch.object(gpu_results, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def lease(self, name, figures, stages, failed=None, device="cuda:0 NVIDIA H100 80GB HBM3, sm_90"):
        out = self.folder / name
        out.mkdir()
        whole = {"date": "2030-01-02T00:00:00Z", "commit": "a1", "device": device, "figures": figures, "failed": failed or {}}
        (out / "figures.json").write_text(json.dumps(whole))
        lines = [json.dumps({"stage": stage, "rc": code, "seconds": 1}) for stage, code in stages]
        (out / "stages.jsonl").write_text("\n".join(lines) + "\n")
        return out

    def test_a_later_lease_replaces_what_it_measured_and_keeps_the_rest(self):
        first = self.lease("1", {"gpu_a": figure(1)}, [("ops", 1), ("8B", 0), ("ranks", None)], {"gpu_b": "it broke"})
        second = self.lease("2", {"gpu_b": figure(2)}, [("ops", 0), ("8B", None)])
        gpu_results.keep([first, second])
        (path,) = gpu_results.newest()
        self.assertEqual(path.name, "2030-01-02-h100.json")
        kept = json.loads(path.read_text())
        self.assertEqual({name: each["value"] for name, each in kept["figures"].items()}, {"gpu_a": 1, "gpu_b": 2})
        self.assertEqual(kept["failed"], {})
        self.assertEqual({name: record["rc"] for name, record in kept["stages"].items()}, {"ops": 0, "8B": 0, "ranks": None})

    def test_devices_are_not_mixed(self):
        first = self.lease("1", {"gpu_a": figure(1)}, [("ops", 0)])
        second = self.lease("2", {"gpu_a": figure(1)}, [("ops", 0)], device="cuda:0 NVIDIA H200, sm_90")
        with self.assertRaises(SystemExit) as ended:
            gpu_results.keep([first, second])
        self.assertIn("H200", str(ended.exception))

    def test_the_page_has_device_date_commit_and_failures_beside_the_figures(self):
        figures = {"gpu_llama-3.1-8b_start": figure(6, "s"), "torch_llama-3.1-8b_start": figure(7, "s")}
        gpu_results.keep([self.lease("1", figures, [("ops", 0), ("serve", 3)])])
        begin, end = gpu_results.page_tables.markers("bench/gpu_results", "gpu")
        gpu_results.PAGE.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
        page = gpu_results.page()
        self.assertIn("H100 80GB HBM3, sm_90, 2030-01-02, commit a1", page)
        self.assertIn("**Failed: serve.**", page)
        self.assertIn("| `gpu_llama-3.1-8b_start` | 6 s |  | ≤ 5 s, **missed** | 7 |", page)
        self.assertIn("| `gpu_travel_inter_token_beside_10_gb_per_s` | not yet on a device |  | ≤ 1.03 |  |", page)
        self.assertIn("| `gpu_product_8b` | not yet on a device |  | ≥ 75% of the bound |  |", page)
        self.assertTrue(page.startswith("before\n") and page.endswith("\nafter\n"))


class PageTest(unittest.TestCase):
    def test_the_page_has_what_the_kept_files_say(self):
        self.assertEqual(gpu_results.PAGE.read_text(encoding="utf-8"), gpu_results.page())


if __name__ == "__main__":
    unittest.main()
