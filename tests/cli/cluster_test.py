#!/usr/bin/env python3
"""Commands beside a cluster: where its certificates are, what its dashboard has people paste, and what actors leave

cluster_test.py GPUACTORS"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import dashboard_page  # pylint: disable=wrong-import-position
from running_cluster import DEADLINE, environment, until  # pylint: disable=wrong-import-position

PROGRAM = os.path.abspath(sys.argv[1])
# Commands of the page that do not end by themselves.
DAEMONS = ("metrics", "node")


class Place:
    """A folder in which daemons and commands run; its state folder has no certificates."""

    def __init__(self, folder):
        self.folder = folder
        self.env = environment(os.path.join(folder, "state"))
        self.broker = None

    @contextlib.contextmanager
    def daemon(self, *arguments, **variables):
        """A daemon, and the first line that it prints. Its end must be a clean one."""
        with open(os.path.join(self.folder, arguments[0] + ".log"), "a", encoding="utf-8") as log, \
                subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True,
                                 env={**self.env, **variables}) as process:
            try:
                ready = process.stdout.readline()
                assert ready, f"{arguments}: {self.log(arguments[0])}"
                yield ready
                process.send_signal(signal.SIGTERM)
                code = process.wait(DEADLINE)
                assert code == 0, f"{arguments} ended with {code}: {self.log(arguments[0])}"
            finally:
                process.kill()

    @contextlib.contextmanager
    def up(self, *arguments, **variables):
        with self.daemon("up", "--listen", "127.0.0.1:0", "--name", "n0", "--devices", "host:2x1GiB", *arguments,
                         **variables) as ready:
            self.broker = ready.split()[-1]
            yield

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8") as log:
            return log.read()

    def done(self, *arguments, **variables):
        return subprocess.run([PROGRAM, *arguments, "--broker", self.broker], cwd=self.folder, capture_output=True,
                              env={**self.env, **variables}, text=True, timeout=DEADLINE, check=False)


class ClusterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Place(os.path.realpath(folder.name))
        self.certs = os.path.join(self.place.folder, "our certs")

    def run_command(self, *arguments, code=0, **variables):
        done = self.place.done(*arguments, **variables)
        self.assertEqual(done.returncode, code, done)
        return done

    def page(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        connection.request("GET", "/")
        return dashboard_page.read(connection.getresponse().read().decode())

    def commands_of_dashboard(self, *security):
        """The command lines on its page, once the broker has answered."""
        with self.place.daemon("dashboard", "--listen", "127.0.0.1:0", "--broker", self.place.broker,
                               *security) as ready:
            port = int(re.search(r":(\d+)/", ready).group(1))
            return until(lambda: [code.text() for code in self.page(port).all("code")], "there is a state on the page")

    def paste(self, command):
        """Runs a command line by a shell, in another folder and without anything that was set for the dashboard."""
        path = os.path.dirname(PROGRAM) + os.pathsep + os.environ.get("PATH", "")
        return subprocess.run(["sh", "-c", command], cwd="/", capture_output=True, text=True, timeout=DEADLINE,
                              env={**self.place.env, "PATH": path}, check=False)

    # -- GPUACTORS_CERTS ------------------------------------------------------------------------------

    def test_one_variable_names_the_certificates_of_a_broker_its_node_its_workers_and_its_clients(self):
        with self.place.up(GPUACTORS_CERTS=self.certs):
            self.assertTrue(os.path.exists(os.path.join(self.certs, "ca.pem")))
            self.assertFalse(os.path.exists(os.path.join(self.place.env["XDG_STATE_HOME"], "gpuactors", "certs")))
            reply = self.run_command("submit", "gpu_ids", "--gpus", "0.5", GPUACTORS_CERTS=self.certs)
            self.assertEqual(json.loads(reply.stdout)["node"], "n0")
            # A flag goes before it, whichever of the two is right.
            self.run_command("status", "--certs", self.certs, GPUACTORS_CERTS="/nowhere")
            self.assertIn("/nowhere has no certificates",
                          self.run_command("status", "--certs", "/nowhere", code=2,
                                           GPUACTORS_CERTS=self.certs).stderr)
            self.assertIn("has no certificates", self.run_command("status", code=2).stderr)
            self.assertIn("it may speak TLS, which --insecure turns off here",
                          self.run_command("status", "--insecure", code=2, GPUACTORS_CERTS=self.certs).stderr)

    def test_a_cluster_in_plaintext_is_one_also_where_the_variable_is_set(self):
        with self.place.up("--insecure", GPUACTORS_CERTS=self.certs):
            self.assertFalse(os.path.exists(self.certs))
            self.run_command("submit", "echo", "--insecure", GPUACTORS_CERTS=self.certs)

    # -- commands of the dashboard -------------------------------------------------------------------

    def check_commands(self, commands):
        names = [command.split()[1] for command in commands]
        self.assertTrue({"status", "devices", "actors", "events"} <= set(names), names)
        for command, name in zip(commands, names):
            if name not in DAEMONS:
                done = self.paste(command)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_commands_of_the_dashboard_have_its_certificates_and_run_in_any_folder(self):
        with self.place.up("--certs", self.certs):
            commands = self.commands_of_dashboard("--certs", os.path.basename(self.certs))
            for command in commands:
                self.assertTrue(command.endswith(f" --broker {self.place.broker} --certs '{self.certs}'"), command)
            self.check_commands(commands)

    def test_commands_of_the_dashboard_of_a_cluster_in_plaintext_say_so(self):
        with self.place.up("--insecure"):
            commands = self.commands_of_dashboard("--insecure")
            for command in commands:
                self.assertTrue(command.endswith(f" --broker {self.place.broker} --insecure"), command)
            self.check_commands(commands)

    # -- what actors leave ----------------------------------------------------------------------------

    def shown(self, *arguments):
        """What logs prints: texts of lines, and what it says beside them."""
        done = self.run_command("logs", *arguments, "--json", "--insecure")
        return [json.loads(line)["text"] for line in done.stdout.splitlines()], done.stderr

    def test_logs_finds_the_node_of_an_actor_that_has_ended_and_says_that_it_has(self):
        with self.place.up("--insecure"):
            number = json.loads(self.run_command("spawn", "counter", "--name", "c0", "--json", "--insecure").stdout)["id"]
            self.run_command("call", "c0", "say", '{"text":"last words"}', "--insecure")
            until(lambda: self.shown("c0")[0] == ["last words"], "the node has the line")
            self.assertEqual(self.shown("c0")[1], "")
            self.run_command("kill", "c0", "--no-restart", "--insecure")
            for arguments in (("c0",), ("c0", "-f"), (number,), ("c0", "-n", "1")):
                texts, note = self.shown(*arguments)
                self.assertEqual(texts, ["last words"])
                self.assertRegex(note, r"^c0 has ended: it was killed.*; this is what it printed on node n0\n$")
            self.assertEqual(self.shown("c0", "--node", "n0", "-f"), (["last words"], ""))
            # Another one of this name is another actor.
            self.run_command("spawn", "counter", "--name", "c0", "--insecure")
            self.assertEqual(self.shown("c0"), ([], ""))
            self.assertEqual(self.shown(number)[0], ["last words"])
            self.assertRegex(self.run_command("logs", "c1", "--insecure", code=2).stderr,
                             r'there is no actor named "c1".*\(--node N; gpuactors nodes lists them\)')

    def test_logs_of_an_actor_that_never_had_a_place_says_why(self):
        with self.place.up("--insecure"):
            with subprocess.Popen([PROGRAM, "spawn", "counter", "--name", "large", "--gpus", "3", "--wait-for-nodes",
                                   "--broker", self.place.broker, "--insecure"], env=self.place.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
                try:
                    until(lambda: json.loads(self.run_command("queue", "--json", "--insecure").stdout), "it waits")
                    self.run_command("kill", "large", "--insecure")
                    waiting.communicate(timeout=DEADLINE)
                finally:
                    waiting.kill() # it would wait for nodes
            self.assertRegex(self.run_command("logs", "large", "--insecure", code=2).stderr,
                             r"large has ended before it was on any node: it was killed")

    def actors(self, *arguments):
        return json.loads(self.run_command("actors", *arguments, "--json", "--insecure").stdout)

    def kill_process(self, expected):
        """Ends the process of the only actor, and waits until the actors have these restarts and states."""
        os.kill(self.actors()[0]["pid"], signal.SIGKILL)
        until(lambda: [(actor["restarts"], actor["state"]) for actor in self.actors()] == expected, str(expected))

    def test_restarts_that_count_are_told_apart_from_moves_off_nodes_that_are_emptied(self):
        counts = ("restarts", "counted_restarts", "moves", "max_restarts")
        with self.place.up("--insecure"):
            self.run_command("spawn", "counter", "--name", "c0", "--max-restarts", "1", "--insecure")
            self.assertNotIn("COUNTED", self.run_command("actors", "--insecure").stdout)
            with self.place.daemon("node", "--broker", self.place.broker, "--name", "n1", "--devices", "host:1x1GiB",
                                   "--insecure"):
                until(lambda: "n1" in self.run_command("nodes", "--insecure").stdout, "the other node is there")
                self.run_command("drain", "n0", "--deadline", "60", "--insecure")
                until(lambda: [(actor["node"], actor["state"]) for actor in self.actors()] == [("n1", "alive")],
                      "it has moved")
                self.assertEqual([self.actors()[0][key] for key in counts], [1, 0, 1, 1])
                self.assertRegex(self.run_command("actors", "--insecure").stdout,
                                 r"RESTARTS +COUNTED +MOVES +NODE.*\nc0 .* 1 +0 of 1 +1 +n1 ")
                self.kill_process([(2, "alive")])
                self.kill_process([])
                ended = self.actors("--ended")
                self.assertEqual([ended[0][key] for key in counts], [2, 1, 1, 1])
                self.assertRegex(self.run_command("actors", "--ended", "--insecure").stdout,
                                 r"RESTARTS +COUNTED +MOVES +ERROR.*\n.* 2 +1 of 1 +1 +worker_died ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
