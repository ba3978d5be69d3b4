#!/usr/bin/env python3
"""Serves an engine that allocates by itself: engine_test.py GPUACTORS-SERVE PLUGIN [CASE]

PLUGIN is the example (apps/examples/served_engine.cpp) as a library."""

import subprocess
import sys

from program_support import Cases, DEADLINE, environment, has, serving

case = Cases()


class Machine:
    """The program and the plugin."""

    def __init__(self, serve, plugin, folder):
        self.serve = serve
        self.plugin = plugin
        self.env = environment(folder)

    def arguments(self, keys):
        return ("--model", f"mean,actor=examples/engine,{keys}", "--plugin", self.plugin, "--devices", "host:1x64MiB")


def ask(server, rows):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(rows), len(rows[0])],
                        "data": [value for row in rows for value in row]}]}
    return server.ask("POST", "/v2/models/mean/infer", body)


@case
def serves(machine):
    """an engine computes with the threads of its lease, and its memory counts"""
    for gpus in (0.25, 0.75):
        with serving(machine.serve, *machine.arguments(f"gpus={gpus},max-batch=8,set=columns=3"),
                     env=machine.env) as server:
            status, reply = ask(server, [[1, 3, 9], [2, 4, 8], [5, 5, 5]])
            assert status == 200, reply
            assert [round(value, 3) for value in reply["outputs"][0]["data"]] == [3, 4, 5], reply
            assert server.metric("gpuactors_serve_memory_used_bytes") == 8 * 3 * 8


@case
def blames_the_request(machine):
    """what the engine throws for an input fails that request alone"""
    with serving(machine.serve, *machine.arguments("set=columns=2"), env=machine.env) as server:
        status, reply = ask(server, [[1, -1]])
        assert status == 400, reply
        has(reply["error"], "a geometric mean is of numbers from 0 on")
        assert ask(server, [[4, 9]])[0] == 200


@case
def refuses_too_small_a_lease(machine):
    """an engine that needs more than the lease has is not started, and the numbers are said"""
    done = subprocess.run([machine.serve, "--http", "127.0.0.1:0",
                           *machine.arguments("memory=1MiB,max-batch=4096,set=columns=100")],
                          env=machine.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 1, done
    has(done.stderr, "asked for 3276800 B (3.12 MiB)")
    has(done.stderr, "limit of 1048576 B (1 MiB)")


if __name__ == "__main__":
    sys.exit(case.run(Machine, 2))
