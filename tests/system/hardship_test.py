#!/usr/bin/env python3
"""Runs a cluster where its surroundings let it down: hardship_test.py PROGRAM [CASE]

The cases are sentences. Each starts a cluster of its own.
"""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

from running_cluster import DEADLINE, Cluster, fits, same, until

CASES = []


def case(function):
    """A case; its name is the function's first line of documentation."""
    CASES.append(function)
    return function


def workers(cluster):
    return [pid for pid, command in cluster.processes().items() if " worker " in command]


def lose_a_worker(cluster, name):
    """Has the node say something: a worker has died."""
    cluster.run("spawn", "counter", "--name", name, "--gpus", "0.5")
    os.kill(workers(cluster)[0], signal.SIGKILL)
    until(lambda: not workers(cluster), "the worker is gone")


@case
def reader_gone(program, folder):
    """a cluster goes on when nobody is left who reads its standard error"""
    reading, writing = os.pipe()
    cluster = Cluster(program, folder, stderr=writing)
    os.close(writing)
    os.close(reading)
    for name in ("a", "b"):
        lose_a_worker(cluster, name)
    same(cluster.json("nodes", "--json")[0]["state"], "ok")
    cluster.end()


@case
def reader_slow(program, folder):
    """a cluster goes on when its standard error is not read"""
    reading, writing = os.pipe()
    # So full that not one line goes in.
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 65536):
            pass
    except BlockingIOError:
        pass
    os.set_blocking(writing, True)
    cluster = Cluster(program, folder, stderr=writing)
    os.close(writing)
    for name in ("a", "b"):
        lose_a_worker(cluster, name)
    same(cluster.json("nodes", "--json")[0]["state"], "ok")
    # It ends too, without having been read.
    cluster.end()
    os.close(reading)


@case
def unknown_worker(program, folder):
    """a worker that its agent does not expect says so and ends"""
    cluster = Cluster(program, folder)
    cluster.run("spawn", "counter", "--name", "a", "--gpus", "0.5")
    with open(f"/proc/{workers(cluster)[0]}/cmdline", "rb") as file:
        arguments = file.read().split(b"\0")[:-1]
    setup = json.loads(arguments[2])
    setup["number"] = "999"
    setup["parent"] = os.getpid()
    done = subprocess.run([program, "worker", json.dumps(setup)], env=cluster.env, capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    same(done.returncode, 1)
    fits("worker 999 is not expected", done.stderr)
    cluster.end()


@case
def no_descriptors(program, folder):
    """strangers who take all connections are turned away, and the cluster serves again when they have gone"""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

    # Without TLS, and with the greeting that they hear: of those who say nothing only 32 may wait at a time, which is
    # not enough to take all.
    cluster = Cluster(program, folder, "--insecure", preexec_fn=limit)
    host, port = cluster.broker.split(":")
    strangers = []
    for _ in range(120):
        stranger = socket.create_connection((host, int(port)), timeout=DEADLINE)
        strangers.append(stranger)
        try:
            stranger.sendall(stranger.makefile("rb").readline())
        except OSError:
            pass  # turned away
    until(lambda: "descriptors, and they are used up" in cluster.notices(), "some are turned away, with the reason")
    for stranger in strangers:
        stranger.close()
    until(lambda: cluster.start("nodes", "--insecure").wait(DEADLINE) == 0, "the cluster serves again")
    cluster.end()


@case
def no_name_yet(program, folder):
    """a node whose broker has no address yet keeps looking for it, and ends with 0 when it is told to"""
    node = subprocess.Popen([program, "node", "--broker", "nobody.invalid:7711", "--devices", "host:1x64MiB", "--insecure"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, XDG_STATE_HOME=folder))
    try:
        fits("the host nobody.invalid cannot be found: .*; looking again until it can", node.stderr.readline())
        # Asked to start its programs anew, it does so when it has started them.
        node.send_signal(signal.SIGUSR1)
        node.send_signal(signal.SIGTERM)
        same((node.wait(DEADLINE), node.stderr.read()), (0, ""))
    finally:
        node.kill()
        node.stderr.close()


@case
def children_ignored(program, folder):
    """a node that was started with SIGCHLD ignored hears how its workers end"""
    cluster = Cluster(program, folder, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    lose_a_worker(cluster, "a")
    until(lambda: "was ended by signal 9 (SIGKILL)" in cluster.notices(), "its end is told")
    cluster.end()


@case
def script_without_exec(program, folder):
    """a node whose program is a script that starts the real one as its child says what would be right"""
    script = os.path.join(folder, "script")
    for how in ("exec ", ""):
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n{how}"{program}" "$@"\nexit $?\n')
        os.chmod(script, 0o700)
        cluster = Cluster(program, folder, "--program", script)
        task = cluster.start("submit", "gpu_ids", "--gpus", "0.5")
        if how:
            same(task.wait(DEADLINE), 0)
        else:
            said = "this process ends, because process .* has started it, and not its node .* by exec"
            until(lambda: re.search(said, cluster.notices()), "it is said")
        task.kill()
        task.communicate()
        cluster.end()


@case
def no_driver(program, folder):
    """a node in a container that was given GPUs says that it has none"""
    if os.path.exists("/proc/driver/nvidia"):
        return
    node = subprocess.Popen([program, "node", "--broker", "127.0.0.1:1", "--insecure"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, XDG_STATE_HOME=folder, NVIDIA_VISIBLE_DEVICES="all"))
    try:
        fits('no GPU can be used, and NVIDIA_VISIBLE_DEVICES is "all": the node offers the processor',
             node.stderr.readline())
    finally:
        node.kill()
        node.wait(DEADLINE)
        node.stderr.close()


@case
def no_file_system(program, folder):
    """a node needs no file system that can be written, but for its logs"""
    cluster = Cluster(program, folder, env=dict(os.environ, XDG_STATE_HOME=folder, TMPDIR="/proc"))
    same(cluster.json("submit", "gpu_ids", "--gpus", "0.5")["node"], "n0")
    cluster.end()


@case
def no_address(program, folder):
    """a node that says that it is reached by any address is refused"""
    done = subprocess.run([program, "node", "--broker", "127.0.0.1:1", "--host", "0.0.0.0", "--devices", "host:1x64MiB",
                           "--insecure"], capture_output=True, text=True, timeout=DEADLINE, check=False,
                          env=dict(os.environ, XDG_STATE_HOME=folder))
    same(done.returncode, 2)
    fits("the host 0.0.0.0 is no address that others reach this node by", done.stderr)


def wait_over_a_restart(first, program, folder):
    """Stops `up` while something waits there; the next `up` must serve it."""
    first.run("spawn", "counter", "--name", "big", "--gpus", "2")
    waiting = first.start("spawn", "counter", "--name", "later", "--gpus", "2", "--json")
    until(lambda: first.json("queue", "--json"), "the request waits")
    first.process.send_signal(signal.SIGTERM)
    same(first.process.wait(DEADLINE), 0)
    first.process.stdout.close()
    second = Cluster(program, folder, listen=first.broker)
    out, error = waiting.communicate(timeout=DEADLINE)
    assert waiting.returncode == 0 and json.loads(out)["state"] == "alive", (waiting.returncode, out, error)
    second.end()


@case
def queue_over_a_restart(program, folder):
    """what waits for a place when `up` is stopped is served by the next `up`"""
    wait_over_a_restart(Cluster(program, folder), program, folder)


@case
def queue_over_a_slow_restart(program, folder):
    """what waits for a place when `up` is stopped with a grace is served by the next `up`"""
    wait_over_a_restart(Cluster(program, folder, "--stop-grace", "5"), program, folder)


def main():
    program = os.path.abspath(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    failures = 0
    for function in CASES:
        if part not in function.__doc__:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong = ""
            try:
                function(program, folder)
            except Exception:  # pylint: disable=broad-except
                wrong = traceback.format_exc()
            print(f"{'FAILED' if wrong else 'ok':6} {function.__doc__}", flush=True)
            if wrong:
                failures += 1
                print(wrong, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
