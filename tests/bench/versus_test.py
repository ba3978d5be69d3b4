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
assert arguments[arguments.index("--filter") + 1] == "put_calls"
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
    def test_values_and_ratios_are_medians_of_the_turns(self):
        turns = [{"machine": {}, "rows": [row(value=value, floor=floor)]}
                 for value, floor in ((1.0, 1.0), (9.0, 3.0), (4.0, 2.0))]
        (found,) = versus.median_rows(turns)["rows"]
        self.assertEqual((found["value"], found["floor"], found["floor_ratio"]), (4, 2, 2))

    def test_peers_are_medians_by_name(self):
        turns = [{"peer": "R", "rows": [{"name": "a", "unit": "1/s", "value": value}]} for value in (1, 5, 2)]
        self.assertEqual(versus.median_peers(turns), {"peer": "R", "rows": [{"name": "a", "value": 2, "unit": "1/s"}]})

    def test_a_verdict_names_every_bound_and_who_misses_it(self):
        modes = {"plain": row(peer_ratio=4, peer_bound=5, floor=2.0, bound=0.4),
                 "embedded": row(peer_ratio=50, peer_bound=40)}
        self.assertEqual(versus.verdict(modes),
                         "MISSED (>= 5 Ray), holds (>= 0.4 floor), holds (>= 40 Ray, embedded)")

    def test_what_was_not_measured_is_a_dash(self):
        line = versus.table({"rows": [row()]}, {}).splitlines()[-1]
        self.assertEqual(line, "| a | 1.00 | - | - | - | - | - | - | - | - |  |")


class ProgramTest(unittest.TestCase):
    def run_versus(self, cpp):
        with tempfile.TemporaryDirectory() as folder:
            python, document, both = (os.path.join(folder, name) for name in ("python", "page.md", "both.json"))
            with open(python, "w", encoding="utf-8") as file:
                file.write(PYTHON.replace("CPP", repr(cpp)))
            os.chmod(python, 0o755)
            with open(document, "w", encoding="utf-8") as file:
                file.write(f"before\n{versus.BEGIN}\nold\n{versus.END}\nafter\n")
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(FOLDER, "versus.py"), "--bench", BENCH, "--python", python,
                 "--turns", "1", "--filter", "put_calls", "--seconds", "0.02", "--rounds", "1", "--document", document,
                 "--json", both, "--svg", os.path.join(folder, "both.svg")],
                capture_output=True, text=True, timeout=90, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.getsize(os.path.join(folder, "both.svg")))
            with open(document, encoding="utf-8") as page, open(both, encoding="utf-8") as numbers:
                return page.read(), json.load(numbers)

    def test_all_that_was_measured_is_in_one_file_and_in_the_document(self):
        page, numbers = self.run_versus(20.0)
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n") and "old" not in page)
        self.assertIn("Ray 9, Ray C++ 9; 1 turns of 1 rounds of 0.02 s", page)
        rows = {(row["name"], row["mode"]): row for row in numbers["rows"]}
        found = rows["single_client_put_calls", "plain"]
        self.assertEqual((found["peer"], found["peer_ratio"]), (10, found["value"] / 10))
        self.assertIn(("multi_client_put_calls", "tls"), rows)
        self.assertEqual(numbers["ray_cpp"]["rows"][0]["value"], 20)
        self.assertIn("| 10.00 | 20.00 |", page)

    def test_without_the_wheel_the_column_of_rays_cpp_is_empty(self):
        page, numbers = self.run_versus(None)
        self.assertIsNone(numbers["ray_cpp"])
        self.assertIn("| 10.00 | - |", page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
