#!/usr/bin/env python3
"""Runs gpuactors-bench as a user would: program_test.py GPUACTORS_BENCH"""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = os.path.abspath(sys.argv[1])
SVG = "{http://www.w3.org/2000/svg}"


def bench(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=90, check=False, **options)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def run_well(self, *arguments):
        done = bench(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refusal(self, *arguments, code=1):
        done = bench(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def picture(self, name):
        root = xml.etree.ElementTree.parse(self.path(name)).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        return root

    def rows(self, **more):
        """A file of two rows that were measured before: a time and a rate."""
        rows = [{"name": "call", "value": 12.0, "unit": "us", "floor": 10.0, "floor_ratio": 1.2, "least": 1.1,
                 "most": 1.4, "bound": 1.15, "at_most": True, "peer": None, "peer_ratio": None, "peer_bound": None},
                {"name": "rate", "mode": "plain", "value": 100.0, "unit": "1/s", "floor": None, "floor_ratio": None,
                 "least": 1, "most": 1, "bound": None, "at_most": False, "peer_name": "other", "peer_bound": 5}]
        return self.write("rows.json", {"machine": {"processor": "a < b"}, "peer": None, "rows": rows, **more})

    def test_a_row_is_measured_beside_its_floor_and_written_in_every_form(self):
        table = self.run_well("--filter", "ledger_grant_release_8_devices", "--repeat", "1", "--json",
                              self.path("rows.json"), "--svg", self.path("rows.svg"))
        report = self.read("rows.json")
        for name in ("processor", "hardware threads", "kernel", "compiler", "CAF", "OpenBLAS", "CUDA driver"):
            self.assertIn(name, report["machine"])
            self.assertIn(report["machine"][name], table)
        (row,) = report["rows"]
        self.assertEqual(row["name"], "ledger_grant_release_8_devices")
        self.assertGreater(row["value"], 0)
        self.assertAlmostEqual(row["floor_ratio"], row["value"] / row["floor"])
        self.assertIsNone(row["peer"])
        self.assertEqual(len(self.picture("rows.svg").findall(f"{SVG}rect[@class='floor']")) +
                         len(self.picture("rows.svg").findall(f"{SVG}rect[@class='floor missed']")), 2)

    def test_a_call_between_processes_stands_beside_bytes_over_tcp(self):
        self.run_well("--filter", "beside_tcp", "--repeat", "1", "--json", self.path("rows.json"))
        (row,) = self.read("rows.json")["rows"]
        self.assertGreater(row["floor"], 0)
        self.assertAlmostEqual(row["floor_ratio"], row["value"] / row["floor"])

    def test_numbers_of_a_peer_stand_beside_rows_of_the_same_name(self):
        peers = self.write("peers.json", {"peer": "Ray 9", "rows": [{"name": "other", "value": 25, "unit": "1/s"},
                                                                    {"name": "nobody's", "value": 1, "unit": "1/s"}]})
        table = self.run_well("--from", self.rows(), "--peers", peers, "--json", self.path("all.json"), "--svg",
                              self.path("all.svg"))
        report = self.read("all.json")
        call, rate = report["rows"]
        self.assertEqual((report["peer"], call["peer"], rate["peer"], rate["peer_ratio"]), ("Ray 9", None, 25, 4))
        self.assertEqual((call["holds"], rate["holds"]), (False, False))
        self.assertIn("PEER is Ray 9.", table)
        self.assertIn(">= 5 MISSED", table)
        self.assertIn("<= 1.15 MISSED", table)
        picture = self.picture("all.svg")
        self.assertIn("beside Ray 9", "".join(picture.itertext()))
        self.assertEqual(len(picture.findall(f"{SVG}line[@class='bound']")), 2)
        # A time of 1.2 of the floor is drawn to the left of the line at 1, a rate of 4 times the peer's to the right.
        one = float(picture.find(f"{SVG}line[@class='one']").get("x1"))
        bars = {kind: picture.findall(f"{SVG}rect[@class='{kind} missed']")[-1] for kind in ("floor", "peer")}
        self.assertLess(float(bars["floor"].get("x")), one - 1)
        self.assertAlmostEqual(float(bars["peer"].get("x")), one, delta=0.2)

    def test_what_was_read_is_written_the_same_way_again(self):
        self.run_well("--from", self.rows(), "--json", self.path("once.json"))
        self.run_well("--from", self.path("once.json"), "--json", self.path("twice.json"))
        self.assertEqual(self.read("once.json"), self.read("twice.json"))
        self.assertEqual(self.read("once.json")["machine"], {"processor": "a < b"})

    def test_files_that_are_wrong_are_refused_before_anything_is_measured(self):
        rows = self.rows()
        self.assertIn("is not JSON", self.refusal("--from", self.write("a", "{")))
        self.assertIn("is not a file of rows", self.refusal("--from", self.write("b", {"rows": [{"name": 1}]})))
        self.assertIn("No such file", self.refusal("--peers", self.path("nothing")))
        self.assertIn("cannot be written", self.refusal("--json", self.path("nowhere/rows.json")))
        self.assertIn("is a folder", self.refusal("--svg", self.folder))
        other = self.write("unit", {"peer": "x", "rows": [{"name": "call", "value": 1, "unit": "ms"}]})
        self.assertIn("has call in ms, and here it is in us", self.refusal("--from", rows, "--peers", other))
        self.assertIn("no row has a name with \"nonsense\" in it", self.refusal("--filter", "nonsense", code=2))
        self.assertIn("1_1_actor_calls_sync", self.refusal("--ray", "--filter", "nonsense", "--modes", "embedded", code=2))

    def test_rows_of_rays_microbenchmark_run_in_processes_and_embedded(self):
        self.run_well("--ray", "--filter", "actor_calls_sync", "--seconds", "0.02", "--rounds", "1", "--modes",
                      "plain,embedded", "--json", self.path("rows.json"))
        rows = {(row["name"], row["mode"]): row for row in self.read("rows.json")["rows"]}
        self.assertEqual(sorted(rows), [(f"1_1_{kind}actor_calls_sync", mode) for kind in ("", "async_")
                                        for mode in ("embedded", "plain")])
        row = rows["1_1_actor_calls_sync", "plain"]
        self.assertGreater(row["floor"], 0)
        self.assertEqual((row["unit"], row["peer_bound"], row["at_most"]), ("1/s", 5, False))

    def test_groups_are_made_in_a_cluster_that_keeps_them_in_a_file(self):
        self.run_well("--ray", "--filter", "removal_stored", "--seconds", "0.02", "--rounds", "1", "--modes",
                      "plain,embedded", "--json", self.path("rows.json"))
        (row,) = self.read("rows.json")["rows"]
        self.assertEqual((row["mode"], row["peer_name"]), ("plain", "placement_group_create/removal"))

    def test_rows_for_gpus_run_on_a_host_device_too(self):
        self.run_well("--filter", "gpu_", "--device", "host", "--repeat", "1", "--json", self.path("rows.json"))
        rows = self.read("rows.json")["rows"]
        self.assertEqual({row["mode"] for row in rows}, {"host"})
        self.assertEqual(len(rows), 7)

    def test_without_a_gpu_its_rows_are_left_out_in_words(self):
        done = bench("--filter", "gpu_", "--repeat", "1", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("7 rows need a GPU and are left out: ", done.stderr)

    def test_growth_is_written_as_tables_and_pictures(self):
        done = bench("--growth", self.path("growth"), "--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("growth: devices 800 of 800", done.stderr)
        for name, size in (("devices", 800), ("pending", 1000), ("actors", 100), ("messages", 32768), ("nodes", 10)):
            with open(self.path(f"growth/{name}.csv"), encoding="utf-8", newline="") as file:
                head, *lines = csv.reader(file)
            self.assertEqual(head[1], "series")
            self.assertEqual(max(float(line[0]) for line in lines), size)
            self.assertTrue(all(float(line[2]) > 0 for line in lines))
            series = {line[1] for line in lines}
            self.assertEqual(len(self.picture(f"growth/{name}.svg").findall(f"{SVG}polyline")), len(series))
            self.assertEqual(len(self.picture(f"growth/{name}.svg").findall(f"{SVG}circle")), len(lines))

    def test_growth_says_what_it_cannot_do(self):
        self.assertIn("there are devices, pending", bench("--growth", self.folder, "--filter", "x").stderr)
        file = self.write("file", "")
        self.assertIn("cannot be made", bench("--growth", os.path.join(file, "x"), "--quick").stderr)

    def test_an_operation_is_done_so_often_and_nothing_is_printed(self):
        for operation in ("ledger", "embedded", "remote"):
            self.assertEqual(self.run_well("--operation", operation, "--count", "300"), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
