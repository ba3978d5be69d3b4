#!/usr/bin/env python3
"""Serves an actor type of a user: actor_test.py GPUACTORS-SERVE GPUACTORS PLUGIN PROGRAM [CASE]

PLUGIN is the example (apps/examples/served_actor.cpp) as a library, and PROGRAM as the worker of a node."""

import os
import signal
import subprocess
import sys
import threading

from program_support import Cases, DEADLINE, cluster_of, environment, has, serving, until

TYPE = "examples/line"
case = Cases()


class Machine:
    """The programs, and a folder with files of models."""

    def __init__(self, serve, gpuactors, plugin, program, folder):
        self.serve = serve
        self.gpuactors = gpuactors
        self.plugin = plugin
        self.program = program
        self.folder = folder
        self.env = environment(folder)

    def file(self, name, text):
        """Replaces a file in one step, so that nobody reads half of it."""
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="ascii") as out:
            out.write(text)
        os.rename(path + ".new", path)
        return path

    def refused(self, *arguments, env=None):
        """What it says when it does not start, and says that it would not later either."""
        done = subprocess.run([self.serve, "--http", "127.0.0.1:0", *arguments], env=env or self.env, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done
        return done.stderr


def ask(server, rows, connection=None, name="readings"):
    body = {"inputs": [{"name": name, "datatype": "FP32", "shape": [len(rows), len(rows[0])],
                        "data": [value for row in rows for value in row]}]}
    return server.ask("POST", "/v2/models/line/infer", body, connection)


class Sensors:
    """Threads that ask again and again; each answer must be that of one of the lines, by version."""

    def __init__(self, server, count, lines):
        self.server = server
        self.lines = lines
        self.lock = threading.Lock()
        self.answers = {version: 0 for version in lines}
        self.failures = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        connection = self.server.connect()
        while not self.stopping.is_set():
            status, reply = ask(self.server, [[number, number + 0.5]], connection)
            with self.lock:
                if status != 200:
                    self.failures.append((status, reply))
                    continue
                slope, offset = self.lines[reply["model_version"]]
                wanted = [slope * number + offset, slope * (number + 0.5) + offset]
                if reply["outputs"][0]["data"] != wanted:
                    self.failures.append((reply, wanted))
                self.answers[reply["model_version"]] += 1
        connection.close()

    def await_more(self, version, count):
        goal = self.answers[version] + count
        until(lambda: self.answers[version] >= goal or self.failures, f"{count} more answers of version {version}")
        assert not self.failures, self.failures[:3]

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(DEADLINE)
        assert not self.failures, self.failures[:3]


@case
def serves(machine):
    """an actor type from a plugin says what it takes, and answers requests of one and of several rows"""
    path = machine.file("line.txt", "2 1")
    with serving(machine.serve, "--model", f"line={path},actor={TYPE},set=sensors=2,replicas=2", "--plugin",
                 machine.plugin, "--devices", "host:2x64MiB", env=machine.env) as server:
        has("\n".join(server.lines), "model line, version 1: readings FP32 [-1,2] to values FP32 [-1,2]; 2 replicas of 0.25")
        status, model = server.ask("GET", "/v2/models/line")
        assert status == 200 and model["platform"] == "gpuactors_actor", model
        assert model["inputs"] == [{"name": "readings", "datatype": "FP32", "shape": [-1, 2]}], model
        assert model["outputs"] == [{"name": "values", "datatype": "FP32", "shape": [-1, 2]}], model
        status, reply = ask(server, [[1, 2], [3, 4], [5, 6]])
        assert status == 200, reply
        assert reply["outputs"] == [{"name": "values", "datatype": "FP32", "shape": [3, 2],
                                     "data": [3, 5, 7, 9, 11, 13]}], reply
        status, reply = ask(server, [[1, 2, 3]])
        assert status == 400, reply
        has(reply["error"], 'model line takes "readings" in the shape [rows,2], not [1,3]')
        status, reply = ask(server, [[1, 2]], name="x")
        assert status == 400, reply
        has(reply["error"], 'model line has no input "x": its input is "readings"')
        assert server.metric("gpuactors_serve_memory_used_bytes") > 0


@case
def batches(machine):
    """requests of several clients share a batch, and one with a bad input fails alone"""
    path = machine.file("limited.txt", "2 1")
    # A batch waits for an hour unless it is full, so the three requests go together.
    with serving(machine.serve, "--model", f"line={path},actor={TYPE},set=sensors=2,set=limit=100,max-batch=3,"
                 "max-delay=3600000", "--plugin", machine.plugin, "--devices", "host:1x64MiB", env=machine.env) as server:
        for reading, status in ((7, 200), (700, 400)):
            before = server.metric("nv_inference_exec_count")
            answers = {}
            threads = [threading.Thread(target=lambda value=value: answers.update({value: ask(server, [[value, 0]])}))
                       for value in (1, 2, reading)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            for value in (1, 2):
                assert answers[value][0] == 200, answers
                assert answers[value][1]["outputs"][0]["data"] == [2 * value + 1, 1], answers
            assert answers[reading][0] == status, answers
            ran = server.metric("nv_inference_exec_count") - before
            assert ran == (1 if status == 200 else 2), ran
        has(answers[700][1]["error"], "a reading is beyond the limit: a sensor is broken")


def survives_and_swaps(machine, devices, keys, *node):
    """What is the same for a node with a plugin and one with a program."""
    lost_and_replaced = [r"model line, version 1: replica \d was lost: .+",
                         r"model line, version 1: replica \d serves, on node \S+"]
    path = machine.file("moving.txt", "2 1")
    with cluster_of(machine.gpuactors, None, devices, *node) as cluster, \
         serving(machine.serve, "--model", f"line={path},actor={TYPE}{keys}", "--replicas", "2", "--set",
                 "sensors=2", "--set", "limit=1e6", "--broker", cluster.broker, env=cluster.env,
                 notices=[*lost_and_replaced, "model line: version 2 serves in the place of version 1"]) as server:
        replicas = until(lambda: len(cluster.replicas(TYPE)) == 2 and cluster.replicas(TYPE), "there are two replicas")
        assert len({replica["pid"] for replica in replicas}) == 2, replicas
        sensors = Sensors(server, 4, {"1": (2, 1), "2": (3, 5)})
        sensors.await_more("1", 100)
        os.kill(replicas[0]["pid"], signal.SIGKILL)
        until(lambda: server.metric("gpuactors_serve_replicas_lost") == 1, "the loss is noticed")
        until(lambda: server.metric("gpuactors_serve_replicas") == 2, "two replicas serve")
        sensors.await_more("1", 100)
        machine.file("moving.txt", "3 5")
        assert server.ask("POST", "/v2/repository/models/line/load", {})[0] == 200
        sensors.await_more("2", 100)
        sensors.stop()
        assert server.metric("nv_inference_request_failure") == 0


@case
def survives_with_a_plugin(machine):
    """in a cluster whose nodes have the plugin, a killed replica is replaced and a version swapped under load"""
    survives_and_swaps(machine, "host:2x256MiB", "", "--plugin", machine.plugin)


@case
def survives_with_a_program(machine):
    """with the user's program as the worker, and processes for each replica, the same"""
    # Both replicas are on one device.
    survives_and_swaps(machine, "host:1x256MiB", ",isolation=process", "--program", machine.program)


@case
def refuses_nodes_without_the_type(machine):
    """a cluster whose nodes do not have the type is named as the reason, with what they have"""
    path = machine.file("line.txt", "2 1")
    with cluster_of(machine.gpuactors, None, "host:1x64MiB") as cluster:
        has(machine.refused("--model", f"line={path},actor={TYPE}", "--broker", cluster.broker, env=cluster.env),
            f'model line could not be loaded: there is no actor type "{TYPE}"')


@case
def refuses_to_start(machine):
    """what cannot be served is said in a line that names what would be right"""
    path = machine.file("line.txt", "2 1")
    plugin = ("--plugin", machine.plugin, "--devices", "host:1x64MiB")
    has(machine.refused("--model", f"line={path},actor=examples/lime", *plugin), 'did you mean "examples/line"?')
    for words in (f'there is no actor type "{TYPE}"', "--plugin adds the types of a library"):
        has(machine.refused("--model", f"line={path},actor={TYPE}"), words)
    has(machine.refused("--model", f"line={machine.file('empty.txt', '')},actor={TYPE}", *plugin), "slope and an offset")
    has(machine.refused("--model", f"line={machine.file('word.txt', 'slope')},actor={TYPE}", *plugin),
        "the file does not have a slope and an offset")
    has(machine.refused("--model", f"line={path},actor={TYPE},set=sensors=0", *plugin), "model line could not be loaded")
    has(machine.refused("--model", f"line={path},actor={TYPE}", "--plugin", path), "it is no shared library")
    has(machine.refused("--model", f"line={path},actor={TYPE}", "--plugin", __file__),
        "is a program, not a shared library: have a node run it")
    has(machine.refused("--model", f"line={path},actor={TYPE}", "--plugin", machine.plugin, "--broker", "127.0.0.1:1"),
        "--plugin is for an embedded cluster")


if __name__ == "__main__":
    sys.exit(case.run(Machine, 4))
