#!/usr/bin/env python3
"""Runs a node whose processes are reached through published ports, as in a container: published_ports_test.py PROGRAM

The node listens at 127.0.0.1 and says that it is reached at 127.0.0.9, where a proxy stands that forwards each port of
its range, as that of a container's bridge does. So whoever reaches the node at all has come by the address and ports
that it was told.
"""

import contextlib
import json
import os
import random
import re
import selectors
import signal
import socket
import sys
import tempfile
import threading

from running_cluster import DEADLINE, Daemons, fits, same, until

INSIDE = "127.0.0.1"
OUTSIDE = "127.0.0.9"
PORTS = 12


class Proxy:
    """Forwards the ports of a range from OUTSIDE to INSIDE, and counts the connections of each."""

    def __init__(self, ports):
        self.counts = {port: 0 for port in ports}
        self.listeners = {}
        self.stop = threading.Event()
        for port in ports:
            listener = socket.create_server((OUTSIDE, port))
            listener.settimeout(0.1)
            self.listeners[port] = listener
            threading.Thread(target=self.accept, args=(port, listener), daemon=True).start()

    def accept(self, port, listener):
        while not self.stop.is_set():
            with contextlib.suppress(OSError):  # a timeout, or closed
                client, _ = listener.accept()
                self.counts[port] += 1
                try:
                    server = socket.create_connection((INSIDE, port), 5)
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self.forward, args=(client, server), daemon=True).start()

    @staticmethod
    def forward(client, server):
        with client, server, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in selector.select():
                        data = key.fileobj.recv(1 << 16)
                        if not data:
                            return
                        key.data.sendall(data)

    def close(self):
        self.stop.set()
        for listener in self.listeners.values():
            listener.close()


def free_range():
    """A range of ports that nobody has now, below those that the system gives to others."""
    for _ in range(200):
        first = random.randrange(20_000, 30_000)
        ports = range(first, first + PORTS)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in ports:
                for host in (INSIDE, OUTSIDE):
                    stack.enter_context(socket.create_server((host, port)))
            return ports
    raise AssertionError("no free range of ports")


class Scene(Daemons):
    """A broker, and nodes that are started one after the other."""

    def __init__(self, program, folder, stack):
        super().__init__(program, folder, stack)
        ready = self.daemon("broker", "broker", "--listen", "127.0.0.1:0").stdout.readline()
        assert ready.startswith("broker listens at "), (ready, self.log("broker"))
        self.broker = ready.split()[-1]

    def run(self, *arguments, code=0):
        return self.command(*arguments, "--broker", self.broker, code=code)

    def refusal(self, *arguments):
        """What a node that cannot be says."""
        return self.run("node", *arguments, code=2)

    def node(self, *arguments):
        return self.daemon("node", "node", "--broker", self.broker, "--name", "n0", "--devices", "host:2x1GiB",
                           *arguments)

    def is_there(self, name="n0"):
        return [node for node in json.loads(self.run("nodes", "--json")) if node["name"] == name]


def serves_by_published_ports(scene):
    ports = free_range()
    proxy = Proxy(ports)
    scene.stack.callback(proxy.close)
    node = scene.node("--host", OUTSIDE, "--bind", INSIDE, "--ports", f"{ports[0]}-{ports[-1]}")
    until(scene.is_there, "the node is registered")
    address = scene.is_there()[0]["address"]
    host, port = address.rsplit(":", 1)
    same(host, OUTSIDE)
    assert int(port) in ports, address
    same(sum(proxy.counts.values()), 0)

    # A task, an actor, and the log of the node: each by a port of the range, through the proxy.
    same(json.loads(scene.run("submit", "matmul", '{"n":64}', "--gpus", "0.5"))["n"], 64)
    assert sum(proxy.counts.values()) > 0, proxy.counts
    scene.run("spawn", "counter", "--name", "c", "--gpus", "1")
    scene.run("call", "c", "add", '{"n":1}')
    scene.run("logs", "--node", "n0")
    assert proxy.counts[int(port)] > 0, proxy.counts
    scene.end(node)


def says_that_no_port_is_left(scene):
    """A range that is too small for workers fails their work, with the reason."""
    ports = free_range()
    node = scene.node("--host", INSIDE, "--ports", f"{ports[0]}")
    until(scene.is_there, "the node is registered")
    error = scene.run("submit", "matmul", '{"n":64}', "--gpus", "0.5", code=1)
    wanted = f"none of the 1 ports {ports[0]}-{ports[0]} is free"
    assert wanted in error, error
    scene.end(node)


def refuses_what_cannot_be(scene):
    for arguments, part in ((("--ports", "9-1"), "1-9 would be right"), (("--ports", "http"), "such as 7720-7799"),
                            (("--host", "0.0.0.0"), "--bind 0.0.0.0"),
                            # An address of nobody here: not one port after the other is tried.
                            (("--host", OUTSIDE, "--bind", "192.0.2.1", "--ports", "7720-7799"),
                             "cannot listen on 192.0.2.1:0: Cannot assign")):
        said = scene.refusal(*arguments)
        assert part in said, said


def tells_the_address_that_it_was_told(scene):
    """Brokers of a pair know each other by --advertise."""
    store = [os.path.join(scene.folder, name) for name in ("first.db", "second.db")]
    first = scene.daemon("first", "broker", "--listen", "127.0.0.1:0", "--store", store[0])
    address = first.stdout.readline().split()[-1]
    scene.daemon("second", "broker", "--listen", "127.0.0.1:0", "--store", store[1], "--standby-of", address,
                 "--advertise", "10.99.0.2:7711")

    def standby():
        return json.loads(scene.command("status", "--json", "--broker", address))[0]["standby"]

    same(until(standby, "the second stands by")["address"], "10.99.0.2:7711")
    for wrong in ("10.99.0.2", "0.0.0.0:7711", "10.99.0.2:0"):
        said = scene.command("broker", "--advertise", wrong, code=2)
        assert wrong in said, said
        fits(r"127\.0\.0\.1:7711 would be right|10\.0\.0\.1:7711 would be one", said)


def catches_terminate(process):
    """Whether a process would end in order: the file goes before that."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status.read(), re.MULTILINE)
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def says_when_it_is_ready(scene):
    """The file of --ready-file is there while the broker has the node."""
    file = os.path.join(scene.folder, "ready")
    with open(file, "w", encoding="utf-8"):
        pass  # left by one that was killed
    lonely = scene.daemon("early", "node", "--broker", f"{INSIDE}:{free_range()[0]}", "--name", "n2", "--devices",
                          "host:1x1GiB", "--ready-file", file)
    until(lambda: not os.path.exists(file), "the file is gone")
    until(lambda: catches_terminate(lonely), "it has begun to wait for its end")
    scene.end(lonely)
    node = scene.node("--ready-file", file)
    until(lambda: os.path.exists(file) and scene.is_there(), "the file is there")
    scene.end(node)
    assert not os.path.exists(file)
    with open(file, "w", encoding="utf-8") as somebodys:
        somebodys.write("something")
    fits("is there already, and is no empty file", scene.refusal("--ready-file", file))
    os.remove(file)
    fits("--ready-file /none/ready cannot be made", scene.refusal("--ready-file", "/none/ready"))


def is_not_ready_without_a_broker(scene):
    file = os.path.join(scene.folder, "ready")
    other = scene.daemon("other", "broker", "--listen", "127.0.0.1:0")
    broker = other.stdout.readline().split()[-1]
    scene.daemon("lonely", "node", "--broker", broker, "--name", "n1", "--devices", "host:1x1GiB", "--ready-file", file)
    until(lambda: os.path.exists(file), "the file is there")
    other.kill()
    other.wait(DEADLINE)
    until(lambda: not os.path.exists(file), "the file is gone")
    scene.daemon("again", "broker", "--listen", broker)
    until(lambda: os.path.exists(file), "the file is there again")


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scene = Scene(sys.argv[1], folder, stack)
        for case in (serves_by_published_ports, says_that_no_port_is_left, refuses_what_cannot_be,
                     tells_the_address_that_it_was_told, says_when_it_is_ready, is_not_ready_without_a_broker):
            case(scene)
            print("ok", case.__name__, flush=True)


if __name__ == "__main__":
    main()
