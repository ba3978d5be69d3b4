#!/usr/bin/env python3
"""Runs a cluster on three hosts, which are network namespaces joined by a bridge, and cuts their connections:
netns_test.py PROGRAM

The broker and the client are on the first host, nodes n1 and n2 on the others, each with a certificate that the first
issued. Needs the right to make network namespaces, and iproute2; without them it ends with 77, which ctest shows as
skipped. All namespaces are its own, and gone at its end.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster_cli_test import DEADLINE, same, until

SKIPPED = 77
BROKER = "10.77.0.1:7711"
LINK_TIMEOUT = 1
PACE = ("--heartbeat", "0.2", "--link-timeout", str(LINK_TIMEOUT))


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Network:
    """Hosts h0, h1 and so on at 10.77.0.1, 10.77.0.2 and so on, with a cable each to a switch."""

    def __init__(self, hosts=3):
        self.hosts = hosts
        self.prefix = f"gpuactors-{os.getpid()}"
        self.made = []

    def name(self, host):
        return f"{self.prefix}-{host}"

    def build(self):
        self.add("switch")
        switch = ("-n", self.name("switch"), "link")
        ip(*switch, "add", "bridge", "type", "bridge")
        ip(*switch, "set", "bridge", "up")
        for i in range(self.hosts):
            self.add(f"h{i}")
            host = ("-n", self.name(f"h{i}"))
            ip(*switch, "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", self.name(f"h{i}"))
            ip(*switch, "set", f"port{i}", "master", "bridge", "up")
            ip(*host, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            ip(*host, "link", "set", "eth0", "up")
            ip(*host, "link", "set", "lo", "up")

    def add(self, host):
        ip("netns", "add", self.name(host))
        self.made.append(host)

    def plug(self, number, state):
        """Connects a host's cable, "up", or draws it, "down"."""
        ip("-n", self.name("switch"), "link", "set", f"port{number}", state)

    def route(self, verb, source, target):
        """Lets what one host sends to another end nowhere, "add", or arrive again, "del": a cut in one direction."""
        ip("-n", self.name(f"h{source}"), "route", verb, "blackhole", f"10.77.0.{target + 1}/32")

    def command(self, host, *arguments):
        return ["ip", "netns", "exec", self.name(host), *arguments]

    def remove(self):
        for host in self.made:
            with contextlib.suppress(OSError):
                ip("netns", "delete", self.name(host))


class Hosts:
    """The daemons and their logs."""

    def __init__(self, program, network, folder):
        self.program = program
        self.network = network
        self.folder = folder
        self.daemons = {}
        self.cut_off = None  # the process of the actor on the node that is cut off
        self.env = {key: value for key, value in os.environ.items()
                    if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}

    def certificates(self, host):
        return os.path.join(self.folder, host)

    def issue(self):
        self.call("certs", "init", "--certs", self.certificates("h0"))
        for i in range(1, self.network.hosts):
            self.call("certs", "issue", f"n{i}", "--host", f"10.77.0.{i + 1}", "--certs", self.certificates("h0"),
                      "--out", self.certificates(f"h{i}"))

    def start(self, host, *arguments):
        with open(os.path.join(self.folder, f"{host}.log"), "w", encoding="utf-8") as log:
            self.daemons[host] = subprocess.Popen(
                self.network.command(host, self.program, *arguments, *PACE, "--certs", self.certificates(host)),
                stdout=log, stderr=log, env=dict(self.env, XDG_STATE_HOME=os.path.join(self.folder, f"{host}.state")))

    def start_node(self, number):
        self.start(f"h{number}", "node", "--broker", BROKER, "--name", f"n{number}", "--devices", "host:1x1GiB")
        until(lambda: self.node(f"n{number}"), f"n{number} is registered")

    def run_on(self, host, *arguments):
        return subprocess.run(self.network.command(host, self.program, *arguments), env=self.env, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)

    def call(self, *arguments):
        """Standard output of a command on the first host."""
        done = self.run_on("h0", *arguments)
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, *arguments):
        return json.loads(self.ask_in_words(*arguments))

    def ask_in_words(self, *arguments):
        return self.call(*arguments, "--broker", BROKER, "--certs", self.certificates("h0"), *PACE)

    def node(self, name):
        """The node as `nodes --json` shows it while the broker counts on it, or None."""
        return next((n for n in self.ask("nodes", "--json") if n["name"] == name and n["state"] == "ok"), None)

    def where(self, actor):
        """The node that an actor answers from, or None while it does not."""
        with contextlib.suppress(AssertionError):
            return self.ask("call", actor, "where", "--timeout", "5")["node"]
        return None

    def log(self, host):
        with open(os.path.join(self.folder, f"{host}.log"), encoding="utf-8") as log:
            return log.read()

    def notices(self):
        # A daemon that is started again and again says a lot.
        return "\n".join(f"--- {host}\n" + "".join(self.log(host).splitlines(True)[-200:]) for host in self.daemons)

    def end(self):
        for daemon in self.daemons.values():
            daemon.send_signal(signal.SIGTERM)
        for host, daemon in self.daemons.items():
            try:
                same((host, daemon.wait(DEADLINE)), (host, 0))
            finally:
                daemon.kill()


def serve(hosts):
    """Tasks on both nodes."""
    hosts.issue()
    hosts.start("h0", "broker", "--listen", BROKER)
    until(lambda: os.path.getsize(os.path.join(hosts.folder, "h0.log")), "the broker listens")
    hosts.start_node(1)
    hosts.start_node(2)
    for node in ("n1", "n2"):
        hosts.ask("submit", "gpu_ids", "--node", node, "--gpus", "0.5")


def settled(hosts):
    """Both nodes are free, and nothing is left held."""
    until(lambda: hosts.ask("leases", "--json") == [], "no lease is left")
    same([(d["node"], d["free_share"]) for d in hosts.ask("devices", "--json")], [("n1", 1.0), ("n2", 1.0)])
    (status,) = hosts.ask("status", "--json")
    same([status[key] for key in ("nodes", "devices_in_use", "actors", "leases", "queue")], [2, 0, 0, 0, 0])


def spawn_on_n1(hosts):
    """An actor on n1 that may move: while it is placed, n2 takes nothing new."""
    hosts.ask_in_words("drain", "n2")
    roamer = hosts.ask("spawn", "counter", "--name", "roamer", "--gpus", "0.5", "--max-restarts", "3", "--isolation",
                       "process", "--json")
    hosts.ask_in_words("undrain", "n2")
    same(roamer["node"], "n1")
    same(hosts.where("roamer"), "n1")
    return roamer["pid"]


def moved_and_back(hosts, cut, heal):
    """The broker drops n1 when it is cut off, its actor answers from n2, and n1 is back, empty, when the cut is healed."""
    before = spawn_on_n1(hosts)
    lost = hosts.log("h1").count("connection to the broker is lost")
    cut()
    begin = time.monotonic()
    until(lambda: not hosts.node("n1"), "the broker drops n1")
    took = time.monotonic() - begin
    # Looking takes a while, and a sign of life may have come just before.
    assert took < LINK_TIMEOUT + 20, f"it took {took:.1f} s"
    until(lambda: hosts.where("roamer") == "n2", "the actor answers from n2")
    moved = time.monotonic() - begin
    until(lambda: hosts.log("h1").count("connection to the broker is lost") > lost, "n1 sees that it is cut off")
    seen = time.monotonic() - begin
    heal()
    begin = time.monotonic()
    until(lambda: hosts.node("n1"), "n1 is back")
    back = time.monotonic() - begin
    # All of its device is free: nothing of before the cut is held there.
    hosts.ask("submit", "gpu_ids", "--node", "n1", "--gpus", "1", "--timeout", "30")
    until(lambda: not os.path.exists(f"/proc/{before}"), "the actor that has moved has ended on n1")
    same(hosts.where("roamer"), "n2")
    same(len(hosts.ask("actors", "--json")), 1)
    hosts.ask_in_words("kill", "roamer", "--no-restart")
    settled(hosts)
    print(f"dropped after {took:.1f} s, moved after {moved:.1f} s, seen by the node after {seen:.1f} s, "
          f"back {back:.1f} s after the cut", flush=True)


def cut(hosts):
    """A node whose cable is drawn."""
    moved_and_back(hosts, lambda: hosts.network.plug(1, "down"), lambda: hosts.network.plug(1, "up"))


def mute(hosts):
    """A node that hears the broker and is not heard by it."""
    moved_and_back(hosts, lambda: hosts.network.route("add", 1, 0), lambda: hosts.network.route("del", 1, 0))


def deaf(hosts):
    """A node that the broker hears and cannot reach."""
    moved_and_back(hosts, lambda: hosts.network.route("add", 0, 1), lambda: hosts.network.route("del", 0, 1))


def apart(hosts):
    """A client that reaches the broker and not the node of its actor is told so in time, and not told that it is dead."""
    spawn_on_n1(hosts)
    call = ("call", "roamer", "where", "--timeout", "5", "--broker", BROKER, "--certs", hosts.certificates("h2"), *PACE)
    same(json.loads(hosts.run_on("h2", *call).stdout)["node"], "n1")
    for source, target in ((2, 1), (1, 2)):
        hosts.network.route("add", source, target)
        begin = time.monotonic()
        done = hosts.run_on("h2", *call)
        took = time.monotonic() - begin
        assert done.returncode != 0 and took < 15, f"{done.returncode} after {took:.1f} s: {done.stdout}"
        print(f"after {took:.1f} s: {done.stderr.strip()}", flush=True)
        # The broker and the clients beside it still reach both.
        same(hosts.where("roamer"), "n1")
        same([bool(hosts.node(name)) for name in ("n1", "n2")], [True, True])
        hosts.network.route("del", source, target)
        same(json.loads(hosts.run_on("h2", *call).stdout)["node"], "n1")
    hosts.ask_in_words("kill", "roamer", "--no-restart")
    settled(hosts)


def run(hosts):
    try:
        for step in (serve, cut, mute, deaf, apart):
            step(hosts)
            print(f"ok     {step.__doc__}", flush=True)
    except BaseException:
        print(hosts.notices(), flush=True)
        raise
    finally:
        hosts.end()
    print("ok     All end with 0 when they are told to.")


def main(program):
    if shutil.which("ip") is None:
        print("skipped: iproute2 is not installed")
        return SKIPPED
    network = Network()
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                network.build()
            except OSError as error:
                print(f"skipped: network namespaces cannot be made here: {error}")
                return SKIPPED
            run(Hosts(os.path.abspath(program), network, folder))
    finally:
        network.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
