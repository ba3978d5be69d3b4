#!/usr/bin/env python3
"""Runs gpuactors where it reads and writes files of its user, and where arguments are refused without a cluster:
program_test.py GPUACTORS"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
NODE = {"name": "n0", "devices": [{"memory_bytes": "100"}]}
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS")}
# A broker that is not there, for commands that are refused before they look for it.
NOBODY = ("--broker", "127.0.0.1:1", "--insecure")
# The head of a shared library of this machine's word size, with nothing in it.
LIBRARY = b"\x7fELF" + bytes([2 if sys.maxsize > 2**32 else 1]) + bytes(11) + struct.pack(
    "HHIPPPIHHHHHH", 3, 0, 1, 0, 0, 0, 0, 0, 56 if sys.maxsize > 2**32 else 32, 0, 0, 0, 0)


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

    def run_program(self, *arguments, code=0, stdin="", **variables):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, input=stdin.encode(), capture_output=True,
                              env={**ENVIRONMENT, "XDG_STATE_HOME": os.path.join(self.folder, "state"), **variables},
                              timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def refused(self, *arguments, **variables):
        """What is said of arguments that are refused: one line."""
        done = self.run_program(*arguments, code=2, **variables)
        self.assertEqual((done.stdout, done.stderr.count(b"\n")), (b"", 1), done)
        return done.stderr.decode()

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

    def test_certificates_are_made_and_shown_where_the_variable_says_unless_a_flag_says_otherwise(self):
        named = os.path.join(self.folder, "by variable")
        self.run_program("certs", "init", GPUACTORS_CERTS=named)
        self.assertTrue({"ca.key", "ca.pem", "node.pem"} <= set(os.listdir(named)))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "state")))
        self.assertIn(b"gpuactors authority", self.run_program("certs", "show", GPUACTORS_CERTS=named).stdout)
        self.run_program("certs", "init", "--certs", "by flag", GPUACTORS_CERTS=named)
        shown = self.run_program("certs", "show", "--certs", "by flag", "--json", GPUACTORS_CERTS=named).stdout
        self.assertEqual(os.path.dirname(json.loads(shown)[0]["file"]), "by flag")
        # An empty flag is the user's own folder.
        self.assertIn(os.path.join("state", "gpuactors", "certs"),
                      self.refused("certs", "show", "--certs", "", GPUACTORS_CERTS=named))

    def test_clients_and_daemons_look_for_certificates_where_the_variable_says(self):
        for command in (("status", "--broker", "127.0.0.1:1"), ("node", "--broker", "127.0.0.1:1"),
                        ("broker", "--listen", "0.0.0.0:0")):
            self.assertIn("/by/variable has no certificates", self.refused(*command, GPUACTORS_CERTS="/by/variable"))
            self.assertIn("/by/flag has no certificates",
                          self.refused(*command, "--certs", "/by/flag", GPUACTORS_CERTS="/by/variable"))

    def test_plaintext_needs_no_certificates_whatever_the_variable_says(self):
        done = self.run_program("status", *NOBODY, code=1, GPUACTORS_CERTS="/nowhere")
        self.assertIn(b"nobody listens at 127.0.0.1:1", done.stderr)

    def test_help_names_the_variable_wherever_there_is_a_folder_of_certificates(self):
        for command in ((), ("status",), ("dashboard",), ("up",), ("broker",), ("node",), ("certs", "init"),
                        ("certs", "show")):
            self.assertIn(b"GPUACTORS_CERTS", self.run_program(*command, "--help").stdout)

    def test_a_program_is_no_plugin_and_a_library_no_program_and_the_right_option_is_named(self):
        for command in (("up", "--insecure", "--listen", "127.0.0.1:0"), ("node", *NOBODY)):
            self.assertIn(f"--plugin {PROGRAM} is a program, not a shared library: use --program {PROGRAM}\n",
                          self.refused(*command, "--plugin", PROGRAM))
            with open(os.path.join(self.folder, "types.so"), "wb") as file:
                file.write(LIBRARY)
            self.assertIn("--program ./types.so is a shared library, not a program: use --plugin ./types.so\n",
                          self.refused(*command, "--program", "./types.so"))

    def test_what_is_wrong_with_an_option_is_said_before_a_cluster_is_looked_for(self):
        self.assertIn('--deadline is "soon": a number is expected',
                      self.refused("drain", "n0", "--deadline", "soon", *NOBODY))
        self.assertIn('--votes is "-1": a whole number from 1 to', self.refused("broker", "--insecure", "--votes", "-1"))
        self.assertIn('--settle is "5000": 0 to 3600 is expected', self.refused("broker", "--settle", "5000"))
        self.assertIn('--heartbeat is "often": seconds are expected', self.refused("status", "--heartbeat", "often"))
        self.assertIn("--broker needs a value: HOST:PORT", self.refused("status", "--broker"))

    def test_without_a_broker_it_is_said_that_this_machine_alone_is_shown(self):
        for command in ("status", "nodes"):
            done = self.run_program(command, "--devices", "host:1x64MiB")
            self.assertIn(b"this is what this machine offers by itself; --broker or GPUACTORS_BROKER names", done.stderr)

    def test_a_node_without_a_name_is_none_for_a_probe_whose_variable_is_not_set(self):
        self.assertIn('there is no node ""', self.refused("nodes", "", "--devices", "host:1x64MiB"))
        self.assertIn(b"local", self.run_program("nodes", "local", "--devices", "host:1x64MiB").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
