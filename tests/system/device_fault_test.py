#!/usr/bin/env python3
"""GPUs that report faults, and MPS, on a cluster of processes: device_fault_test.py GPUACTORS

Driver and management library are the tests' own, which LD_LIBRARY_PATH leads to; events come through a pipe.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import up

GPUS = "cuda:GPU-00,GPU-01"
# In the management library's order, which is not CUDA's.
SECOND, FIRST = 0, 1
XID = 0x8


class Machine:
    """A broker and a node of two GPUs, each a process of its own."""

    def __init__(self, gpuactors, folder, **variables):
        self.gpuactors = gpuactors
        self.stack = contextlib.ExitStack()
        self.env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "FAKE_CUDA_DEVICES": "2",
                    "FAKE_NVML_EVENTS": str(folder / "events"), **variables}
        for name in ("GPUACTORS_BROKER", "GPUACTORS_CERTS"):
            self.env.pop(name, None)
        os.mkfifo(folder / "events")
        self.events = os.open(folder / "events", os.O_RDWR)
        self.stack.callback(os.close, self.events)
        self.broker = self.address = self.node = None

    def __enter__(self):
        self.start_broker("127.0.0.1:0")
        self.start_node()
        return self

    def __exit__(self, *error):
        self.stack.close()

    def _start(self, *arguments):
        process = self.stack.enter_context(subprocess.Popen([self.gpuactors, *arguments], stdout=subprocess.PIPE,
                                                            stderr=subprocess.PIPE, env=self.env, text=True))
        self.stack.callback(process.kill)
        return process

    def start_broker(self, listen):
        self.broker = self._start("broker", "--listen", listen)
        self.address = self.broker.stdout.readline().split()[-1]

    def start_node(self, *arguments):
        self.node = self._start("node", "--broker", self.address, "--name", "n0", "--devices", GPUS, *arguments)
        self.said("is registered")

    def said(self, words):
        """Waits until the node says so."""
        for line in self.node.stderr:
            if words in line:
                return line
        raise AssertionError(f"the node has ended without a word of {words!r}")

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=up.DEADLINE)

    def event(self, gpu, number):
        os.write(self.events, f"{gpu} {XID} {number}\n".encode())

    def run(self, *command):
        done = subprocess.run([self.gpuactors, *command, "--broker", self.address], env=self.env, capture_output=True,
                              text=True, timeout=up.DEADLINE, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def devices(self):
        return [(device["index"], device["state"], device.get("reason"))
                for device in json.loads(self.run("devices", "--json"))]


def same(value, expected):
    assert value == expected, f"{value!r} came, {expected!r} was expected"


OK = [(0, "ok", None), (1, "ok", None)]
WHY = "XID 79 (the GPU has fallen off the bus)"
FAILED = [(0, "failed", WHY), (1, "ok", None)]


def tells_how_busy(machine):
    """As the fake management library has it: told by the node, shown by the broker."""
    until = time.monotonic() + up.DEADLINE
    devices = [{}]
    while not all("busy_percent" in device for device in devices):
        assert time.monotonic() < until, devices
        devices = json.loads(machine.run("devices", "--json"))
    same([device["busy_percent"] for device in devices], [70, 70])
    assert all(int(device["memory_in_use_bytes"]) > 0 for device in devices), devices
    assert "70 %" in machine.run("devices")


def quarantines(machine):
    machine.run("spawn", "counter", "--name", "c0", "--gpus", "0.5", "--max-restarts", "1")
    same(machine.devices(), OK)
    # An application's own fault, and one that the GPU has dealt with, which is said.
    machine.event(FIRST, 31)
    machine.event(FIRST, 94)
    machine.said("XID 94 (a contained memory error)")
    same(machine.devices(), OK)
    machine.event(FIRST, 79)
    line = machine.said(WHY)
    assert "device 0 of node n0 has failed" in line and "until the node is started again" in line, line
    same(machine.devices(), FAILED)
    # What may be started anew is on the other GPU.
    same(json.loads(machine.run("call", "c0", "add", "{\"n\":2}")), {"value": "2"})
    where = json.loads(machine.run("call", "c0", "where"))
    same([device["index"] for device in where["devices"]], [1])
    assert WHY in machine.run("devices")
    nodes = json.loads(machine.run("nodes", "--json"))
    same(nodes[0]["failed_devices"], [{"index": 0, "reason": WHY}])
    assert WHY in machine.run("nodes")


def outlives_a_broker(machine):
    machine.broker.kill()
    machine.broker.wait(up.DEADLINE)
    machine.start_broker(machine.address)
    machine.said("is registered")
    same(machine.devices(), FAILED)


def ends_with_the_node(machine):
    machine.end(machine.node)
    machine.start_node()
    same(machine.devices(), OK)


def watches_nothing(machine):
    machine.end(machine.node)
    machine.start_node("--no-device-watch")
    machine.event(FIRST, 79)
    machine.run("submit", "gpu_ids", "--gpus", "2")
    same(machine.devices(), OK)
    # So that the next one does not find it.
    os.set_blocking(machine.events, False)
    os.read(machine.events, 4096)


def environment_of(machine, name, *arguments):
    actor = json.loads(machine.run("spawn", "counter", "--name", name, *arguments, "--json"))
    text = pathlib.Path(f"/proc/{actor['pid']}/environ").read_bytes().decode()
    pairs = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    return [pairs.get(f"CUDA_MPS_{variable}") for variable in ("ACTIVE_THREAD_PERCENTAGE", "PINNED_DEVICE_MEM_LIMIT")]


def limits_processes(machine):
    alone = ("--isolation", "process")
    # The node itself was started with 70 %.
    same(environment_of(machine, "m0", "--gpus", "0.25", "--memory", "100MiB", *alone), ["25", "0=420M"])
    same(environment_of(machine, "m1", "--gpus", "1", *alone), [None, None])
    same(environment_of(machine, "m2", "--gpus", "0.25"), ["70", None])
    machine.end(machine.node)
    machine.start_node("--no-mps")
    same(environment_of(machine, "m3", "--gpus", "0.25", *alone), ["70", None])


def main(gpuactors):
    with tempfile.TemporaryDirectory() as folder, Machine(gpuactors, pathlib.Path(folder)) as machine:
        tells_how_busy(machine)
        quarantines(machine)
        outlives_a_broker(machine)
        ends_with_the_node(machine)
        watches_nothing(machine)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "control").touch()
        with Machine(gpuactors, pathlib.Path(folder), CUDA_MPS_PIPE_DIRECTORY=folder,
                     CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="70") as machine:
            limits_processes(machine)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
