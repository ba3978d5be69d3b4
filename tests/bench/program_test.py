#!/usr/bin/env python3
"""Runs gpuactors-bench as a user would: program_test.py GPUACTORS_BENCH"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

PROGRAM = os.path.abspath(sys.argv[1])
SVG = "{http://www.w3.org/2000/svg}"


def bench(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=90, check=False, **options)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


def as_process_one():
    """The command that makes what follows process 1, as in a container, or None."""
    apart = ["--pid", "--fork", "--mount-proc", "--kill-child=SIGTERM"]
    for command in ([], ["--user", "--map-current-user"]) if shutil.which("unshare") else ():
        done = subprocess.run(["unshare", *command, *apart, "sh", "-c", "echo $$"], capture_output=True, text=True,
                              check=False)
        if done.stdout == "1\n":
            return ["unshare", *command, *apart]
    return None


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
        # What it stands beside is a number that is wanted, and called so.
        self.assertEqual(row["floor_kind"], "target")
        self.assertIn(" target ", table)
        picture = self.picture("rows.svg")
        self.assertEqual(len(picture.findall(f"{SVG}rect[@class='target']")) +
                         len(picture.findall(f"{SVG}rect[@class='target missed']")), 2)
        self.assertIn("beside what is wanted", "".join(picture.itertext()))
        self.assertNotIn("beside the floor", "".join(picture.itertext()))

    def test_our_own_at_a_smaller_size_is_called_so(self):
        self.run_well("--filter", "ledger_grant_release_80000", "--repeat", "1", "--json", self.path("rows.json"))
        (row,) = self.read("rows.json")["rows"]
        self.assertEqual(row["floor_kind"], "smaller")

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
        self.assertIn("cannot be written: File name too long", self.refusal("--json", self.path("x" * 300)))
        other = self.write("unit", {"peer": "x", "rows": [{"name": "call", "value": 1, "unit": "ms"}]})
        self.assertIn("has call in ms, and here it is in us", self.refusal("--from", rows, "--peers", other))
        self.assertIn("no row has a name with \"nonsense\" in it", self.refusal("--filter", "nonsense", code=2))
        self.assertIn("1_1_actor_calls_sync", self.refusal("--ray", "--filter", "nonsense", "--modes", "embedded", code=2))

    def test_each_row_says_whose_number_it_stands_beside(self):
        call = self.write("a", {"peer": "A", "rows": [{"name": "call", "value": 6, "unit": "us"}]})
        rate = self.write("b", {"peer": "B", "rows": [{"name": "other", "value": 25, "unit": "1/s"}]})
        table = self.run_well("--from", self.rows(), "--peers", call, rate, "--json", self.path("all.json"))
        report = self.read("all.json")
        self.assertEqual((report["peer"], [row["peer_by"] for row in report["rows"]]), ("A, B", ["A", "B"]))
        lines = table.splitlines()
        self.assertTrue(any(line.startswith("call") and line.endswith(" A") for line in lines), table)
        self.assertTrue(any(line.startswith("rate") and line.endswith(" B") for line in lines), table)
        self.run_well("--from", self.path("all.json"), "--json", self.path("again.json"))
        self.assertEqual(self.read("again.json"), report)

    def test_numbers_of_another_device_are_refused(self):
        rows = [{"name": "gpu_x", "mode": "cuda", "value": 1, "unit": "ms", "least": 1, "most": 1}]
        ours = self.write("ours", {"rows": rows})
        theirs = {"peer": "R", "device": "host", "rows": [{"name": "gpu_x", "value": 2, "unit": "ms"}]}
        self.assertIn("has gpu_x on a device \"host\", and here it is on \"cuda\"",
                      self.refusal("--from", ours, "--peers", self.write("theirs", theirs)))
        self.run_well("--from", ours, "--peers", self.write("theirs", {**theirs, "device": "cuda"}))

    def test_what_was_measured_is_not_lost_for_a_peer_that_does_not_fit(self):
        peer = self.write("unit", {"peer": "x", "rows": [{"name": "ledger_grant_release_8_devices", "value": 1,
                                                          "unit": "ms"}]})
        done = bench("--filter", "ledger_grant_release_8_devices", "--repeat", "1", "--peers", peer, "--json",
                     self.path("rows.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("has ledger_grant_release_8_devices in ms, and here it is in 1/s", done.stderr)
        self.assertIn("ledger_grant_release_8_devices", done.stdout)
        self.assertEqual(len(self.read("rows.json")["rows"]), 1)

    def test_what_an_option_would_not_use_is_refused(self):
        for mode in (("--growth", self.path("growth")), ("--operation", "ledger")):
            for unused in (("--json", self.path("x")), ("--svg", self.path("x")), ("--peers", self.path("x"))):
                done = bench(*mode, *unused)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{unused[0]} excludes {mode[0]}", done.stderr)

    def test_nothing_is_left_when_it_is_interrupted_or_gives_up(self):
        # The second process is the one that answers for the floor; without it nothing can be measured.
        for end, code in ((lambda process: process.send_signal(signal.SIGINT), -signal.SIGINT),
                          (lambda process: os.kill(children(process.pid)[1], signal.SIGKILL), 1)):
            with subprocess.Popen([PROGRAM, "--ray", "--filter", "1_1_actor_calls_sync", "--modes", "tls", "--seconds",
                                   "0.02", "--rounds", "100"], env={**os.environ, "TMPDIR": self.folder}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                self.assertIn("running 1_1_actor_calls_sync", process.stderr.readline())
                started = children(process.pid)
                self.assertTrue(os.listdir(self.folder))
                end(process)
                self.assertEqual(process.wait(timeout=60), code)
            self.assertEqual(os.listdir(self.folder), [])
            self.assertEqual([pid for pid in started if os.path.exists(f"/proc/{pid}")], [])

    def test_no_key_is_left_of_a_row_that_is_interrupted(self):
        with subprocess.Popen([PROGRAM, "--filter", "tensor_stream_tls", "--repeat", "1000"],
                              env={**os.environ, "TMPDIR": self.folder}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            until = time.monotonic() + 60
            made = {"ca.pem", "ca.key", "node.pem", "node.key"}  # and nothing is written any more
            while not any(made <= set(files) for _, _, files in os.walk(self.folder)):
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), until)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), -signal.SIGINT)
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_measures_as_process_one_of_a_container_too(self):
        apart = as_process_one()
        if apart is None:
            self.skipTest("PID namespaces cannot be made here")
        done = subprocess.run([*apart, PROGRAM, "--filter", "beside_tcp", "--repeat", "1", "--json",
                               self.path("rows.json")], capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.read("rows.json")["rows"]), 1)

    def test_a_list_says_which_rows_need_what(self):
        lines = [line.split(maxsplit=1) for line in self.run_well("--list").splitlines()]
        self.assertIn(["call_lone"], lines)
        self.assertIn(["gpu_task_cold", "needs a GPU"], lines)
        self.assertIn(["many_tasks", "--ray"], lines)
        self.assertIn(["devices", "--growth"], lines)

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
        self.assertRegex(done.stderr, "[0-9]+ rows need a GPU and are left out: ")
        self.assertEqual(bench("--filter", "gpu_task", "--list").stdout.count("needs a GPU"), 2)

    @unittest.skipIf("gpu_matmul" not in bench("--list").stdout, "built without the CUDA toolkit")
    def test_rows_beside_bare_cuda_do_without_a_host_device(self):
        done = bench("--filter", "gpu_matmul", "--device", "host")
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("2 rows stand beside bare CUDA and are left out on a host device", done.stderr)

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
        for operation in ("ledger", "embedded", "remote", "task"):
            self.assertEqual(self.run_well("--operation", operation, "--count", "300"), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
