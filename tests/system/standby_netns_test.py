#!/usr/bin/env python3
"""Runs a cluster with two brokers on hosts that are network namespaces joined by a bridge, and cuts their connections:
standby_netns_test.py PROGRAM [CASE...]

The active broker is on h0, the one that stands by on h1. Each case begins with new hosts. Daemons that end are started
again, as by a service manager. Needs and ends as netns_test.py.
"""

import concurrent.futures
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from cluster_cli_test import same, until
from netns_test import SKIPPED, Hosts, Network

FIRST = "10.77.0.1:7711"
SECOND = "10.77.0.2:7711"
BOTH = f"{FIRST},{SECOND}"
# A machine with much else to do stands still for a second now and then.
PACE = ("--heartbeat", "0.2", "--link-timeout", "2")
# The link timeout, and how long a vote lasts.
OLD_COPY = 2 + 10 + 1
CASES = []


def case(hosts):
    def add(function):
        CASES.append((function, hosts))
        return function
    return add


class Cluster(Hosts):
    """Two brokers, and nodes that know both."""

    def __init__(self, program, network, folder):
        super().__init__(program, network, folder)
        self.commands = {}
        self.ends = {}  # how often each daemon was started again

    def certificates(self, host):
        return os.path.join(self.folder, host.removeprefix("broker-").removeprefix("node-"))

    def start(self, host, *arguments):
        """`host` is that and the daemon's part before it, as in node-h1."""
        self.commands[host] = arguments
        with open(os.path.join(self.folder, f"{host}.log"), "a", encoding="utf-8") as log:
            self.daemons[host] = subprocess.Popen(
                self.network.command(host.split("-")[1], self.program, *arguments, *PACE, "--certs",
                                     self.certificates(host)),
                stdout=log, stderr=log, env=dict(self.env, XDG_STATE_HOME=os.path.join(self.folder, f"{host}.state")))

    def start_brokers(self, *votes):
        self.issue()
        store = [os.path.join(self.folder, f"{name}.db") for name in ("first", "second")]
        self.start("broker-h0", "broker", "--listen", FIRST, "--store", store[0])
        self.says("broker-h0", "broker listens at")
        self.start("broker-h1", "broker", "--listen", SECOND, "--store", store[1], "--standby-of", FIRST, *votes)
        self.says("broker-h1", "it has a copy of its state")

    def start_nodes(self, *numbers):
        for i in numbers:
            self.start(f"node-h{i}", "node", "--broker", BOTH, "--name", f"n{i}", "--devices", "host:1x1GiB")
        self.nodes_are(*numbers)

    def dismiss(self, host):
        """Ends a daemon in order."""
        daemon = self.daemons.pop(host)
        daemon.terminate()
        same(daemon.wait(20), 0)

    def revive(self):
        """Starts again what has ended."""
        for host, daemon in list(self.daemons.items()):
            if daemon.poll() is not None:
                self.ends[host] = self.ends.get(host, 0) + 1
                self.start(host, *self.commands[host])

    def until(self, condition, what):
        last = None

        def look():
            nonlocal last
            self.revive()
            try:
                return condition()
            except (AssertionError, subprocess.TimeoutExpired) as error:
                last = error
            return None
        try:
            return until(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {last}") from error

    def says(self, host, what, times=1):
        return self.until(lambda: self.log(host).count(what) >= times, f"{host} says {times} times: {what}")

    def on(self, host, *arguments, broker=BOTH):
        """Standard output of a command on a host."""
        done = self.run_on(host, *arguments, "--broker", broker, "--certs", self.certificates(host), *PACE)
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json_on(self, host, *arguments, broker=BOTH):
        return json.loads(self.on(host, *arguments, "--json", broker=broker))

    def alive(self, host, broker):
        """The nodes that this broker counts on."""
        return sorted(n["name"] for n in self.json_on(host, "nodes", broker=broker) if n["state"] == "ok")

    def nodes_are(self, *numbers, host="h0", broker=FIRST):
        """These nodes are with this broker, and no others."""
        self.until(lambda: same(self.alive(host, broker), [f"n{i}" for i in numbers]) or True,
                   f"nodes {numbers} are at {broker}")

    def count(self, host, actor):
        return int(json.loads(self.on(host, "call", actor, "add", '{"n":1}', "--timeout", "20"))["value"])

    def actor(self, host, name, broker=BOTH):
        return next(a for a in self.json_on(host, "actors", broker=broker) if a["name"] == name)

    def spawn(self, host, name, node, *arguments, broker=BOTH):
        spawned = self.json_on(host, "spawn", "counter", "--name", name, "--gpus", "0.25", "--isolation", "process",
                               "--node", node, *arguments, broker=broker)
        same(spawned["node"], node)
        return spawned["pid"]

    def spawn_to_move(self, host, name, node, *others):
        """An actor that may move: while it is placed, the others take nothing new."""
        for other in others:
            self.on(host, "drain", other)
        spawned = self.json_on(host, "spawn", "counter", "--name", name, "--gpus", "0.25", "--isolation", "process",
                               "--max-restarts", "3")
        for other in others:
            self.on(host, "undrain", other)
        same(spawned["node"], node)
        return spawned["pid"]

    def submit(self, host, node, broker=BOTH):
        """A task finds a place on that node."""
        reply = json.loads(self.on(host, "submit", "gpu_ids", "--node", node, "--gpus", "0.25", "--timeout", "20",
                                   broker=broker))
        same(reply["node"], node)

    def standby(self, host, broker=BOTH):
        """Where the one listens that stands by, and whether it does; what is said of it in words is the same."""
        (status,) = self.json_on(host, "status", broker=broker)
        standby = status["standby"]
        words = {"following": "has a copy, and follows", "copying": "has no whole copy yet", "away": "does not follow"}
        shown = self.on(host, "status", broker=broker)
        assert standby is None and "standby" not in shown or f"{standby['address']} {words[standby['state']]}" in shown
        return standby and (standby["address"], standby["state"])

    def standby_is(self, host, *expected, broker=BOTH):
        self.until(lambda: same(self.standby(host, broker), expected) or True, f"the standby is {expected}")

    def serves(self, host, broker):
        """Whether the broker at this address serves."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.on(host, "status", broker=broker)
            return True
        return False

    def standby_events(self, host, what):
        events = [json.loads(line) for line in self.on(host, "events", "--json").splitlines()]
        return [event for event in events if event["kind"] == "standby" and what in event["reason"]]

    def show(self, host, what):
        """What an operator sees who knows both addresses."""
        if "SHOW" not in os.environ:
            return
        print(f"--- {what}", flush=True)
        for command in (("status",), ("nodes",), ("actors",), ("events",)):
            done = self.run_on(host, *command, "--broker", BOTH, "--certs", self.certificates(host), *PACE)
            print(f"$ gpuactors {command[0]}: {done.returncode}\n{done.stdout}{done.stderr}", flush=True)

    def kept(self, name):
        """What is in a broker's store: what brokers share, and which nodes the other one had."""
        with tempfile.TemporaryDirectory() as folder:
            # The broker has locked its own. What it has committed last is beside it.
            for suffix in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(os.path.join(self.folder, f"{name}.db{suffix}"), folder)
            with contextlib.closing(sqlite3.connect(os.path.join(folder, f"{name}.db"))) as base:
                rows = {(section, key): bytes(value) for section, key, value in
                        base.execute("SELECT section, CAST(key AS TEXT), CAST(value AS BLOB) FROM state")}
        nodes = rows.get(("ids", "nodes"), b"").decode().split()
        return {key: value for key, value in rows.items()
                if key[0] != "ids" or key[1] in ("reserved", "term", "lineage")}, nodes

    def copied(self, *numbers):
        """The one that stands by has all of the first one's state, and knows these nodes: it is 0.2 s behind."""
        def look():
            with contextlib.suppress(sqlite3.Error):
                state, nodes = self.kept("second")
                return state == self.kept("first")[0] and nodes == [f"n{i}" for i in numbers]
            return False
        self.until(look, "the copy is complete")

    def no_takeover(self):
        same(self.log("broker-h1").count("takes over"), 0)
        same(self.ends, {})


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


@case(4)
def cut_off(cluster):
    """The active broker's host is cut off: the other broker takes over, and the former one stands by when it is back."""
    cluster.start_brokers()
    cluster.start_nodes(0, 1, 2, 3)
    stays = cluster.spawn("h2", "stays", "n2", "--max-restarts", "3")
    moves = cluster.spawn_to_move("h2", "moves", "n0", "n1", "n2", "n3")
    same(cluster.count("h2", "stays"), 1)
    cluster.copied(0, 1, 2, 3)
    cluster.network.plug(0, "down")
    cluster.says("broker-h1", "takes over from the broker")
    cluster.nodes_are(1, 2, 3, host="h2", broker=SECOND)
    cluster.standby_is("h2", FIRST, "away", broker=SECOND)
    # What runs goes on, what was cut off starts again elsewhere, and new work is placed.
    same(cluster.count("h2", "stays"), 2)
    same(cluster.actor("h2", "stays")["pid"], stays)
    cluster.until(lambda: cluster.actor("h2", "moves")["node"] in ("n1", "n2", "n3"), "the actor of n0 is elsewhere")
    cluster.submit("h2", "n1")
    cluster.spawn("h2", "new", "n3")
    # The broker that is cut off still has its own node.
    cluster.nodes_are(0, host="h0", broker=FIRST)
    cluster.submit("h0", "n0", broker=FIRST)
    aside = cluster.spawn("h0", "aside", "n0", broker=FIRST)
    cluster.show("h2", "h0 is cut off; seen by others")
    cluster.show("h0", "h0 is cut off; seen from there")

    cluster.network.plug(0, "up")
    cluster.says("broker-h0", "it has a copy of its state")
    cluster.nodes_are(0, 1, 2, 3, host="h0", broker=BOTH)
    cluster.show("h2", "all is whole")
    cluster.says("broker-h0", f"the broker has ended: the broker at {SECOND} serves this cluster")
    same(len(cluster.standby_events("h2", "this broker has taken over: it has not answered for")), 1)
    cluster.standby_is("h2", FIRST, "following")
    same(cluster.json_on("h2", "status")[0]["takeovers"], "1")
    same([cluster.serves("h3", FIRST), cluster.serves("h3", SECOND)], [False, True])
    same(cluster.ends, {"broker-h0": 1})
    until(lambda: gone(moves), "the actor that has moved has ended on n0")
    same(cluster.count("h0", "stays"), 3)
    same(cluster.actor("h0", "stays")["pid"], stays)
    names = sorted(a["name"] for a in cluster.json_on("h0", "actors") if a["state"] == "alive")
    same(names, ["aside", "moves", "new", "stays"])
    same(cluster.actor("h0", "aside")["pid"], aside)
    cluster.submit("h3", "n0")
    # And back, by the same way.
    cluster.network.plug(1, "down")
    cluster.says("broker-h0", "takes over from the broker")
    cluster.nodes_are(0, 2, 3, host="h0", broker=FIRST)
    cluster.network.plug(1, "up")
    cluster.says("broker-h1", "it has a copy of its state", 2)
    cluster.nodes_are(0, 1, 2, 3, host="h1", broker=BOTH)
    same(cluster.ends, {"broker-h0": 1, "broker-h1": 1})
    same(cluster.count("h0", "stays"), 4)
    same(cluster.actor("h0", "stays")["pid"], stays)


@case(4)
def brokers_apart(cluster):
    """Brokers that do not reach each other, in both directions or in one, while nodes reach both: nothing changes."""
    cluster.start_brokers()
    cluster.start_nodes(2, 3)
    stays = cluster.spawn("h2", "stays", "n2")
    for number, cuts in enumerate((((0, 1),), ((1, 0),), ((0, 1), (1, 0))), 1):
        unanswered, copies = (cluster.log("broker-h1").count(what) for what in ("does not answer", "it has a copy"))
        missed = len(cluster.standby_events("h2", "does not follow"))
        for source, target in cuts:
            cluster.network.route("add", source, target)
        begin = time.monotonic()
        cluster.says("broker-h1", "does not answer", unanswered + 1)
        cluster.until(lambda: len(cluster.standby_events("h2", "does not follow")) > missed,  # pylint: disable=W0640
                      "the follower is missed")
        cluster.standby_is("h2", SECOND, "away")
        cluster.show("h2", f"brokers are apart: {cuts}")
        same([cluster.serves("h2", FIRST), cluster.serves("h2", SECOND)], [True, False])
        same(cluster.count("h3", "stays"), number)
        cluster.spawn("h2", f"x{number}", "n3")
        if number == 3:
            restarted(cluster, begin)
        for source, target in cuts:
            cluster.network.route("del", source, target)
        cluster.says("broker-h1", "it has a copy of its state", copies + 1)
        cluster.standby_is("h2", SECOND, "following")
    same(cluster.log("broker-h1").count("takes over"), 0)
    same(cluster.actor("h2", "stays")["pid"], stays)
    same(cluster.count("h3", "stays"), 4)


def restarted(cluster, apart_since):
    """The active broker is restarted while the other one has an old copy, which waits for it."""
    # Older than it would be if the active broker had died when it was heard last.
    until(lambda: time.monotonic() - apart_since > OLD_COPY, "the copy is old")
    asked = [cluster.log(f"node-h{i}").count("serves nobody") for i in (2, 3)]
    cluster.daemons["broker-h0"].kill()
    until(lambda: all(cluster.log(f"node-h{i}").count("serves nobody") > asked[i - 2] for i in (2, 3)),
          "both nodes ask the one that stands by")
    cluster.nodes_are(2, 3, host="h2")
    same(cluster.ends.pop("broker-h0"), 1)
    cluster.show("h2", "restarted while brokers are apart")


@case(4)
def minority(cluster):
    """A broker that stands by and is cut off with a minority of the nodes stays what it is."""
    cluster.start_brokers()
    cluster.start_nodes(0, 1, 2, 3)
    cluster.copied(0, 1, 2, 3)
    cluster.network.plug(1, "down")
    cluster.says("broker-h1", "does not answer")
    cluster.says("node-h1", "serves nobody")
    cluster.nodes_are(0, 2, 3, host="h2")
    cluster.show("h1", "h1 is cut off; seen from there")
    cluster.show("h2", "h1 is cut off")
    same(cluster.serves("h1", SECOND), False)
    cluster.spawn("h2", "meanwhile", "n3")
    cluster.network.plug(1, "up")
    cluster.nodes_are(0, 1, 2, 3, host="h1")
    cluster.no_takeover()
    # It is put out of service: the other one misses it after a restart, and is told that nobody stands by any more.
    cluster.dismiss("broker-h1")
    cluster.dismiss("broker-h0")
    cluster.start("broker-h0", *cluster.commands["broker-h0"])
    cluster.standby_is("h2", SECOND, "away", broker=FIRST)
    cluster.dismiss("broker-h0")
    cluster.start("broker-h0", *cluster.commands["broker-h0"], "--no-standby")
    cluster.nodes_are(0, 1, 2, 3, host="h2")
    same(cluster.standby("h2", FIRST), None)


@case(2)
def two_machines(cluster):
    """Two machines with --votes 1: both serve while they are apart, and one gives way when they meet."""
    cluster.start_brokers("--votes", "1")
    cluster.start_nodes(0, 1)
    first = cluster.spawn_to_move("h0", "twice", "n0", "n1")
    cluster.copied(0, 1)
    cluster.network.plug(0, "down")
    cluster.says("broker-h1", "takes over from the broker")
    cluster.until(lambda: cluster.actor("h1", "twice")["node"] == "n1", "the actor lives on n1, too")
    second = cluster.actor("h1", "twice")["pid"]
    cluster.submit("h1", "n1")
    # It runs twice until the two meet.
    cluster.nodes_are(0, host="h0", broker=FIRST)
    same(cluster.actor("h0", "twice")["pid"], first)
    cluster.submit("h0", "n0")
    aside = cluster.spawn("h0", "aside", "n0")
    cluster.show("h0", "apart; seen by h0")
    cluster.show("h1", "apart; seen by h1")
    cluster.network.plug(0, "up")
    cluster.says("broker-h0", "it has a copy of its state")
    cluster.nodes_are(0, 1, host="h0", broker=BOTH)
    cluster.show("h0", "together")
    same([cluster.serves("h0", FIRST), cluster.serves("h0", SECOND)], [False, True])
    until(lambda: gone(first), "the actor has ended on n0")
    same(cluster.actor("h0", "twice")["pid"], second)
    same(cluster.actor("h0", "aside")["pid"], aside)
    same(cluster.ends, {"broker-h0": 1})


@case(4)
def one_node_apart(cluster):
    """The active broker's host is cut off while the other broker does not reach one of three nodes."""
    cluster.start_brokers()
    cluster.start_nodes(1, 2, 3)
    moves = cluster.spawn_to_move("h3", "moves", "n3", "n1", "n2")
    cluster.copied(1, 2, 3)
    cluster.network.route("add", 1, 3)
    cluster.network.plug(0, "down")
    cluster.says("broker-h1", "takes over from the broker")
    cluster.nodes_are(1, 2, host="h2", broker=SECOND)
    cluster.submit("h2", "n2")
    cluster.until(lambda: cluster.actor("h2", "moves")["node"] in ("n1", "n2"), "the actor of n3 is elsewhere")
    cluster.show("h2", "n3 reaches no broker")
    cluster.network.route("del", 1, 3)
    cluster.nodes_are(1, 2, 3, host="h2", broker=SECOND)
    until(lambda: gone(moves), "the actor that has moved has ended on n3")
    cluster.network.plug(0, "up")
    cluster.says("broker-h0", "it has a copy of its state")
    same(cluster.count("h0", "moves"), 1)
    same(cluster.ends, {"broker-h0": 1})


@case(4)
def node_by_node(cluster):
    """Nodes lose the active broker one after the other, and then it dies: the other broker takes over."""
    cluster.start_brokers()
    cluster.start_nodes(0, 2, 3)
    cluster.copied(0, 2, 3)
    for i in (2, 3):
        cluster.network.route("add", 0, i)
    cluster.nodes_are(0)
    for i in (2, 3):
        cluster.says(f"node-h{i}", "serves nobody")
    cluster.copied(0)
    cluster.show("h2", "n2 and n3 do not reach the active broker; seen from there")
    cluster.no_takeover()
    cluster.network.plug(0, "down")
    cluster.says("broker-h1", "takes over from the broker")
    cluster.nodes_are(2, 3, host="h2", broker=SECOND)
    cluster.network.plug(0, "up")
    for i in (2, 3):
        cluster.network.route("del", 0, i)
    cluster.nodes_are(0, 2, 3, host="h2", broker=SECOND)
    cluster.says("broker-h0", "it has a copy of its state")


def play(program, step, hosts):
    network = Network(hosts)
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                network.build()
            except OSError as error:
                print(f"skipped: network namespaces cannot be made here: {error}")
                return False
            cluster = Cluster(os.path.abspath(program), network, folder)
            begin = time.monotonic()
            try:
                step(cluster)
                if "SHOW" in os.environ:
                    print(cluster.notices(), flush=True)
            except BaseException:
                print(cluster.notices(), flush=True)
                raise
            finally:
                cluster.end()
            print(f"ok     {step.__doc__} ({time.monotonic() - begin:.1f} s)", flush=True)
    finally:
        network.remove()
    return True


def play_all(program):
    """All cases, two at a time, as most of their time is waiting; each in a process of its own."""
    def play_one(name):
        done = subprocess.run([sys.executable, "-B", __file__, program, name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, end="", flush=True)
        return done.returncode
    with concurrent.futures.ThreadPoolExecutor(2) as players:
        codes = list(players.map(play_one, [step.__name__ for step, _ in CASES]))
    return max(codes, key=lambda code: (code not in (0, SKIPPED), code))


def main(program, *names):
    if not names:
        return play_all(program)
    for step, hosts in CASES:
        if step.__name__ in names and not play(program, step, hosts):
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
