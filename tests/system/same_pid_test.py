#!/usr/bin/env python3
"""Runs a cluster whose processes share network, host name and PID, as in containers on their host's network:
same_pid_test.py PROGRAM

Broker, nodes and client are process 1 each, in PID namespaces of their own. Needs the right to make those (as root, or
in a user namespace); without it the test ends with 77, which ctest shows as skipped.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from running_cluster import DEADLINE, same, until

SKIPPED = 77
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGTERM"]
AS_USER = ["unshare", "--user", "--map-current-user", *APART[1:]]


def way():
    """The command that makes what follows process 1, or None."""
    if shutil.which("unshare") is None:
        return None
    for command in (APART, AS_USER):
        done = subprocess.run([*command, "sh", "-c", "echo $$"], capture_output=True, text=True, check=False)
        if done.stdout == "1\n":
            return command
    return None


class Containers:
    """The daemons, each as process 1."""

    def __init__(self, program, apart, folder):
        self.program = program
        self.apart = apart
        self.folder = folder
        self.env = {key: value for key, value in os.environ.items()
                    if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}
        self.env["XDG_STATE_HOME"] = folder
        self.daemons = {}
        self.broker = None

    def start(self, name, *arguments):
        """Starts a daemon; the line with which it says that it is ready."""
        with open(os.path.join(self.folder, f"{name}.log"), "a", encoding="utf-8") as log:
            self.daemons[name] = subprocess.Popen([*self.apart, self.program, *arguments], stdout=subprocess.PIPE,
                                                  stderr=log, env=self.env, text=True)
        return self.daemons[name].stdout.readline()

    def start_node(self, name):
        self.start(name, "node", "--broker", self.broker, "--name", name, "--devices", "host:1x1GiB")
        until(lambda: self.state(name) == "ok", f"{name} is registered")

    def state(self, name):
        return next((node["state"] for node in self.ask("nodes", "--json") if node["name"] == name), None)

    def ask(self, *arguments):
        done = subprocess.run([*self.apart, self.program, *arguments, "--broker", self.broker], env=self.env,
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 0, f"{arguments}: {done}\n{self.notices()}"
        return json.loads(done.stdout)

    def end(self, name, signal):
        """Ends a daemon as `docker stop` or `docker kill` does: process 1 gets the signal. Its exit code."""
        daemon = self.daemons.pop(name)
        with contextlib.suppress(OSError), open(f"/proc/{daemon.pid}/task/{daemon.pid}/children",
                                                encoding="utf-8") as file:
            os.kill(int(file.read()), signal)
        try:
            return daemon.wait(DEADLINE)
        finally:
            daemon.kill()
            daemon.stdout.close()

    def notices(self):
        logs = sorted(name for name in os.listdir(self.folder) if name.endswith(".log"))
        texts = []
        for name in logs:
            with open(os.path.join(self.folder, name), encoding="utf-8") as log:
                texts.append(f"--- {name}\n{log.read()}")
        return "\n".join(texts)


def begin(containers):
    """A broker, two nodes and a client, each process 1, know one another."""
    ready = containers.start("broker", "broker", "--listen", "127.0.0.1:0")
    assert re.fullmatch(r"broker listens at 127\.0\.0\.1:\d+\n", ready), (ready, containers.notices())
    containers.broker = ready.split()[-1]
    containers.start_node("n1")
    containers.start_node("n2")


def work(containers):
    """Each node serves what is its own: tasks, and actors in workers whose PIDs are the same too."""
    for node in ("n1", "n2"):
        same(containers.ask("submit", "gpu_ids", "--node", node, "--gpus", "0.5")["node"], node)
        containers.ask("spawn", "counter", "--name", f"of-{node}", "--node", node, "--gpus", "0.5", "--isolation",
                       "process", "--json")
    places = [containers.ask("call", f"of-{node}", "where") for node in ("n1", "n2")]
    same([place["node"] for place in places], ["n1", "n2"])
    same(places[0]["pid"], places[1]["pid"])


def again(containers):
    """A node that was killed comes back as process 1 again and is not taken for the one before."""
    containers.end("n1", 9)
    containers.start_node("n1")
    same(containers.ask("submit", "gpu_ids", "--node", "n1", "--gpus", "1", "--timeout", "30")["node"], "n1")
    same(containers.ask("call", "of-n2", "where")["node"], "n2")


def run(containers):
    try:
        for step in (begin, work, again):
            step(containers)
            print(f"ok     {step.__doc__}", flush=True)
        for name in list(containers.daemons):
            same((name, containers.end(name, 15)), (name, 0))
        print("ok     All end with 0 when they are told to.")
    except BaseException:
        print(containers.notices(), flush=True)
        raise
    finally:
        for name in list(containers.daemons):
            containers.end(name, 9)


def main(program):
    apart = way()
    if apart is None:
        print("skipped: PID namespaces cannot be made here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        run(Containers(os.path.abspath(program), apart, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
