#!/usr/bin/env python3
"""Looks at a cluster as its operator does: operator_cli_test.py PROGRAM MAKE_GROUP MAKE_ACTOR [CASE]

The cluster is `gpuactors up`. The cases are sentences and run in their order, since later ones look at what earlier
ones did. Whatever happens by itself is polled for with a deadline.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys

from running_cluster import DEADLINE, fits, run_cases, same, until

CASES = []
UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


def case(function):
    """A case; its name is the function's first line of documentation."""
    CASES.append(function)
    return function


def events(cluster, *arguments):
    return [json.loads(line) for line in cluster.run("events", "--json", *arguments).splitlines()]


def kinds(entries, name):
    return [entry["kind"] for entry in entries if entry["name"] == name]


# -- events ----------------------------------------------------------------------------------------


@case
def event_log(cluster):
    """events tells in order what the broker did, with time, place and reason"""
    cluster.run("spawn", "counter", "--name", "c0", "--gpus", "0.5", "--max-restarts", "1")
    entries = events(cluster)
    same([entry["sequence"] for entry in entries], list(range(1, len(entries) + 1)))
    same(kinds(entries, "n0"), ["node_added"])
    same(kinds(entries, "c0"), ["granted", "spawned"])
    granted = next(entry for entry in entries if entry["kind"] == "granted" and entry["name"] == "c0")
    same((granted["node"], granted["devices"]), ("n0", [{"index": 0, "share": 0.5, "memory_bytes": str(1 << 29)}]))
    same(granted["lease"], cluster.actor("c0")["lease"])
    assert all(re.fullmatch(UTC, entry["time"]) for entry in entries), entries
    assert [entry["time"] for entry in entries] == sorted(entry["time"] for entry in entries), entries
    fits(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ granted +c0 +n0: 0 \(0\.5, 512 MiB\)$", cluster.run("events"))


@case
def some_events(cluster):
    """--since and --kind choose events; a kind that there is not is refused with the nearest"""
    last = events(cluster)[-1]["sequence"]
    same([entry["sequence"] for entry in events(cluster, "--since", str(last))], [last])
    same(events(cluster, "--since", str(last + 1)), [])
    same({entry["kind"] for entry in events(cluster, "--kind", "spawned", "--kind", "node_added")},
         {"spawned", "node_added"})
    fits(r'there is no event of the kind "spwned"; did you mean "spawned"\?',
         cluster.run("events", "--kind", "spwned", code=2))
    fits(r'--since is "0": a whole number from 1', cluster.run("events", "--since", "0", code=2))


@case
def follow(cluster):
    """events -f prints what comes as it comes, and ends with 0 at Ctrl-C"""
    following = cluster.start("events", "-f", "--json", "--kind", "restarting", "--kind", "died")
    os.kill(cluster.actor("c0")["pid"], signal.SIGKILL)
    entry = json.loads(following.stdout.readline())
    same((entry["kind"], entry["name"]), ("restarting", "c0"))
    assert entry["reason"], entry
    until(lambda: cluster.actor("c0")["state"] == "alive", "c0 is back")
    os.kill(cluster.actor("c0")["pid"], signal.SIGKILL)
    entry = json.loads(following.stdout.readline())
    same((entry["kind"], entry["name"]), ("died", "c0"))
    following.send_signal(signal.SIGINT)
    out, error = following.communicate(timeout=DEADLINE)
    same((following.returncode, out, error), (0, "", ""))


def broker_at(cluster, listen):
    """A broker of its own, without nodes, and where it listens."""
    process = subprocess.Popen([cluster.program, "broker", "--listen", listen], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=cluster.env, text=True)
    return process, process.stdout.readline().split()[-1]


@case
def follow_over_a_restart(cluster):
    """events -f goes on with a broker that was started again, and says so"""
    process, listen = broker_at(cluster, "127.0.0.1:0")
    client = cluster.start("metrics", "--listen", "127.0.0.1:0", "--reconnect-grace", "600", broker=listen)
    following = cluster.start("events", "-f", "--json", "--kind", "client_away", broker=listen)
    try:
        fits("metrics at", client.stdout.readline())
        client.kill()
        same(json.loads(following.stdout.readline())["kind"], "client_away")
        process.kill()
        process.wait(DEADLINE)
        process, _ = broker_at(cluster, listen)
        same(following.stderr.readline(), "the broker was restarted: its events count from 1 again\n")
        following.send_signal(signal.SIGINT)
        out, error = following.communicate(timeout=DEADLINE)
        same((following.returncode, out, error), (0, "", ""))
    finally:
        for each in (process, client, following):
            each.kill()
            each.communicate(timeout=DEADLINE)


# -- actors that have ended ------------------------------------------------------------------------


@case
def ended(cluster):
    """actors --ended tells who has ended, when, where and why, the latest first"""
    cluster.run("spawn", "counter", "--name", "c1", "--name-space", "other")
    cluster.run("kill", "c1", "--name-space", "other")
    latest, before = cluster.json("actors", "--ended", "--json")
    same([(a["name"], a["name_space"], a["state"], a["node"], a["restarts"]) for a in (latest, before)],
         [("c1", "other", "ended", "n0", 0), ("c0", "", "ended", "n0", 1)])
    same(before["error"], "worker_died")
    assert re.fullmatch(UTC, before["ended"]) and before["ended"] < latest["ended"] and before["reason"], before
    same([a["name"] for a in cluster.json("actors", "--json", "--ended", "1")], ["c1"])
    fits(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +c0 +\d+ +counter +n0 +1 +worker_died +\S",
         cluster.run("actors", "--ended"))
    fits(r'--ended is "0": a whole number from 1 to 1000', cluster.run("actors", "--ended", "0", code=2))
    same(cluster.json("actors", "--json"), [])


# -- nodes -----------------------------------------------------------------------------------------


@case
def nameless(cluster):
    """call, kill, wait and logs take the number of an actor that has no name"""
    made = subprocess.run([MAKE_ACTOR, "--broker", cluster.broker], env=cluster.env, capture_output=True, text=True,
                          timeout=DEADLINE, check=True)
    number = made.stdout.strip()
    same(cluster.json("call", number, "add", '{"n":5}'), {"value": "5"})
    cluster.run("call", number, "say", '{"text":"hello"}')
    until(lambda: "hello" in cluster.run("logs", number), "its log has what it said")
    waiting = cluster.start("wait", number)
    same(cluster.run("kill", number, "--no-restart"), f"{number} has ended\n")
    out, error = waiting.communicate(timeout=DEADLINE)
    same((waiting.returncode, error), (0, ""))
    fits(rf"^{number} has ended: it was killed by \S+\n$", out)
    fits(f'there is no actor named "{number}"', cluster.run("kill", number, code=2))
    # What it wrote stays with its node.
    fits("hello$", cluster.run("logs", number, "--node", "n0").strip())
    done = subprocess.run([cluster.program, "logs", number, "--broker", cluster.broker], env=cluster.env,
                          capture_output=True, text=True, timeout=DEADLINE, check=True)
    fits("hello$", done.stdout.strip())
    fits(rf"^counter {number} has ended: it was killed by \S+; this is what it printed on node n0$",
         done.stderr.strip())


@case
def undrain(cluster):
    """undrain gives a node new work again, also what has waited for that meanwhile"""
    fits(r'there is no node "n1"', cluster.run("undrain", "n1", code=2))
    cluster.run("drain", "n0")
    same([node["state"] for node in cluster.json("nodes", "--json")], ["draining"])
    waiting = cluster.start("submit", "gpu_ids", "--gpus", "2")
    until(lambda: cluster.json("queue", "--json"), "the task waits")
    same([entry["reason"] for entry in cluster.json("queue", "--json")],
         ["every node that could serve it is being drained: n0"])
    fits(r"waited 0\.1 s in vain: every node that could serve it is being drained: n0",
         cluster.run("spawn", "counter", "--name", "late", "--gpus", "1", "--queue-timeout", "0.1", code=1))
    fits(r"no node has 3 devices: node n0 has 2", cluster.run("submit", "gpu_ids", "--gpus", "3", code=2))
    same(cluster.run("undrain", "n0"), "n0 gets new work again\n")
    same([node["state"] for node in cluster.json("nodes", "--json")], ["ok"])
    out, error = waiting.communicate(timeout=DEADLINE)
    same((waiting.returncode, len(json.loads(out)["devices"]), error), (0, 2, ""))
    same(kinds(events(cluster), "n0"), ["node_added", "node_drained", "node_resumed"])
    cluster.json("submit", "gpu_ids", "--gpus", "2")


@case
def releases(cluster):
    """nodes and status tell which release runs where"""
    (status,) = cluster.json("status", "--json")
    (node,) = cluster.json("nodes", "--json")
    same({node["release"], *(client["release"] for client in status["client_list"])}, {status["release"]})
    same({client["away"] for client in status["client_list"]}, {False})
    assert all(re.fullmatch(r"\S.* .*", client["name"]) for client in status["client_list"]), status
    fits(rf"(?m)^broker +release {re.escape(status['release'])}, since \S+ \S+ UTC$", cluster.run("status"))


# -- placement groups ------------------------------------------------------------------------------


@case
def groups(cluster):
    """groups shows the bundles and where they are, and --remove gives them back"""
    same(cluster.json("groups", "--json"), [])
    done = subprocess.run([MAKE_GROUP, "pair", "0.5", "1", "--broker", cluster.broker], env=cluster.env,
                          capture_output=True, text=True, timeout=DEADLINE, check=True)
    number = done.stdout.strip()
    (group,) = cluster.json("groups", "--json")
    same((group["id"], group["name"], group["state"]), (number, "pair", "placed"))
    same([(b["node"], [d["share"] for d in b["devices"]]) for b in group["bundles"]], [("n0", [0.5]), ("n0", [1.0])])
    fits(rf"(?m)^ *{number} +pair +placed +0 +n0: \d \(0\.5, 512 MiB\)\n +1 +n0: \d \(1, 1 GiB\)$",
         cluster.run("groups"))
    same(cluster.run("groups", "--remove", number), f"group {number} is removed, and what it held is free\n")
    same(cluster.json("groups", "--json"), [])
    fits(r"^gpuactors groups: .*group", cluster.run("groups", "--remove", number, code=2))
    fits(r'--remove is "pair": a whole number', cluster.run("groups", "--remove", "pair", code=2))


# -- quotas ----------------------------------------------------------------------------------------


@case
def quotas(cluster):
    """quotas shows who holds how much of what, and a client waits for its own while another runs"""
    same(cluster.json("quotas", "--json"), [])
    same(cluster.run("quotas", "--set", "alice=0.5", "--set", "*=1.5"),
         "the quota of * is 1.5 devices in all\nthe quota of alice is 0.5 devices in all\n")
    certs = {name: os.path.join(cluster.folder, name) for name in ("alice", "bob")}
    for name, folder in certs.items():
        subprocess.run([cluster.program, "certs", "issue", name, "--client", "--out", folder], env=cluster.env,
                       capture_output=True, timeout=DEADLINE, check=True)
    cluster.run("spawn", "counter", "--name", "hers", "--gpus", "0.25", "--certs", certs["alice"])
    waiting = cluster.start("submit", "gpu_ids", "--gpus", "0.375", "--certs", certs["alice"])
    reason = 'the quota of "alice" is 0.5 devices, it holds 0.25, and this is for 0.375 more'
    until(lambda: [entry["reason"] for entry in cluster.json("queue", "--json")] == [reason], "the task waits")
    same(len(json.loads(cluster.run("submit", "gpu_ids", "--gpus", "0.5", "--certs", certs["bob"]))["devices"]), 1)
    same(cluster.json("quotas", "--json")[:2], [{"owner": "*", "used": None, "of": 1.5, "default": False},
                                                {"owner": "alice", "used": 0.25, "of": 0.5, "default": False}])
    fits(r"(?m)^OWNER +USED +OF\n\* +each +1\.5\nalice +0\.25 +0\.5$", cluster.run("quotas"))
    fits(r'the quota of "bob" is 1\.5 devices, and this is for 2',
         cluster.run("submit", "gpu_ids", "--gpus", "2", "--certs", certs["bob"], code=2))
    fits(r"a node's is needed", cluster.run("quotas", "--set", "alice=2", "--certs", certs["alice"], code=2))
    with exporter(cluster) as read:
        values = samples(read("/metrics")[1])
    same([values[f'gpuactors_quota_{what}{{owner="alice"}}'] for what in ("devices", "used_devices")], [0.5, 0.25])
    same([f'gpuactors_quota_{what}{{owner="*"}}' in values for what in ("devices", "used_devices")], [True, False])
    cluster.run("quotas", "--set", "alice=1")
    out, error = waiting.communicate(timeout=DEADLINE)
    same((waiting.returncode, len(json.loads(out)["devices"]), error), (0, 1, ""))
    cluster.run("kill", "hers", "--no-restart")
    same(cluster.run("quotas", "--remove", "alice", "--remove", "*"),
         "alice has no quota of its own any more\n* has no quota of its own any more\n")
    fits(r'no quota is set for "alice"', cluster.run("quotas", "--remove", "alice", code=2))
    fits(r'--set alice is "much": a number', cluster.run("quotas", "--set", "alice=much", code=2))
    same(len(events(cluster, "--kind", "quota_set")), 5)


@case
def quotas_of_nobody(cluster):
    """a broker without certificates warns that quotas bound nobody"""
    broker = subprocess.run([cluster.program, "broker", "--insecure", "--quota", "alice=1", "--listen", "nowhere"],
                            env=cluster.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    fits(r"warning: --quota bounds nobody with --insecure: ", broker.stderr)


# -- timeline --------------------------------------------------------------------------------------


@case
def timeline(cluster):
    """timeline writes a trace with a slice for each lease"""
    path = os.path.join(cluster.folder, "trace.json")
    same(cluster.run("timeline", "--json", path), "")
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    same([(s["args"]["share"], s["args"]["ended"]) for s in slices if s["name"] == "c0"],
         [(0.5, "released"), (0.5, "released")])
    assert all(s["ts"] >= 0 and s["dur"] >= 0 for s in slices), slices
    same({event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"},
         {"broker", "node n0"})
    same(len(cluster.json("timeline")["traceEvents"]) >= len(trace["traceEvents"]), True)
    fits(r"the file cannot be written", cluster.run("timeline", "--json", cluster.folder, code=2))


# -- lives and environments ------------------------------------------------------------------------


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return dict(entry.split("=", 1) for entry in file.read().decode().split("\0") if "=" in entry)


@case
def always(cluster):
    """spawn --max-restarts always: it comes back whenever it dies"""
    actor = cluster.json("spawn", "counter", "--name", "a0", "--max-restarts", "always", "--restart-window", "600",
                         "--spawn-timeout", "60", "--stuck-after", "60", "--json")
    same(actor["max_restarts"], -1)
    for life in (1, 2, 3):
        before = cluster.actor("a0")["pid"]
        os.kill(before, signal.SIGKILL)
        until(lambda: (cluster.actor("a0")["restarts"], cluster.actor("a0")["state"]) == (life, "alive"), "a0 is back")
    same(cluster.run("kill", "a0", "--no-restart"), "a0 has ended\n")
    fits(r'--max-restarts is "allways": a whole number from 0 on is expected, or always',
         cluster.run("spawn", "counter", "--name", "x", "--max-restarts", "allways", code=2))
    fits(r"--restart-window is 0: more than 0",
         cluster.run("spawn", "counter", "--name", "x", "--restart-window", "0", code=2))
    fits(r"--spawn-timeout is -1: more than 0",
         cluster.run("spawn", "counter", "--name", "x", "--spawn-timeout=-1", code=2))
    fits(r"--stuck-after is 0: more than 0",
         cluster.run("spawn", "counter", "--name", "x", "--stuck-after", "0", code=2))


@case
def environment(cluster):
    """--env sets variables of a process that an actor or a task has for itself"""
    cluster.run("spawn", "counter", "--name", "e1")
    pid = cluster.json("spawn", "counter", "--name", "e0", "--env", "LEVEL=debug", "--env", "EMPTY=", "--json")["pid"]
    assert pid != cluster.actor("e1")["pid"]
    same({key: environment_of(pid).get(key) for key in ("LEVEL", "EMPTY")}, {"LEVEL": "debug", "EMPTY": ""})
    task = cluster.json("submit", "gpu_ids", "--gpus", "0.25", "--env", "LEVEL=debug")
    assert task["pid"] not in (pid, cluster.actor("e1")["pid"]), task
    task = cluster.start("submit", "sleep", "--env", "MARK=of a task", '{"seconds":3600}')
    until(lambda: any(environment_of(each).get("MARK") == "of a task" for each in cluster.processes()), "the task runs")
    task.kill()
    task.communicate(timeout=DEADLINE)
    until(lambda: len(cluster.json("leases", "--json")) == 2, "the task has ended")
    fits(r"CUDA_VISIBLE_DEVICES is set by the node",
         cluster.run("submit", "gpu_ids", "--env", "CUDA_VISIBLE_DEVICES=0", code=2))
    fits(r'--env is "LEVEL": NAME=VALUE is expected', cluster.run("submit", "gpu_ids", "--env", "LEVEL", code=2))
    for name in ("e0", "e1"):
        cluster.run("kill", name)


# -- metrics ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def exporter(cluster, **options):
    """`gpuactors metrics`; gives a function that reads a page: its status and body. Its end must be a clean one."""
    process = cluster.start("metrics", "--listen", "127.0.0.1:0", **options)
    try:
        ready = process.stdout.readline()
        fits(r"^metrics at http://127\.0\.0\.1:\d+/metrics\n$", ready)
        port = int(ready.rsplit(":", 1)[1].split("/")[0])

        def read(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        yield read
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
        same(process.returncode, 0)
    finally:
        process.kill()


def samples(text):
    """The values by name and labels, as they stand there."""
    return {name: float(value) for name, value in
            (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


@case
def metrics(cluster):
    """metrics serves the cluster's numbers to Prometheus, and says that it is ready"""
    cluster.run("spawn", "counter", "--name", "m0", "--gpus", "0.25")
    with exporter(cluster) as read:
        same(read("/livez"), (200, "ok\n"))
        same(read("/readyz"), (200, "ready\n"))
        same(read("/other")[0], 404)
        status, text = read("/metrics")
        same(status, 200)
        values = samples(text)
        same({name: values.get(name) for name in (
            "gpuactors_up", 'gpuactors_nodes{state="ok"}', 'gpuactors_device_free_share{node="n0",device="0"}',
            'gpuactors_actors{state="alive"}', 'gpuactors_actor_restarts_total{name_space="",actor="m0"}',
            "gpuactors_leases", "gpuactors_queue_length", 'gpuactors_events_total{kind="node_added"}',
            'gpuactors_actor_deaths_total{kind="restarting",error="worker_died"}')},
             {"gpuactors_up": 1, 'gpuactors_nodes{state="ok"}': 1,
              'gpuactors_device_free_share{node="n0",device="0"}': 0.75, 'gpuactors_actors{state="alive"}': 1,
              'gpuactors_actor_restarts_total{name_space="",actor="m0"}': 0, "gpuactors_leases": 1,
              "gpuactors_queue_length": 0, 'gpuactors_events_total{kind="node_added"}': 1,
              'gpuactors_actor_deaths_total{kind="restarting",error="worker_died"}': 4})
    cluster.run("kill", "m0")


@case
def published_metrics(cluster):
    """what an actor publishes is on the page, with its labels and type, and in the list of actors"""
    cluster.run("spawn", "counter", "--name", "p0", "--name-space", "lab")
    for number in ("40", "2"):
        cluster.run("call", "p0", "add", '{"n": %s}' % number, "--name-space", "lab")

    # Its worker reports once a second.
    until(lambda: cluster.actor("p0")["metrics"] == {"counter_additions_total": 2, "counter_value": 42},
          "what it publishes is not in the list")
    with exporter(cluster) as read:
        status, text = read("/metrics")
    same(status, 200)
    labels = '{name_space="lab",actor="p0",id="%s",type="counter",node="n0"}' % cluster.actor("p0")["id"]
    values = samples(text)
    same((values["counter_value" + labels], values["counter_additions_total" + labels]), (42, 2))
    for line in ("# TYPE counter_value gauge", "# TYPE counter_additions_total counter"):
        same(text.splitlines().count(line), 1)
    cluster.run("kill", "p0", "--name-space", "lab")


@case
def calls_and_tasks(cluster):
    """calls tells how often methods and tasks ran, failed, and how long they took; the page has the same"""
    cluster.run("spawn", "counter", "--name", "k0")
    for number in ("1", "2"):
        cluster.run("call", "k0", "add", '{"n": %s}' % number)
    cluster.run("submit", "gpu_ids")

    def counted():
        rows = json.loads(cluster.run("calls", "--json"))
        return [row for row in rows if row.get("name") == "k0"], [row for row in rows if row.get("task") == "gpu_ids"]

    # Workers report once a second.
    until(lambda: [row["ran"] for row in counted()[0]] == ["2"] and counted()[1], "calls and tasks are not counted")
    (add,), (task,) = counted()
    same((add["method"], add["ran"], add["failed"], add["late"], add["type"]), ("add", "2", "0", "0", "counter"))
    same((add["seconds"] > 0, add["mean_seconds"] > 0, add["p50_seconds"] <= add["p99_seconds"]), (True, True, True))
    same((add["waited_seconds"] > 0, add["p50_waited_seconds"] <= add["p99_waited_seconds"]), (True, True))
    same((task["node"], int(task["ran"]) >= 1, task["mean_waited_seconds"] > 0), ("n0", True, True))
    time = r" +[0-9.]+ [mu]?s +<= "
    fits(r"(?m)^k0 +add +n0 +2 +0 +0" + time + ".*" + time, cluster.run("calls"))
    with exporter(cluster) as read:
        values = samples(read("/metrics")[1])
    same(values['gpuactors_actor_call_seconds_count{name_space="",actor="k0",method="add"}'], 2)
    same(values['gpuactors_actor_call_seconds_bucket{name_space="",actor="k0",method="add",le="+Inf"}'], 2)
    same(values['gpuactors_actor_call_wait_seconds_count{name_space="",actor="k0",method="add"}'], 2)
    same(values['gpuactors_task_failed_total{node="n0",task="gpu_ids"}'], int(task["failed"]))
    cluster.run("kill", "k0")


@case
def metrics_without_a_broker(cluster):
    """metrics starts without a broker, and says that it is not ready and why"""
    with exporter(cluster, broker="127.0.0.1:1") as read:
        same(read("/livez"), (200, "ok\n"))
        status, reason = read("/readyz")
        same((status, bool(reason.strip())), (503, True))
        status, text = read("/metrics")
        same((status, samples(text)["gpuactors_up"]), (200, 0))
        assert samples(text)["gpuactors_scrape_errors_total"] >= 1, text


@case
def metrics_for_others(cluster):
    """metrics listens for other machines only where it is told that anyone may read"""
    fits(r"--listen 0\.0\.0\.0:0: .*--allow-remote says that they may",
         cluster.run("metrics", "--listen", "0.0.0.0:0", code=2))
    fits(r'"9100" is no HOST:PORT', cluster.run("metrics", "--listen", "9100", code=2))


# -- a client that is away: leaves a lease behind ---------------------------------------------------


@case
def reconnect_grace(cluster):
    """a client that was killed is away for its --reconnect-grace, and what it has goes on"""
    fits(r"the reconnect grace is 90000 s: at most 86400 s", cluster.run("nodes", "--reconnect-grace", "90000", code=2))
    for wrong, why in (("-1", 'is "-1": seconds are expected'), ("soon", 'is "soon": seconds are expected'),
                       ("90000", "is 90000 s: at most 86400 s")):
        done = subprocess.run([MAKE_GROUP, "none", "1", "--broker", cluster.broker, "--reconnect-grace", wrong],
                              env=cluster.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
        fits(why, done.stderr)
    away = 0
    holders = []
    # What has a lease and has not begun ends with the connection, as nobody would take its grant: then once more.
    while holders != ["sleep"] and away < 5:
        task = cluster.start("submit", "sleep", "--gpus", "0.25", "--reconnect-grace", "600", '{"seconds":3600}')
        until(lambda: cluster.json("leases", "--json"), "the task runs")
        task.kill()
        task.communicate(timeout=DEADLINE)
        away += 1
        until(lambda: [c["away"] for c in cluster.json("status", "--json")[0]["client_list"]].count(True) == away,
              "it is away")
        holders = [lease["holder"] for lease in cluster.json("leases", "--json")]
    same(holders, ["sleep"])
    fits(rf"(?m)^clients +\d+, {away} away$", cluster.run("status"))
    same(len(events(cluster, "--kind", "client_away")), away)


if __name__ == "__main__":
    MAKE_GROUP, MAKE_ACTOR = map(os.path.abspath, sys.argv[2:4])
    sys.exit(run_cases(sys.argv[1], CASES, *sys.argv[4:]))
