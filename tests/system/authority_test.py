#!/usr/bin/env python3
"""Replaces the authority of a running cluster, step by step, by the commands that an operator uses:
authority_test.py PROGRAM

A broker, a node and a client have folders of their own, as on three machines. All the time, an actor serves.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile

from running_cluster import Daemons, same, until

NAMES = ("broker", "node", "client")


class Machines(Daemons):
    def __init__(self, program, folder, stack):
        super().__init__(program, folder, stack)
        self.certs("init", "--days", "30")
        for name in NAMES:
            self.issue(name)
        self.broker = self.start("broker", "--listen", "127.0.0.1:0").stdout.readline().split()[-1]
        self.node = self.start("node", "--broker", self.broker, "--name", "n0", "--devices", "host:1x1GiB")

    def certs(self, *arguments, code=0):
        return self.command("certs", *arguments, "--certs", self.path("ca"), code=code)

    def issue(self, name):
        self.certs("issue", name, "--host", "127.0.0.1", "--out", self.path(name))

    def copy_to_all(self):
        """As an operator: whole files, one after the other."""
        for name in NAMES:
            for file in ("ca.pem", "revoked.pem"):
                shutil.copy(self.path("ca", file), self.path(name, file + ".new"))
                os.rename(self.path(name, file + ".new"), self.path(name, file))

    def start(self, name, *arguments):
        return self.daemon(name, name, *arguments, "--certs", self.path(name))

    def run(self, *arguments, certs="client", code=0):
        return self.command(*arguments, "--broker", self.broker, "--certs", self.path(certs), code=code)

    def count(self):
        return int(json.loads(self.run("call", "c", "add", '{"n":1}'))["value"])

    def until_of(self):
        """When the certificates of broker and node end, as the broker knows."""
        (status,) = json.loads(self.run("status", "--json"))
        (node,) = json.loads(self.run("nodes", "--json"))
        return status["certificate_until"], node["certificate_until"]


def replaces_the_authority(machines):
    until(lambda: json.loads(machines.run("nodes", "--json")), "the node is registered")
    machines.run("spawn", "counter", "--name", "c", "--gpus", "0.5")
    same(machines.count(), 1)
    until(lambda: all(machines.until_of()), "the broker knows when the certificates end")
    before = machines.until_of()

    said = machines.certs("replace", "--days", "60")
    assert "signs from now on" in said and "gpuactors certs retire" in said, said
    same(machines.count(), 2)
    machines.copy_to_all()
    shutil.copytree(machines.path("client"), machines.path("old-client"))
    same(machines.count(), 3)
    refusal = machines.certs("retire", code=2)
    assert all(name in refusal for name in NAMES), refusal
    for name in NAMES:
        machines.issue(name)
        same(machines.count(), 4 + NAMES.index(name))
    # Who still has one of the old authority is served until that goes.
    machines.run("status", certs="old-client")
    until(lambda: all(now > then for now, then in zip(machines.until_of(), before)),
          "the broker knows of the new certificates")
    page = machines.run("nodes", "--json")
    assert json.loads(page)[0]["certificate_until"].endswith("Z"), page

    own = json.loads(machines.certs("show", "--json"))[-1]["subject"]
    machines.certs("issue", own, "--out", machines.path("ca"))
    assert "is no longer trusted here" in machines.certs("retire")
    machines.copy_to_all()
    same(machines.count(), 7)
    assert machines.run("status", certs="old-client", code=2)
    same(machines.node.poll(), None)
    # Its life has not been disturbed.
    (actor,) = json.loads(machines.run("actors", "--json"))
    same(actor["restarts"], 0)


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        replaces_the_authority(Machines(sys.argv[1], folder, stack))
        print("ok", flush=True)


if __name__ == "__main__":
    main()
