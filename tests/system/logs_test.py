#!/usr/bin/env python3
"""Reads what actors of a cluster of processes print: logs_test.py PROGRAM [PART OF A CASE'S NAME]

A broker and nodes of their own, so that nodes can be killed; workers are the program `gpuactors`, whose counters say
what they are told. The cases are sentences and run in their order; each has actors of its own.
"""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from running_cluster import DEADLINE, fits, same, until

CASES = []


def case(function):
    """A case; its name is the function's first line of documentation."""
    CASES.append(function)
    return function


class Lines:
    """A process, and its output as it comes."""

    def __init__(self, process):
        self.process = process
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def next(self):
        """The next line; None at the end."""
        return self.lines.get(timeout=DEADLINE)

    def texts(self, count):
        """The texts of the next so many lines of --json."""
        return [json.loads(self.next())["text"] for _ in range(count)]

    def end(self, number=None):
        """Its exit code and standard error, and no further line."""
        if number:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE)
        rest = []
        while (line := self.lines.get(timeout=DEADLINE)) is not None:
            rest.append(line)
        same(rest, [])
        return code, self.process.stderr.read()


class Cluster:
    """A broker and its nodes."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.env = {key: value for key, value in os.environ.items()
                    if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}
        self.env["XDG_STATE_HOME"] = folder
        self.processes = {}
        self.broker = self.daemon("broker", "broker", "--listen", "127.0.0.1:0").split()[-1]
        self.node("n0")
        self.node("n1", "--resource", "seat=1")

    def daemon(self, name, *arguments):
        """Starts one; what it says when it does its work."""
        with open(os.path.join(self.folder, name + ".out"), "a", encoding="utf-8") as log:
            process = subprocess.Popen([self.program, *arguments], stdout=subprocess.PIPE, stderr=log, env=self.env,
                                       text=True)
        self.processes[name] = process
        ready = process.stdout.readline()
        assert ready, (arguments, self.notices(name))
        return ready

    def node(self, name, *arguments):
        self.daemon(name, "node", "--broker", self.broker, "--name", name, "--devices", "host:1x1GiB", *arguments)
        until(lambda: name in [node["name"] for node in self.json("nodes", "--json")], f"{name} is there")

    def notices(self, name):
        with open(os.path.join(self.folder, name + ".out"), encoding="utf-8") as log:
            return log.read()

    def start(self, *arguments):
        return Lines(subprocess.Popen([self.program, *arguments, "--broker", self.broker], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env=self.env, text=True))

    def run(self, *arguments, code=0):
        """Standard output, or standard error of a command that ends with another code than 0."""
        done = subprocess.run([self.program, *arguments, "--broker", self.broker], env=self.env, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)
        assert done.returncode == code, f"{arguments}: exit code {code} was expected: {done}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments):
        return json.loads(self.run(*arguments))

    def logs(self, *arguments):
        """The objects that logs prints."""
        return [json.loads(line) for line in self.run("logs", *arguments, "--json").splitlines()]

    def texts(self, *arguments):
        return [line["text"] for line in self.logs(*arguments)]

    def shows(self, expected, *arguments, view=lambda line: line["text"]):
        """What was printed just before may be on its way to the log."""
        seen = []

        def is_there():
            seen[:] = [self.logs(*arguments)]
            return [view(line) for line in seen[0]] == expected

        try:
            until(is_there, f"logs {arguments} show {str(expected)[:1000]}")
        except AssertionError as error:
            raise AssertionError(f"{error}; they show {str(seen)[-1000:]}") from error

    def spawn(self, name, *arguments):
        return self.json("spawn", "counter", "--name", name, *arguments, "--json")

    def say(self, actor, text, **fields):
        self.run("call", actor, "say", json.dumps({"text": text, **fields}))

    def actor(self, name):
        return next((actor for actor in self.json("actors", "--json") if actor["name"] == name), None)

    def kill_worker(self, name):
        """Ends an actor's process, and waits for its next life."""
        before = self.actor(name)
        os.kill(before["pid"], signal.SIGKILL)

        def is_back():
            now = self.actor(name)
            return now if now and now["restarts"] > before["restarts"] and now["state"] == "alive" else None

        return until(is_back, f"{name} is alive again")

    def end(self):
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE)
            process.stdout.close()


@case
def for_people(cluster):
    """each line has its time, node and actor; both outputs are there"""
    spawned = cluster.spawn("talker", "--node", "n0")
    cluster.say("talker", "hello")
    cluster.shows(["hello"], "talker")
    cluster.say("talker", "oh", to="stderr")
    cluster.shows(["hello", "oh"], "talker")
    out = cluster.run("logs", "talker")
    assert re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} n0 talker  (hello|oh)\n){2}", out), out
    lines = cluster.logs("talker")
    same([{key: line[key] for key in ("node", "source", "actor", "stream", "text")} for line in lines],
         [{"node": "n0", "source": "talker", "actor": spawned["id"], "stream": stream, "text": text}
          for stream, text in (("stdout", "hello"), ("stderr", "oh"))])
    fits(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", lines[0]["time"])
    # The operator reads them without marks.
    until(lambda: "[no device] oh" in cluster.notices("n0"), "the node says it as well")
    assert "\x1e" not in cluster.notices("n0")


@case
def two_in_one_worker(cluster):
    """two actors of one process are told apart; what does not say whose it is belongs to both"""
    first, second = (cluster.spawn(name, "--node", "n0", "--gpus", "0.25", "--name-space", "pair")
                     for name in ("left", "right"))
    same(first["pid"], second["pid"])
    for name in ("left", "right"):
        cluster.run("call", name, "say", json.dumps({"text": f"from {name}"}), "--name-space", "pair")
    cluster.run("call", "left", "say", '{"text":"of both","to":"printf"}', "--name-space", "pair")
    for name in ("left", "right"):
        cluster.shows([(f"pair/{name}", f"from {name}"), ("device 0", "of both")], name, "--name-space", "pair",
                      view=lambda line: (line["source"], line["text"]))
    fits(r"n0 \[device 0\]  of both\n$", cluster.run("logs", "left", "--name-space", "pair"))
    # One that comes later has nothing to do with what was there.
    cluster.spawn("late", "--node", "n0", "--gpus", "0.25")
    same(cluster.texts("late"), [])


@case
def own_process(cluster):
    """an actor with a process of its own has all that it writes; a task has its name"""
    cluster.spawn("alone", "--node", "n0", "--isolation", "process")
    cluster.say("alone", "printed", to="printf")
    cluster.shows([("alone", "printed")], "alone", view=lambda line: (line["source"], line["text"]))
    cluster.run("submit", "say", "--node", "n1", '{"text":"a task"}')
    cluster.shows([("task say", "", "a task")], "--node", "n1",
                  view=lambda line: (line["source"], line["actor"], line["text"]))


@case
def obeyed_by_terminals(cluster):
    """what a terminal would obey is shown as what it is; colours stay, and end with their line"""
    text = "\x1b]0;owned\x07 \x1b[2J \x9b1A \x1b[1;31mred"
    cluster.spawn("painter", "--node", "n0")
    cluster.say("painter", text)
    cluster.shows([text], "painter")
    fits(r"  \\u001b]0;owned\\u0007 \\u001b\[2J \\u009b1A \x1b\[1;31mred\x1b\[0m\n$", cluster.run("logs", "painter"))
    raw = cluster.run("logs", "painter", "--json")
    assert not any(mark in raw for mark in "\x1b\x07\x9b"), repr(raw)
    cluster.run("kill", "painter", "--no-restart")


@case
def counts(cluster):
    """-n gives the last lines"""
    cluster.spawn("many", "--node", "n0")
    cluster.say("many", "line", lines=50)
    cluster.shows([f"line {i}" for i in range(1, 51)], "many")
    same(cluster.texts("many", "-n", "2"), ["line 49", "line 50"])
    same(cluster.texts("many", "-n", "0"), [])
    fits(r"--lines is \"?10001", cluster.run("logs", "many", "-n", "10001", code=2))
    # More than one answer can carry.
    cluster.say("many", "x" * 1000, lines=3000)
    until(lambda: cluster.texts("many", "-n", "1")[0].endswith("x 3000"), "all of it is there")
    same([text[999:] for text in cluster.texts("many", "-n", "3000")], [f"x {i}" for i in range(1, 3001)])


@case
def follow_over_a_restart(cluster):
    """-f goes on when the worker is killed and the actor is started anew, and ends with the actor"""
    cluster.spawn("phoenix", "--node", "n0", "--max-restarts", "3", "--isolation", "process")
    cluster.say("phoenix", "first life")
    reader = cluster.start("logs", "phoenix", "-f", "--json")
    same(reader.texts(1), ["first life"])
    cluster.say("phoenix", "still")
    same(reader.texts(1), ["still"])
    cluster.kill_worker("phoenix")
    cluster.say("phoenix", "second life", lines=3)
    same(reader.texts(3), ["second life 1", "second life 2", "second life 3"])
    same(cluster.texts("phoenix", "-n", "2"), ["second life 2", "second life 3"])
    cluster.run("kill", "phoenix", "--no-restart")
    same(reader.end(), (0, ""))


@case
def after_the_end(cluster):
    """the lines of an actor that has ended are found where it was last, and with a node by its name"""
    same(cluster.texts("phoenix", "-n", "3"), [f"second life {i}" for i in (1, 2, 3)])
    same(cluster.texts("phoenix", "--node", "n0", "-n", "3"), [f"second life {i}" for i in (1, 2, 3)])
    same(cluster.texts("phoenix", "--node", "n1"), [])
    assert "hello" in cluster.texts("--node", "n0", "-n", "10000")


@case
def interrupted(cluster):
    """Ctrl-C ends -f cleanly"""
    cluster.spawn("endless", "--node", "n0")
    cluster.say("endless", "on")
    cluster.shows(["on"], "endless")
    for number in (signal.SIGINT, signal.SIGTERM):
        reader = cluster.start("logs", "endless", "-f", "-n", "1", "--json")
        same(reader.texts(1), ["on"])
        same(reader.end(number), (0, ""))


@case
def wrong(cluster):
    """what is wrong is said in one line"""
    fits(r'there is no actor named "talkr"; did you mean "talker"\?', cluster.run("logs", "talkr", code=2))
    fits(r'there is no node "n7" in the cluster', cluster.run("logs", "--node", "n7", code=2))
    fits(r"an actor's name or --node is needed", cluster.run("logs", code=2))
    fits(r"--lines is \"?many", cluster.run("logs", "talker", "-n", "many", code=2))
    with tempfile.TemporaryDirectory() as logs:
        first = ("node", "--broker", cluster.broker, "--devices", "host:1", "--logs", logs)
        cluster.daemon("n8", *first, "--name", "n8")
        done = subprocess.run([cluster.program, *first, "--name", "n9"], env=cluster.env, capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        fits(r"gpuactors node: the folder .* is the log of another node that runs here", done.stderr)
        cluster.processes["n8"].send_signal(signal.SIGTERM)
        same(cluster.processes["n8"].wait(DEADLINE), 0)


@case
def restarted_broker(cluster):
    """-f goes on while the broker is away and when it is back"""
    reader = cluster.start("logs", "endless", "-f", "-n", "1", "--json")
    same(reader.texts(1), ["on"])
    cluster.processes["broker"].kill()
    cluster.processes["broker"].wait(DEADLINE)
    cluster.daemon("broker", "broker", "--listen", cluster.broker)
    until(lambda: cluster.actor("endless"), "the actor is known again")
    cluster.say("endless", "after all")
    same(reader.texts(1), ["after all"])
    same(reader.end(signal.SIGINT), (0, ""))


@case
def follow_to_another_node(cluster):
    """-f follows an actor to another node, and does not repeat what it has shown"""
    cluster.spawn("mover", "--resource", "seat=1", "--max-restarts", "3")
    cluster.node("n2", "--resource", "seat=1")
    cluster.say("mover", "on n1")
    reader = cluster.start("logs", "mover", "-f", "--json")
    same(reader.texts(1), ["on n1"])
    cluster.processes["n1"].kill()
    cluster.processes["n1"].wait(DEADLINE)
    until(lambda: (cluster.actor("mover") or {}).get("node") == "n2", "it has moved")
    cluster.say("mover", "on n2")
    line = json.loads(reader.next())
    same((line["node"], line["text"]), ("n2", "on n2"))
    # The node's log is there again with the node.
    cluster.node("n1")
    same(cluster.texts("mover", "--node", "n1"), ["on n1"])
    cluster.run("kill", "mover", "--no-restart")
    same(reader.end(), (0, ""))


@case
def gone_node(cluster):
    """a node that is gone ends -f with a clear error"""
    reader = cluster.start("logs", "--node", "n1", "-f", "-n", "1", "--json")
    same(reader.texts(1), ["on n1"])
    cluster.processes["n1"].send_signal(signal.SIGTERM)
    same(cluster.processes["n1"].wait(DEADLINE), 0)
    code, error = reader.end()
    same(code, 1)
    fits(r'^gpuactors logs: the log cannot be followed: there is no node "n1" in the cluster', error)


@case
def bounded(cluster):
    """what is kept is bounded, and lies where only its owner reads it"""
    folder = os.path.join(cluster.folder, "gpuactors", "logs", "n0")
    same((os.stat(folder).st_mode & 0o777, {os.stat(os.path.join(folder, name)).st_mode & 0o777
                                            for name in os.listdir(folder)}), (0o700, {0o600}))
    # 16 MiB a file: more than one of them, in lines as long as may be.
    cluster.spawn("loud", "--node", "n0")
    cluster.say("loud", "y" * 20000, lines=1100)
    until(lambda: len(os.listdir(folder)) == 2, "there is a second file")
    until(lambda: " [" in cluster.texts("loud", "-n", "1")[0], "lines are there")
    (line,) = cluster.texts("loud", "-n", "1")
    fits(r"^y+ \[\d+ more bytes\]$", line)
    assert max(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder)) <= 16 << 20


def main(program, part=""):
    failures = 0
    chosen = [function for function in CASES if part in function.__doc__]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        cluster = Cluster(os.path.abspath(program), folder)
        stack.callback(cluster.end)
        for function in chosen:
            mistake = ""
            begin = time.monotonic()
            try:
                function(cluster)
            except Exception:  # pylint: disable=broad-except
                mistake = traceback.format_exc()
            print(f"{'FAILED' if mistake else 'ok':6} {function.__doc__} ({time.monotonic() - begin:.1f} s)", flush=True)
            if mistake:
                failures += 1
                print(mistake, flush=True)
        if failures:
            for name in cluster.processes:
                print(f"what {name} said:\n{cluster.notices(name)[-3000:]}")
    print(f"{len(chosen)} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
