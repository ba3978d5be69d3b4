#!/usr/bin/env python3
"""Runs daemons under a service manager that this test plays, with systemd's protocol: service_manager_test.py PROGRAM"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile

from running_cluster import DEADLINE, same

# A third of it is how often they say that they are alive: the machine may be busy.
WATCHDOG_MICROSECONDS = 1_500_000


class Manager:
    """Hears what one daemon says."""

    def __init__(self, folder, name):
        self.address = f"@gpuactors-{os.getpid()}-{name}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.address[1:])
        self.socket.settimeout(DEADLINE)
        self.log = os.path.join(folder, f"{name}.log")
        self.folder = folder
        self.process = None

    def start(self, *command):
        env = dict(os.environ, NOTIFY_SOCKET=self.address, WATCHDOG_USEC=str(WATCHDOG_MICROSECONDS),
                   XDG_STATE_HOME=self.folder)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def next(self):
        return self.socket.recv(1000).decode()

    def alive(self):
        for _ in range(3):
            same(self.next(), "WATCHDOG=1")

    def silent(self):
        """Nothing comes for twice the time in which something should, but one that was on its way."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.next()  # has waited here
        self.socket.settimeout(2 * WATCHDOG_MICROSECONDS / 1e6)
        with contextlib.suppress(socket.timeout):
            said = [self.next(), self.next()]
            raise AssertionError(f"it stands still, and says {said}")
        self.socket.settimeout(DEADLINE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.next()
        while said == "WATCHDOG=1":
            said = self.next()
        same(said, "STOPPING=1")
        same(self.process.wait(DEADLINE), 0)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        first, second = (f"127.0.0.1:{free_port()}" for _ in range(2))
        broker, standby, node, up = (Manager(folder, name) for name in ("broker", "standby", "node", "up"))
        managers = (broker, standby, node, up)
        try:
            broker.start(program, "broker", "--listen", first, "--store", os.path.join(folder, "first.db"))
            same(broker.next(), f"READY=1\nSTATUS=serves at {first}")
            broker.alive()
            standby.start(program, "broker", "--listen", second, "--store", os.path.join(folder, "second.db"),
                          "--standby-of", first)
            same(standby.next(), f"READY=1\nSTATUS=stands by for the broker at {first}")
            standby.alive()
            node.start(program, "node", "--broker", f"{first},{second}", "--devices", "host:1x64MiB", "--name", "n0")
            same(node.next(), f"READY=1\nSTATUS=node of the broker at {first},{second}")
            node.alive()
            up.start(program, "up", "--listen", "127.0.0.1:0", "--devices", "host:1x64MiB")
            assert up.next().startswith("READY=1\nSTATUS=serves at 127.0.0.1:")
            up.alive()
            # One that stands still is silent, and goes on when it can.
            node.process.send_signal(signal.SIGSTOP)
            node.silent()
            node.process.send_signal(signal.SIGCONT)
            node.alive()
            # The one that stands by takes over, and says so.
            broker.stop()
            said = standby.next()
            while said == "WATCHDOG=1":
                said = standby.next()
            same(said, f"READY=1\nSTATUS=serves at {second}")
            standby.alive()
            for manager in (node, standby, up):
                manager.stop()
        except BaseException:
            for manager in managers:
                with contextlib.suppress(OSError), open(manager.log, encoding="utf-8") as log:
                    print(f"--- {manager.log}\n{log.read()}")
            raise
        finally:
            for manager in managers:
                if manager.process is not None and manager.process.poll() is None:
                    manager.process.kill()
                    manager.process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
