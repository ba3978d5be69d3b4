#!/usr/bin/env python3
"""Serves TorchScript files: program_test.py GPUACTORS-SERVE GPUACTORS PLUGIN MAKE-MODULES [CASE]

PLUGIN is gpuactors_torch.so, and MAKE-MODULES writes the files (tests/torch/modules.cpp says what they compute)."""

import http.client
import os
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
# pylint: disable=wrong-import-position
from program_support import Cases, DEADLINE, cluster_of, environment, has, serving, until  # noqa: E402

TYPE = "torch/module"
case = Cases()


class Machine:
    """The programs, and a folder with TorchScript files."""

    def __init__(self, serve, gpuactors, plugin, make_modules, folder):
        self.serve = serve
        self.gpuactors = gpuactors
        self.plugin = plugin
        self.folder = folder
        self.env = environment(folder)
        subprocess.run([make_modules, folder], check=True, timeout=DEADLINE)

    def file(self, module):
        return os.path.join(self.folder, module + ".pt")

    def replace(self, name, module):
        """Replaces a file in one step, so that nobody reads half of it."""
        shutil.copy(self.file(module), self.file(name) + ".new")
        os.rename(self.file(name) + ".new", self.file(name))
        return self.file(name)

    def model(self, module, keys):
        return ("--model", f"{module}={self.file(module)},actor={TYPE},{keys}")

    def serving(self, module, keys, *arguments, devices="host:1x64MiB"):
        return serving(self.serve, *self.model(module, keys), "--plugin", self.plugin, "--devices", devices, *arguments,
                       env=self.env)

    def refused(self, module, keys, code=2):
        """What it says when it does not start; the code says whether it may later (1) or not (2)."""
        done = subprocess.run([self.serve, "--http", "127.0.0.1:0", *self.model(module, keys), "--plugin", self.plugin,
                               "--devices", "host:1x64MiB"], env=self.env, capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        assert done.returncode == code and done.stderr.count("\n") == 1, done
        return done.stderr


def ask(server, model, connection=None, **inputs):
    """The answer to inputs NAME=(DATATYPE, SHAPE, DATA): its status, and the data of its outputs by name or the error."""
    body = {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": data}
                       for name, (datatype, shape, data) in inputs.items()]}
    status, reply = server.ask("POST", f"/v2/models/{model}/infer", body, connection)
    if status != 200:
        return status, reply["error"]
    return status, {output["name"]: output["data"] for output in reply["outputs"]}


def load_error(machine, *arguments):
    """What it says to a model that it cannot load."""
    done = subprocess.run([machine.serve, "--http", "127.0.0.1:0", "--plugin", machine.plugin, *arguments],
                          env=machine.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2, done
    return done.stderr


def row(*values):
    return "FP32", [1, len(values)], list(values)


@case
def serves(machine):
    """a TorchScript file answers rows as the product that it is, and says what it takes"""
    with machine.serving("linear", "replicas=2,set=inputs=x:FP32:4,set=outputs=y") as server:
        has("\n".join(server.lines), "model linear, version 1: x FP32 [-1,4] to y FP32 [-1,2]; 2 replicas of 0.25")
        # w[i][j] = 2 i + j, and b = (0, 1)
        rows = [[1, 2, 3, 4], [0, 0, 0, 1], [5, 0, -1, 0.5]]
        flat = [value for one in rows for value in one]
        wanted = [sum(x * (2 * i + j) for i, x in enumerate(one)) + j for one in rows for j in range(2)]
        assert ask(server, "linear", x=("FP32", [3, 4], flat)) == (200, {"y": wanted})
        status, error = ask(server, "linear", x=row(1, 2, 3))
        assert status == 400, error
        has(error, 'model linear takes "x" in the shape [rows,4], not [1,3]')
        status, error = ask(server, "linear", x=("INT64", [1, 4], [1, 2, 3, 4]))
        assert status == 400, error
        has(error, "INT64")
        assert server.metric("gpuactors_serve_memory_used_bytes") > 0


@case
def several_tensors(machine):
    """two inputs and a tuple of outputs go by their names, in any order"""
    with machine.serving("pair", "set=inputs=x:FP32:3+scale:FP32:3,set=outputs=total+scaled:FP32:3") as server:
        has("\n".join(server.lines), "x FP32 [-1,3] and scale FP32 [-1,3] to total FP32 [-1] and scaled FP32 [-1,3]")
        assert ask(server, "pair", scale=row(4, 5, 6), x=row(1, 2, 3)) == (200, {"total": [6], "scaled": [4, 10, 18]})


@case
def whole_numbers(machine):
    """whole numbers look up rows of a table; one that it does not have is the request's fault"""
    with machine.serving("table", "set=inputs=ids:INT64:2") as server:
        assert ask(server, "table", ids=("INT64", [1, 2], [9, 1])) == (200, {"output": [18, 19, 2, 3]})
        status, error = ask(server, "table", ids=("INT64", [1, 2], [10, 1]))
        assert status == 400, error
        has(error, "index out of range")


@case
def batches(machine):
    """requests of several clients share a batch, and one for which the module raises fails alone"""
    # A batch waits for an hour unless it is full, so the three requests go together.
    with machine.serving("picky", "max-batch=3,max-delay=3600000,set=inputs=x:FP32:1") as server:
        for reading, status in ((7, 200), (700, 400)):
            before = server.metric("nv_inference_exec_count")
            answers = {}
            threads = [threading.Thread(target=lambda value=value: answers.update({value: ask(server, "picky", x=row(value))}))
                       for value in (1, 2, reading)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            for value in (1, 2):
                assert answers[value] == (200, {"output": [value + 1]}), answers
            assert answers[reading][0] == status, answers
            ran = server.metric("nv_inference_exec_count") - before
            assert ran == (1 if status == 200 else 2), ran
        has(answers[700][1], "AssertionError: a reading is above 100")


@case
def keeps_the_lease(machine):
    """a request that needs more memory than the lease fails with the numbers, and a smaller one goes on"""
    with machine.serving("hungry", "memory=1MiB,set=inputs=x:FP32:1") as server:
        for _ in range(3):
            status, error = ask(server, "hungry", x=row(2e7))
            assert status == 500, error
            has(error, "out_of_memory")
            has(error, "asked for 80000064 B")
            has(error, "limit of 1048576 B (1 MiB)")
            assert ask(server, "hungry", x=row(1000)) == (200, {"output": [1000]})


@case
def keeps_the_lease_in_batches(machine):
    """of the requests in one batch, only the one that needs more memory than the lease fails"""
    with machine.serving("hungry", "memory=1MiB,max-batch=3,max-delay=3600000,set=inputs=x:FP32:1") as server:
        answers = {}
        threads = [threading.Thread(target=lambda value=value: answers.update({value: ask(server, "hungry", x=row(value))}))
                   for value in (1, 2, 2e7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert answers[1] == (200, {"output": [1]}) and answers[2] == (200, {"output": [2]}), answers
        assert answers[2e7][0] == 500, answers
        has(answers[2e7][1], "asked for 80000064 B")


@case
def refuses_to_start(machine):
    """what cannot be served is said in a line that names what would be right"""
    has(machine.refused("large", "memory=1MiB,set=inputs=x:FP32:1", code=1), "asked for 4194368 B (4 MiB)")
    has(machine.refused("linear", "set=outputs=y"), "torch/module needs the setting inputs")
    has(machine.refused("linear", "set=inputs=x:FP32:5"), "mat1 and mat2 shapes cannot be multiplied (1x5 and 4x2)")
    has(machine.refused("pair", "set=inputs=x:FP32:3"), "forward takes 2 tensors (x, scale), and the setting inputs has 1")
    has(machine.refused("linear", "set=inputs=x:FP32:4,set=input=x"), 'torch/module has no setting "input"')
    has(load_error(machine, "--model", f"m,actor={TYPE},set=inputs=x:FP32:4", "--devices", "host:1x64MiB"),
        "torch/module needs a file")
    with open(machine.file("text"), "w", encoding="ascii") as out:
        out.write("no TorchScript")
    has(machine.refused("text", "set=inputs=x:FP32:4"), "the file of 14 B is no TorchScript that this libtorch reads")


@case
def swaps_versions(machine):
    """in a cluster of processes, a version is swapped under load, and each answer is that of one of the two"""
    path = machine.replace("moving", "linear")
    with cluster_of(machine.gpuactors, None, "host:1x256MiB", "--plugin", machine.plugin) as cluster, \
         serving(machine.serve, "--model", f"moving={path},actor={TYPE},replicas=2,set=inputs=x:FP32:4", "--broker",
                 cluster.broker, env=cluster.env,
                 notices=["model moving: version 2 serves in the place of version 1"]) as server:
        counts = {6.0: 0, 12.0: 0}  # what the row below is to linear and doubled
        failures = []
        stopping = threading.Event()

        def keep_asking():
            connection = server.connect()
            while not stopping.is_set() and not failures:
                status, outputs = ask(server, "moving", connection, x=row(0, 0, 0, 1))
                if status != 200 or outputs["output"][0] not in counts:
                    failures.append((status, outputs))
                else:
                    counts[outputs["output"][0]] += 1

        threads = [threading.Thread(target=keep_asking, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: counts[6.0] > 50 or failures, "version 1 answers")
        machine.replace("moving", "doubled")
        assert server.ask("POST", "/v2/repository/models/moving/load", {})[0] == 200
        until(lambda: counts[12.0] > 50 or failures, "version 2 answers")
        stopping.set()
        for thread in threads:
            thread.join(DEADLINE)
        assert not failures, failures[:3]


@case
def uses_the_threads_of_its_lease(machine):
    """in one process, each replica has libtorch use as many threads as its share of the device has"""
    cores = len(os.sched_getaffinity(0))
    with cluster_of(machine.gpuactors, None, "host:1x256MiB", "--plugin", machine.plugin) as cluster:
        for share in (1, 0.5):
            with serving(machine.serve, *machine.model("busy", f"gpus={share},set=inputs=x:FP32:1"), "--broker",
                         cluster.broker, env=cluster.env) as server:
                assert ask(server, "busy", x=row(3)) == (200, {"output": [3]})
                until(lambda: [actor for actor in cluster.replicas(TYPE) if "torch_threads" in actor.get("metrics", {})],
                      "its numbers are there")
                [actor] = cluster.replicas(TYPE)
                assert actor["metrics"]["torch_threads"] == max(1, int(cores * share)), (actor, cores, share)
            until(lambda: not cluster.replicas(TYPE), "the replica has ended")


@case
def ends_cleanly(machine):
    """a process with libtorch ends without an error, also while it answers"""
    for _ in range(3):
        answers = []

        def keep_asking(server):
            connection = server.connect()
            try:
                while True:
                    answers.append(ask(server, "busy", connection, x=row(1)))
                    if answers[-1][0] != 200:
                        return
            except (OSError, http.client.HTTPException):
                pass  # it has ended

        with machine.serving("busy", "set=inputs=x:FP32:1,memory=48MiB") as server:
            threads = [threading.Thread(target=keep_asking, args=(server,), daemon=True) for _ in range(2)]
            for thread in threads:
                thread.start()
            until(lambda: len(answers) > 4, "it answers")
        for thread in threads:
            thread.join(DEADLINE)
        assert {status for status, _ in answers} <= {200, 503}, answers


if __name__ == "__main__":
    sys.exit(case.run(Machine, 4))
