#!/usr/bin/env python3
"""Serves for a long time at half of what it can, while replicas are killed: nothing is lost and memory stays flat.

    tests/serve/soak.py build/bin/gpuactors-serve build/bin/gpuactors build/bin/serve_make_checkpoint

starts a cluster of processes on two host devices and a server with two replicas, measures how many requests a second
it answers to clients that ask as fast as they can, and asks at half of that rate for --seconds (600 when left out).
Every --kill-every seconds (30) a replica is ended, in turns by SIGKILL of its process and by `gpuactors kill`. It ends
with 0 if every request was answered, and rightly, and if the memory of the server and its workers did not grow.
"""

import argparse
import os
import signal
import sys
import tempfile
import subprocess
import time

from program_support import INPUTS, OUTPUTS, Clients, cluster_of, memory_of, serving, until

CLIENTS = 8
# What an allocator may keep beyond what it had when all had been used once.
GROWTH_KIB = 16 << 10


def measure_capacity(server, seconds):
    """Answers a second to clients that ask as fast as they can."""
    clients = Clients(server, "digits", CLIENTS)
    clients.await_more(CLIENTS * 5)
    start, before = time.monotonic(), clients.answered
    until(lambda: time.monotonic() - start >= seconds, "the time of the measurement", seconds + 60)
    rate = (clients.answered - before) / (time.monotonic() - start)
    assert clients.stop() == [], clients.failures[:3]
    return rate


class Killer:
    """Ends one replica after the other, each in another way than the one before."""

    def __init__(self, cluster, server):
        self.cluster = cluster
        self.server = server
        self.kills = 0

    def kill(self):
        replicas = self.cluster.replicas()
        if len(replicas) < 2 or self.server.metric("gpuactors_serve_replicas") < 2:
            return  # the last one is being replaced
        victim = replicas[self.kills % len(replicas)]
        if self.kills % 2 == 0:
            os.kill(victim["pid"], signal.SIGKILL)
        else:
            self.cluster.run("kill", victim["name"], "--no-restart")
        self.kills += 1


def soak(server, cluster, arguments):
    rate = measure_capacity(server, arguments.measure)
    print(f"capacity {rate:.0f} requests/s to {CLIENTS} clients; {arguments.seconds:.0f} s at half of it", flush=True)
    clients = Clients(server, "digits", CLIENTS, pause=2 * CLIENTS / rate)
    killer = Killer(cluster, server)
    start = time.monotonic()
    next_kill, next_line = start + arguments.kill_every, start
    first_memory = memory = None
    while (now := time.monotonic()) < start + arguments.seconds:
        if now >= next_kill:
            next_kill += arguments.kill_every
            killer.kill()
        if now >= next_line:
            next_line += max(1.0, arguments.seconds / 20)
            memory = server.memory()
            # Connections and buffers come with the first requests.
            if first_memory is None and now - start >= arguments.seconds / 10:
                first_memory = memory
            print(f"{now - start:6.0f} s  {clients.answered:8} answers  {len(clients.failures)} failures  "
                  f"{killer.kills} kills  server {memory >> 10} MiB", flush=True)
        clients.stopping.wait(0.05)
    took = time.monotonic() - start
    # A dead replica is missed by who sends to it.
    until(lambda: server.metric("gpuactors_serve_replicas_lost") >= killer.kills, "every kill was noticed")
    failures = clients.stop()
    memory = server.memory()
    assert failures == [], f"{len(failures)} of {clients.answered} requests failed: {failures[:3]}"
    assert killer.kills > 0
    assert memory <= first_memory + GROWTH_KIB, f"the server grew from {first_memory} to {memory} KiB"
    until(lambda: len(cluster.replicas()) == 2, "two replicas serve")
    workers = [memory_of(replica["pid"]) >> 10 for replica in cluster.replicas()]
    print(f"{clients.answered} requests at {clients.answered / took:.0f}/s, {killer.kills} replicas killed, nothing lost; "
          f"server {first_memory >> 10} -> {memory >> 10} MiB, workers {workers} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serve", help="the program gpuactors-serve")
    parser.add_argument("gpuactors", help="the program gpuactors")
    parser.add_argument("make_checkpoint", help="the program serve_make_checkpoint")
    parser.add_argument("--seconds", type=float, default=600, help="how long; 600 when left out")
    parser.add_argument("--kill-every", type=float, default=30, help="seconds between two kills; 30 when left out")
    parser.add_argument("--measure", type=float, default=5, help="seconds of measuring capacity; 5 when left out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "digits.safetensors")
        subprocess.run([arguments.make_checkpoint, path, "1", str(INPUTS), "128", str(OUTPUTS)], check=True)
        with cluster_of(arguments.gpuactors, arguments.serve, "host:2x256MiB") as cluster, \
             serving(arguments.serve, "--model", f"digits={path}", "--replicas", "2", "--broker", cluster.broker,
                     env=cluster.env, notices=None) as server:
            soak(server, cluster, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
