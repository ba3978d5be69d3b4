#!/usr/bin/env python3
"""Runs a cluster of processes and every client command against it: cluster_cli_test.py PROGRAM [PART OF A CASE'S NAME]

The cluster is `gpuactors up` with certificates in a state folder of its own, on a port that the system chose. The cases
are sentences and run in their order, since later ones look at what earlier ones did; a part of a name chooses some only
where they stand alone. Whatever happens by itself is polled for with a deadline.
"""

import json
import os
import re
import signal
import subprocess
import sys

from running_cluster import DEADLINE, fits, run_cases, same, until

CASES = []


def case(function):
    """A case; its name is the function's first line of documentation."""
    CASES.append(function)
    return function


# -- an empty cluster ------------------------------------------------------------------------------


@case
def status_of_an_empty_cluster(cluster):
    """status counts nodes, devices, actors, leases and what waits"""
    (status,) = cluster.json("status", "--json")
    clients = status.pop("clients")
    same(len(status.pop("client_list")), clients)
    assert int(status.pop("host_memory_bytes")) == int(status.pop("free_host_memory_bytes")) > 1 << 20
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", status.pop("certificate_until")), status
    assert status.pop("started").endswith("Z") and re.fullmatch(r"\d+\.\d+\.\d+", status.pop("release")), status
    same(status, {"nodes": 1, "nodes_draining": 0, "nodes_away": 0, "devices": 2, "devices_in_use": 0, "devices_failed": 0,
                  "free_share": 2.0, "memory_bytes": str(2 << 30), "free_memory_bytes": str(2 << 30), "actors": 0,
                  "actors_by_state": {}, "leases": 0, "groups": 0, "queue": 0, "standby": None, "takeovers": "0"})
    assert clients >= 1, clients
    fits(r"(?m)^devices +2, 0 in use; free: share 2, memory 2 GiB of 2 GiB$", cluster.run("status"))
    fits(r"(?m)^memory +([0-9.]+ [KMGTP]iB) of host memory, \1 free$", cluster.run("status"))


@case
def nodes(cluster):
    """nodes shows state, labels and resources"""
    (node,) = cluster.json("nodes", "--json")
    same({key: node[key] for key in ("name", "state", "devices", "labels", "resources")},
         {"name": "n0", "state": "ok", "devices": 2, "labels": {"zone": "a"}, "resources": {"fpga": 2.0}})
    assert "address" in node and node["cpus"] > 0, node
    assert int(node["host_memory_bytes"]) == int(node["free_host_memory_bytes"]) > 1 << 20, node
    fits(r"n0 +ok +2 .*zone=a +fpga=2, host_memory=[0-9.]+ [KMGTP]iB", cluster.run("nodes"))


@case
def one_node(cluster):
    """nodes NAME shows one, and fails unless it is there and takes work"""
    same([node["name"] for node in cluster.json("nodes", "n0", "--json")], ["n0"])
    fits(r'there is no node "n1" in the cluster; did you mean "?n0', cluster.run("nodes", "n1", code=2))
    cluster.run("drain", "n0")
    fits("node n0 is draining", cluster.run("nodes", "n0", code=1))
    cluster.run("undrain", "n0")
    fits(r"n0 +ok", cluster.run("nodes", "n0"))


@case
def devices(cluster):
    """devices shows those of the node, not of this machine"""
    same([(d["node"], d["index"], d["accelerator_type"], d["free_share"]) for d in cluster.json("devices", "--json")],
         [("n0", 0, "V100", 1.0), ("n0", 1, "V100", 1.0)])


@case
def nothing_there(cluster):
    """actors, leases and queue of an empty cluster are empty arrays"""
    for command in ("actors", "leases", "queue"):
        same(cluster.json(command, "--json"), [])
        same(cluster.run(command).count("\n"), 1)


@case
def submit(cluster):
    """submit runs a task on the node"""
    reply = cluster.json("submit", "gpu_ids", "--gpus", "0.5")
    same((reply["node"], [d["share"] for d in reply["devices"]]), ("n0", [0.5]))


@case
def host_memory(cluster):
    """host memory is counted, shown, refused with the sizes, and held to"""
    cluster.run("spawn", "counter", "--name", "m0", "--host-memory", "100MiB")
    same([lease["host_memory_bytes"] for lease in cluster.json("leases", "--json") if lease["holder"] == "m0"],
         [str(100 << 20)])
    fits(r"(?m) m0 +n0 +none +0 +host_memory=100 MiB$", cluster.run("leases"))
    (node,) = cluster.json("nodes", "--json")
    same(int(node["host_memory_bytes"]) - int(node["free_host_memory_bytes"]), 100 << 20)
    cluster.run("kill", "m0", "--no-restart")
    fits(r"no node has \d+ bytes \(900 TiB\) of host memory: node n0 has \d+ bytes",
         cluster.run("submit", "gpu_ids", "--host-memory", "900TiB", code=2))
    fits(r"--host-memory is 1.95 PiB: at most 1 PiB is allowed",
         cluster.run("submit", "gpu_ids", "--host-memory", "2000TiB", code=2))
    fits(r'"host_memory" is not a custom resource: use --host-memory instead',
         cluster.run("submit", "gpu_ids", "--resource", "host_memory=1", code=2))
    fits(r'"lots" is not a number of bytes', cluster.run("node", "--host-memory", "lots", code=2))
    fits(r"--memory-threshold is 2: a part from 0 to 1", cluster.run("node", "--memory-threshold", "2", code=2))
    # No process does with so little.
    fits(r'the process of "sleep" on node n0 used .* and had asked for 1 MiB: its process was ended',
         cluster.run("submit", "sleep", "--isolation", "process", "--host-memory", "1MiB", '{"seconds":60}', code=1))
    # The task has its answer before its process is gone.
    event = json.loads(until(lambda: cluster.run("events", "--kind", "out_of_memory", "--json"), "the event is there"))
    same((event["name"], event["node"]), ("sleep", "n0"))
    fits(r"had asked for 1 MiB", event["reason"])


# -- an actor's life -------------------------------------------------------------------------------


@case
def spawn(cluster):
    """spawn prints where the actor is, and the actor stays"""
    spawned = cluster.json("spawn", "counter", "--name", "c0", "--gpus", "0.5", "--max-restarts", "1", "--label",
                           "zone=a", "--resource", "fpga=1", "--json")
    same({key: spawned[key] for key in ("name", "name_space", "type", "node", "state", "restarts", "devices", "detached")},
         {"name": "c0", "name_space": "", "type": "counter", "node": "n0", "state": "alive", "restarts": 0,
          "devices": [{"index": 0, "share": 0.5, "memory_bytes": str(1 << 29)}], "detached": True})
    assert spawned["pid"] in cluster.processes(), spawned
    same(cluster.actor("c0"), spawned)
    fits(rf"(?m)^c0 +\d+ +counter +alive +0 +n0 +{spawned['pid']} +0 \(0\.5, 512 MiB\) +0 B +0 +\S+$", cluster.run("actors"))


@case
def spawn_in_words(cluster):
    """spawn in words is one line; an actor with a process of its own has one"""
    line = cluster.run("spawn", "holder", "--name", "h0", "--memory", "64MiB", "--isolation", "process")
    fits(r"^holder h0 \(id \d+\) on node n0, devices: 0 \(0\.0625, 64 MiB\), process \d+\n$", line)
    assert cluster.actor("h0")["pid"] != cluster.actor("c0")["pid"]


@case
def leases(cluster):
    """leases names the holders and what they hold"""
    held = cluster.json("leases", "--json")
    same([(lease["holder"], lease["node"], lease["devices"], lease["resources"]) for lease in held],
         [("c0", "n0", [{"index": 0, "share": 0.5, "memory_bytes": str(1 << 29)}], {"fpga": 1.0}),
          ("h0", "n0", [{"index": 0, "share": 0.0625, "memory_bytes": str(64 << 20)}], {})])
    same([lease["id"] for lease in held], [cluster.actor(name)["lease"] for name in ("c0", "h0")])
    fits(r"(?m)^ *\d+ +c0 +n0 +0 \(0\.5, 512 MiB\) +0 +fpga=1$", cluster.run("leases"))


@case
def call(cluster):
    """call prints the reply; the actor keeps its state between commands"""
    same(cluster.json("call", "c0", "add", '{"n":5}'), {"value": "5"})
    same(cluster.json("call", "c0", "add", "-", "--timeout", "30", stdin='{"n":2}'), {"value": "7"})
    with open(os.path.join(cluster.folder, "add.json"), "w", encoding="utf-8") as file:
        file.write('{"n":3}')
    same(cluster.json("call", "c0", "add", f"@{cluster.folder}/add.json"), {"value": "10"})
    same(cluster.json("call", "c0", "get"), {"value": "10"})


@case
def call_of_a_stream(cluster):
    """call of a streamed method prints a line for each item"""
    out = cluster.run("call", "c0", "steps", '{"n":100}')
    same([json.loads(line) for line in out.splitlines()], [{"value": str(11 + i)} for i in range(100)])
    fits("n is -1: a number of steps", cluster.run("call", "c0", "steps", '{"n":-1}', code=2))


@case
def wrong_calls(cluster):
    """what is wrong with a call is said in one line, with what would be right"""
    fits(r'there is no actor named "c1"; did you mean "c0"\?$', cluster.run("call", "c1", "get", code=2))
    fits(r'has no method "gett"; did you mean "get"\?$', cluster.run("call", "c0", "gett", code=2))
    fits(r"its fields are: n$", cluster.run("call", "c0", "add", '{"m":1}', code=2))
    fits(r"--timeout is 0: more than 0", cluster.run("call", "c0", "get", "--timeout", "0", code=2))
    fits(r"throw", cluster.run("call", "c0", "crash", '{"how":"throw"}', code=1))
    same(cluster.json("call", "c0", "add", '{"n":0}'), {"value": "110"})


@case
def call_that_takes_too_long(cluster):
    """a call that is not answered in time fails, and kill ends the actor although its method hangs"""
    pid = cluster.json("spawn", "counter", "--name", "stuck", "--isolation", "process", "--json")["pid"]
    fits(r"gpuactors call: ", cluster.run("call", "stuck", "crash", '{"how":"hang"}', "--timeout", "0.2", code=1))
    done = cluster.start("kill", "stuck", "--no-restart")
    done.communicate(timeout=DEADLINE)
    until(lambda: cluster.actor("stuck") is None and pid not in cluster.processes(), "the stuck actor is gone")


@case
def wrong_spawns(cluster):
    """what is wrong with a spawn is said in one line, with what would be right"""
    def error(*arguments):
        return cluster.run("spawn", *arguments, code=2)
    fits(r'there is no actor type "countr"; did you mean "counter"\?', error("countr", "--name", "x"))
    fits(r'there is an actor named "c0" already', error("counter", "--name", "c0"))
    fits(r"--name is required", error("counter"))
    fits(r"--name is empty", error("counter", "--name", ""))
    fits(r"no node has 3 devices: node n0 has 2", error("counter", "--name", "x", "--gpus", "3"))
    fits(r"gpus is 1\.5", error("counter", "--name", "x", "--gpus", "1.5"))
    fits(r'--isolation is "thred": thread or process is expected', error("counter", "--name", "x", "--isolation=thred"))
    fits(r'--max-restarts is "-1": a whole number from 0', error("counter", "--name", "x", "--max-restarts=-1"))
    fits(r"--devices", error("counter", "--name", "x", "--devices", "host:1"))
    same([actor["name"] for actor in cluster.json("actors", "--json")], ["c0", "h0"])


@case
def get_if_exists(cluster):
    """spawn of a name that exists gives that actor if one asks for it"""
    spawned = cluster.json("spawn", "counter", "--name", "c0", "--get-if-exists", "--json")
    same(spawned["id"], cluster.actor("c0")["id"])


@case
def name_spaces(cluster):
    """a name is unique in its name space only"""
    space = ("--name-space", "other")
    cluster.run("spawn", "counter", "--name", "c0", *space)
    same(cluster.json("call", "c0", "get", *space), {"value": "0"})
    fits(r"(?m)^other/c0 ", cluster.run("actors"))
    same(cluster.run("kill", "c0", *space), "c0 has ended\n")
    fits(r'there is no actor named "c0"', cluster.run("kill", "c0", *space, code=2))
    same(cluster.json("call", "c0", "get"), {"value": "110"})


# -- deaths ----------------------------------------------------------------------------------------


@case
def restart(cluster):
    """an actor whose worker is killed is started anew, with an empty state"""
    before = cluster.actor("c0")
    os.kill(before["pid"], signal.SIGKILL)

    def is_back():
        now = cluster.actor("c0")
        return now if now and now["restarts"] == 1 and now["state"] == "alive" else None

    after = until(is_back, "c0 is alive again")
    assert after["pid"] != before["pid"] and after["id"] == before["id"], (before, after)
    same(after["devices"], before["devices"])
    same(cluster.json("call", "c0", "get"), {"value": "0"})
    same(cluster.json("call", "c0", "where")["restarts"], 1)


@case
def last_death(cluster):
    """an actor without restarts left is gone when its worker is killed, and what it held is free"""
    os.kill(cluster.actor("c0")["pid"], signal.SIGKILL)
    until(lambda: cluster.actor("c0") is None, "c0 is gone")
    until(lambda: [lease["holder"] for lease in cluster.json("leases", "--json")] == ["h0"], "its lease is free")
    fits(r'there is no actor named "c0" any more: it has ended: .*signal 9', cluster.run("call", "c0", "get", code=2))


@case
def kill_restarts(cluster):
    """kill starts an actor anew while it has restarts left, and --no-restart ends it"""
    cluster.run("spawn", "counter", "--name", "k0", "--max-restarts", "5")
    same(cluster.run("kill", "k0"), "k0 has ended and restarts (restart 1)\n")
    same(cluster.json("call", "k0", "where")["restarts"], 1)
    same(cluster.run("kill", "k0", "--no-restart"), "k0 has ended\n")
    named = cluster.json("spawn", "counter", "--name", "k1", "--json")["id"]
    # Only who has no name is known by the number.
    fits(f'there is no actor named "{named}"', cluster.run("kill", str(named), code=2))
    same(cluster.run("kill", "k1", "--no-restart"), "k1 has ended\n")
    same(cluster.actor("k0"), None)


@case
def wait(cluster):
    """wait returns when an actor has ended for good, and says why; restarts are no end"""
    cluster.run("spawn", "counter", "--name", "w0", "--max-restarts", "5")
    fits("gpuactors wait: w0 has not ended within 0.2 s", cluster.run("wait", "w0", "--timeout", "0.2", code=1))
    waiting = cluster.start("wait", "w0")
    cluster.run("kill", "w0")
    fits("w0 has not ended within 0.2 s", cluster.run("wait", "w0", "--timeout", "0.2", code=1))
    same(waiting.poll(), None)
    cluster.run("kill", "w0", "--no-restart")
    out, error = waiting.communicate(timeout=DEADLINE)
    same((waiting.returncode, error), (0, ""))
    fits(r"^w0 has ended: it was killed by \S+\n$", out)
    # One that has ended already.
    same(cluster.run("wait", "w0"), out)
    ended = cluster.json("wait", "w0", "--json")
    same((ended["name"], ended["type"], ended["error"]), ("w0", "counter", "actor_died"))
    fits(r'there is no actor named "never"', cluster.run("wait", "never", code=2))
    fits(r'--timeout is "soon": a number is expected', cluster.run("wait", "w0", "--timeout", "soon", code=2))


@case
def queue(cluster):
    """queue shows what waits and for what; kill of an actor that waits ends its spawn"""
    cluster.run("spawn", "counter", "--name", "big", "--gpus", "1")
    waiting = cluster.start("spawn", "counter", "--name", "later", "--gpus", "2", "--priority", "-3")
    (entry,) = until(lambda: cluster.json("queue", "--json"), "the request waits")
    same((entry["name"], entry["priority"], bool(entry["reason"]), entry["id"].isdigit()), ("later", -3, True, True))
    fits(r"(?m)^ *\d+ +later +-3 +no node has 2 devices free", cluster.run("queue"))
    later = cluster.actor("later")
    same((later["state"], later["node"], later["pid"], later["devices"]), ("waiting", "", 0, []))
    same(cluster.json("status", "--json")[0]["queue"], 1)
    same(cluster.run("kill", "later"), "later has ended\n")
    out, error = waiting.communicate(timeout=DEADLINE)
    # After a while it says what it waits for.
    same((waiting.returncode, out), (1, ""))
    fits(r"^gpuactors spawn: it was killed by \S+, before it was placed$", error.splitlines()[-1])
    same(cluster.json("queue", "--json"), [])


@case
def interrupted_spawn(cluster):
    """a spawn that waits is withdrawn by Ctrl-C, unless others want its actor, and by its time in the queue"""
    def interrupt():
        waiting = cluster.start("spawn", "counter", "--name", "later", "--gpus", "2")
        until(lambda: cluster.json("queue", "--json"), "the request waits")
        yield
        waiting.send_signal(signal.SIGINT)
        out, error = waiting.communicate(timeout=DEADLINE)
        same((waiting.returncode, out), (1, ""))
        yield error.splitlines()[-1]

    lonely = interrupt()
    next(lonely)
    same(next(lonely), "gpuactors spawn: interrupted: actor later is not started")
    same((cluster.json("queue", "--json"), cluster.actor("later")), ([], None))
    wanted = interrupt()
    next(wanted)
    fits(r"gpuactors call: actor later has not been ready within 0\.[0-9] s: it waits for a place",
         cluster.run("call", "later", "add", '{"n":1}', "--timeout", "0.3", code=1))
    fits(r"gpuactors spawn: interrupted: actor later stays, since others have asked for it too", next(wanted))
    same(cluster.run("kill", "later"), "later has ended\n")
    fits(r"gpuactors spawn: ", cluster.run("spawn", "counter", "--name", "later", "--gpus", "2", "--queue-timeout",
                                           "0.2", code=1))
    same((cluster.json("queue", "--json"), cluster.actor("later")), ([], None))


@case
def drain(cluster):
    """drain keeps new work from a node; what runs there goes on"""
    fits(r'there is no node "n1"', cluster.run("drain", "n1", code=2))
    same(cluster.run("drain", "n0"), "n0 gets nothing new\n")
    same([node["state"] for node in cluster.json("nodes", "--json")], ["draining"])
    same(cluster.json("status", "--json")[0]["nodes_draining"], 1)
    same(cluster.json("call", "big", "add", '{"n":1}'), {"value": "1"})


# -- strangers -------------------------------------------------------------------------------------


@case
def nobody_listens(cluster):
    """a broker that is not there is one clear line"""
    fits(r"cannot connect to the broker at 127\.0\.0\.1:1: nobody listens at 127\.0\.0\.1:1",
         cluster.run("status", broker="127.0.0.1:1", code=1))
    fits(r'"localhost" is no HOST:PORT', cluster.run("status", broker="localhost", code=2))


@case
def plaintext(cluster):
    """a client that speaks plaintext to TLS is refused in words, on both sides"""
    fits(r"cannot connect to the broker at .*it may speak TLS, which --insecure turns off here",
         cluster.run("status", "--insecure", code=2))
    until(lambda: "it does not speak TLS" in cluster.notices(), "the operator is told")


@case
def another_authority(cluster):
    """a client with another authority's certificate is refused in words, on both sides"""
    other = os.path.join(cluster.folder, "other")
    subprocess.run([cluster.program, "certs", "init", "--certs", other], check=True, stdout=subprocess.DEVNULL)
    fits(r"the two certificates are not of the same authority", cluster.run("actors", "--certs", other, code=2))
    until(lambda: "not of the same authority" in cluster.notices(), "the operator is told")


@case
def no_certificates(cluster):
    """a client without certificates is told how to get some"""
    fits(r"certs init", cluster.run("status", "--certs", os.path.join(cluster.folder, "none"), code=2))


@case
def serves_on(cluster):
    """after all that the cluster serves on"""
    same(cluster.json("call", "big", "get"), {"value": "1"})
    same({actor["name"] for actor in cluster.json("actors", "--json")}, {"big", "h0"})
    same(cluster.run("kill", "h0"), "h0 has ended\n")


if __name__ == "__main__":
    sys.exit(run_cases(sys.argv[1], CASES, *sys.argv[2:]))
