#!/usr/bin/env python3
"""Runs gpuactors where it reads and writes files of its user: program_test.py GPUACTORS"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
NODE = {"name": "n0", "devices": [{"memory_bytes": "100"}]}


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("good.json", self.scenario("a"))

    @staticmethod
    def scenario(name):
        return json.dumps({"nodes": [NODE], "steps": [{"submit": {"id": name, "gpus": 1}}]})

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def run_program(self, *arguments, code=0, stdin=""):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, input=stdin.encode(), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_what_comes_of_standard_input_is_shown_as_plainly_as_what_comes_of_a_file(self):
        self.write("evil.json", self.scenario("a\u009b2Jb"))
        of_file = self.run_program("plan", "evil.json").stdout
        self.assertIn(rb"a\u009b2Jb", of_file)
        self.assertEqual(self.run_program("plan", "-", stdin=self.read("evil.json")).stdout, of_file)

    def test_standard_input_is_read_to_its_end_however_long_it_is(self):
        steps = [{"submit": {"id": f"request-{i}", "gpus": 1}} for i in range(5_000)]
        done = self.run_program("plan", stdin=json.dumps({"nodes": [NODE], "steps": steps}))
        self.assertEqual(len(done.stdout.splitlines()), 5_001)
        self.assertIn(b"standard input: parse error", self.run_program("plan", code=2).stderr)

    def test_a_picture_replaces_another_one_only_when_there_is_a_new_one(self):
        self.write("picture.svg", "an earlier one")
        self.write("bad.json", self.scenario("a")[:-1])
        self.run_program("plan", "bad.json", "--svg", "picture.svg", code=2)
        self.assertEqual(self.read("picture.svg"), "an earlier one")
        self.run_program("plan", "good.json", "--svg", "picture.svg")
        self.assertTrue(self.read("picture.svg").startswith("<svg "))

    def test_a_picture_takes_the_place_of_neither_its_scenario_nor_a_folder(self):
        before = self.read("good.json")
        os.symlink("good.json", os.path.join(self.folder, "link"))
        for name in ("good.json", "link", os.path.join(self.folder, "good.json")):
            done = self.run_program("plan", "good.json", "--svg", name, code=2)
            self.assertIn(b"is the scenario, which the picture would replace", done.stderr)
            self.assertEqual(done.stdout, b"")
        self.assertEqual(self.read("good.json"), before)
        self.assertIn(b"cannot be written: Is a directory",
                      self.run_program("plan", "good.json", "--svg", self.folder, code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
