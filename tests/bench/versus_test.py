#!/usr/bin/env python3
"""Runs versus.py with programs in the place of Ray's: versus_test.py GPUACTORS_BENCH FOLDER_OF_VERSUS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH, FOLDER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, FOLDER)
import versus  # noqa: E402

# Stands for a Python that has Ray: knows the numbers of both programs, and what it was asked.
PYTHON = """#!/usr/bin/env python3
import json, os, sys
script, arguments = os.path.basename(sys.argv[1]), sys.argv[2:]
assert arguments[arguments.index("--filter") + 1] == FILTER
if script == "ray_cpp.py" and CPP is None:
    sys.exit(77)
peer, value = ("Ray 9", 10.0) if script == "ray_rows.py" else ("Ray C++ 9", CPP)
with open(arguments[arguments.index("--json") + 1], "w") as file:
    json.dump({"peer": peer, "rows": [{"name": "single_client_put_calls", "value": value, "unit": "1/s"}]}, file)
"""


def row(name="a", mode="plain", value=1.0, floor=None, **more):
    return {"name": name, "mode": mode, "unit": "1/s", "value": value, "floor": floor,
            "floor_ratio": value / floor if floor else None, "least": 0.5, "most": 2, "bound": None,
            "at_most": False, "peer": None, "peer_ratio": None, "peer_bound": None, **more}


class MedianTest(unittest.TestCase):
    # Ratios 1, 3 and 1; the ratio of the medians would be 4 / 3.
    PAIRS = ((1.0, 1.0), (9.0, 3.0), (4.0, 4.0))

    def test_values_and_ratios_to_the_floor_are_medians_of_the_turns(self):
        turns = [{"machine": {}, "rows": [row(value=value, floor=floor)]} for value, floor in self.PAIRS]
        (found,) = versus.median_rows(turns)["rows"]
        self.assertEqual((found["value"], found["floor"], found["floor_ratio"]), (4, 3, 1))

    def test_a_ratio_to_ray_is_the_median_of_the_turns_and_has_a_spread(self):
        ours = [{"rows": [row(value=value)]} for value, _ in self.PAIRS]
        rays = [{"peer": "R", "rows": [{"name": "a", "unit": "1/s", "value": value}]} for _, value in self.PAIRS]
        report = {"rows": [row(value=4, peer=3, peer_ratio=4 / 3, peer_bound=1.2, holds=True)]}
        versus.with_ratios(report, ours, rays)
        (found,) = report["rows"]
        self.assertEqual((found["peer_ratio"], found["peer_least"], found["peer_most"], found["holds"]),
                         (1, 1, 3, False))
        self.assertEqual(versus.verdict({"plain": found}), "MISSED (>= 1.2 Ray: 1..3)")

    def test_peers_are_medians_by_name(self):
        turns = [{"peer": "R", "rows": [{"name": "a", "unit": "1/s", "value": value}]} for value in (1, 5, 2)]
        self.assertEqual(versus.median_peers(turns), {"peer": "R", "rows": [{"name": "a", "value": 2, "unit": "1/s"}]})

    def test_a_verdict_names_every_bound_and_who_misses_it(self):
        modes = {"plain": row(peer_ratio=4, peer_bound=5, peer_least=3.9, peer_most=4.125, floor=2.0, bound=0.4),
                 "embedded": row(peer_ratio=50, peer_bound=40)}
        self.assertEqual(versus.verdict(modes), "MISSED (>= 5 Ray: 3.9..4.12), holds (>= 0.4 floor: 0.5..2), "
                                                "holds (>= 40 Ray, embedded)")

    def test_what_was_not_measured_is_a_dash(self):
        line = versus.table({"rows": [row()]}, {}).splitlines()[-1]
        self.assertEqual(line, "| a | 1.00 | - | - | - | - | - | - | - | - | - |  |")

    def test_every_mode_stands_beside_ray(self):
        rows = [row(mode=mode, peer=2, peer_ratio=ratio) for mode, ratio in (("plain", 3), ("tls", 4), ("embedded", 5))]
        line = versus.table({"rows": rows}, {}).splitlines()[-1]
        self.assertIn("| 3.00 | 4.00 | 5.00 |", line)



# Stands for the program that measures, which would take minutes for all rows; reads and draws as itself.
SOME_ROWS = """#!/usr/bin/env python3
import json, os, sys
if "--ray" not in sys.argv:
    os.execv(BENCH, [BENCH, *sys.argv[1:]])
rows = [{"name": "single_client_put_calls", "mode": mode, "unit": "1/s", "value": value, "floor": None, "least": 1,
         "most": 1, "at_most": False, "peer_bound": 5} for mode, value in (("plain", 30.0), ("tls", 20.0))]
machine = {"hardware threads": "2", "processor": "p", "kernel": "k", "gpuactors": "g"}
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"machine": machine, "peer": None, "rows": rows}, file)
"""


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.document = self.path("page.md")
        with open(self.document, "w", encoding="utf-8") as file:
            file.write(f"before\n{versus.BEGIN}\nold\n{versus.END}\nafter\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def run_versus(self, bench, cpp, *arguments, wanted=""):
        python = self.program("python", PYTHON.replace("CPP", repr(cpp)).replace("FILTER", repr(wanted)))
        return subprocess.run(
            [sys.executable, "-B", os.path.join(FOLDER, "versus.py"), "--bench", bench, "--python", python, "--document",
             self.document, "--json", self.path("both.json"), "--svg", self.path("both.svg"), *arguments],
            capture_output=True, text=True, timeout=90, check=False)

    def page(self):
        with open(self.document, encoding="utf-8") as file:
            return file.read()

    def numbers(self):
        with open(self.path("both.json"), encoding="utf-8") as file:
            return json.load(file)

    def run_all_rows(self, cpp):
        done = self.run_versus(self.program("bench", SOME_ROWS.replace("BENCH", repr(BENCH))), cpp)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.getsize(self.path("both.svg")))

    def test_all_that_was_measured_is_in_one_file_and_in_the_document(self):
        self.run_all_rows(20.0)
        page = self.page()
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n") and "old" not in page)
        self.assertIn("Ray 9, Ray C++ 9; 3 turns of 3 rounds of 1 s", page)
        self.assertIn("| 30.00 | 20.00 | - | 10.00 | 20.00 | 3.00 | 2.00 | - | - | - | MISSED (>= 5 Ray: 3..3)", page)
        numbers = self.numbers()
        self.assertEqual([row["peer_ratio"] for row in numbers["rows"]], [3, 2])
        self.assertEqual(numbers["ray_cpp"]["rows"][0]["value"], 20)

    def test_without_the_wheel_the_column_of_rays_cpp_is_empty(self):
        self.run_all_rows(None)
        self.assertIsNone(self.numbers()["ray_cpp"])
        self.assertIn("| 10.00 | - |", self.page())

    def test_some_rows_are_measured_and_the_document_is_left_alone(self):
        # However the option is written.
        done = self.run_versus(BENCH, None, "--turns", "1", "--filt=put_calls", "--seconds", "0.02", "--rounds", "1",
                               wanted="put_calls")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("page.md is left alone: --filter takes some rows only", done.stderr)
        self.assertIn("old", self.page())
        rows = {(row["name"], row["mode"]): row for row in self.numbers()["rows"]}
        found = rows["single_client_put_calls", "plain"]
        self.assertEqual((found["peer"], found["peer_ratio"]), (10, found["value"] / 10))
        self.assertIn(("multi_client_put_calls", "tls"), rows)

    def test_the_document_takes_three_turns(self):
        done = self.run_versus(BENCH, None, "--turns", "2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the document takes 3 turns or more", done.stderr)
        self.assertIn("old", self.page())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
