#!/usr/bin/env python3
"""Runs instructions.py with a program in the place of valgrind: counting_test.py GPUACTORS_BENCH"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import instructions  # noqa: E402

# Counts 5,000,000 for a process and 1000 for each operation.
VALGRIND = """#!/bin/sh
for count; do :; done
echo "==1== Collected : $((5000000 + 1000 * count))" >&2
"""


class CountingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.record = os.path.join(folder.name, "record.json")
        with open(os.path.join(folder.name, "valgrind"), "w", encoding="utf-8") as file:
            file.write(VALGRIND)
        os.chmod(file.name, 0o755)

    def count(self, *arguments, path=None):
        path = path or f"{self.folder}:{os.environ['PATH']}"
        return subprocess.run([sys.executable, "-B", SCRIPT, BENCH, self.record, *arguments], capture_output=True,
                              env={**os.environ, "PATH": path}, text=True, timeout=60, check=False)

    def write_record(self, **changes):
        data = {"made_with": {**instructions.toolchain(BENCH), **changes},
                "instructions": {operation: 1000 for operation in instructions.OPERATIONS}}
        data["instructions"]["embedded"] = 900
        with open(self.record, "w", encoding="utf-8") as file:
            json.dump(data, file)

    def test_what_starts_and_ends_a_process_does_not_count(self):
        self.assertEqual(self.count("--record").returncode, 0)
        with open(self.record, encoding="utf-8") as file:
            counts = json.load(file)["instructions"]
        self.assertEqual(counts, {name: 1000 for name in instructions.OPERATIONS})
        done = self.count("--strict")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("warning", done.stdout)

    def test_what_grew_by_more_than_a_tenth_is_a_warning_and_an_error_if_one_wants(self):
        self.write_record()
        for arguments, code in (((), 0), (("--strict",), 1)):
            done = self.count(*arguments)
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertEqual(done.stdout.count("warning: "), 1)
            self.assertIn("in the same process takes 1000 instructions, +11.1 % of the 900 on record", done.stdout)

    def test_a_tenth_more_is_not_yet_a_warning(self):
        self.assertEqual(instructions.compare({"ledger": 110}, {"ledger": 100})[1], [])
        self.assertEqual(len(instructions.compare({"ledger": 111}, {"ledger": 100})[1]), 1)

    def test_counts_of_another_compiler_are_not_compared(self):
        self.write_record(compiler="another")
        done = self.count("--strict")
        self.assertEqual(done.returncode, 77, done.stdout)
        self.assertIn("skipped: the record is of {'compiler': 'another'", done.stdout)

    def test_without_valgrind_it_is_skipped(self):
        done = self.count(path=os.path.join(self.folder, "nothing"))
        self.assertEqual((done.returncode, done.stdout), (77, "skipped: there is no valgrind\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
