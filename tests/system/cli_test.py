#!/usr/bin/env python3
"""Runs the command line program as a user would: cli_test.py PROGRAM [PART OF A CASE'S NAME]

Each case is a sentence about the program: what it is given, and what must come out. An error is one line on standard
error that begins with the program's name, with nothing but earlier results on standard output.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

HOST = ["--devices", "host:1x64MiB"]
TWO = ["--devices", "host:2x1GiB@V100"]
PLAN = {
    "nodes": [{"name": "n0", "devices": [{"accelerator_type": "H100", "count": 2, "memory_bytes": "1000000"}]}],
    "steps": [{"submit": {"id": name, "gpus": 0.5}} for name in "abc"] + [{"submit": {"id": "d", "gpus": 3}}],
}
# Protobuf itself says where from version 22 on.
PLACE = r"gpuactors submit: .*the JSON is no gpuactors\.builtin\.v1\.Echo.*(at line {0}, column \d+|near {0}:\d+)"
SUBCOMMANDS = ["types", "devices", "submit", "spawn", "call", "kill", "wait", "status", "nodes", "actors", "calls",
               "leases", "queue", "groups", "quotas", "drain", "undrain", "logs", "events", "timeline", "metrics",
               "dashboard", "plan", "certs", "up", "broker", "node"]
CASES = []


def gives(name, arguments, check, stdin="", env=None):
    """The program ends with 0, says nothing on standard error, and check(standard output) holds."""
    CASES.append((name, arguments, stdin, env or {}, 0, check, None))


def refuses(name, arguments, pattern, stdin="", env=None, code=2):
    """The program ends with code and an error that fits pattern from its start on."""
    CASES.append((name, arguments, stdin, env or {}, code, None, pattern))


def contains(*texts):
    return lambda out: all(text in out for text in texts)


def replies(check):
    """Standard output is JSON on one line that check holds for."""
    return lambda out: out.count("\n") == 1 and check(json.loads(out))


def lines(check):
    """Standard output is lines of JSON; check holds for their list."""
    return lambda out: check([json.loads(line) for line in out.splitlines()])


def document(check):
    return lambda out: check(json.loads(out))


def submit(*arguments):
    return ["submit", *HOST, *arguments]


# -- help, version, usage --------------------------------------------------------------------------

gives("help says what the program is, lists the subcommands and shows examples", ["--help"],
      contains("GPU", *SUBCOMMANDS, "Examples:", "Exit code"))
for subcommand in SUBCOMMANDS:
    gives(f"help on {subcommand} shows an example", [subcommand, "--help"],
          contains("Example", f"gpuactors {subcommand}"))
gives("help may be a word, with a subcommand behind it", ["help", "up"], contains("Example", "gpuactors up"))
gives("version may be a word", ["version"], lambda out: re.fullmatch(r"gpuactors \d+\.\d+\.\d+\n", out))
gives("the version is printed", ["--version"], lambda out: re.fullmatch(r"gpuactors \d+\.\d+\.\d+\n", out))
refuses("no subcommand at all is bad usage", [], "gpuactors: a subcommand is needed: " + ", ".join(SUBCOMMANDS))
refuses("an unknown subcommand is answered with the nearest", ["device"],
        r'gpuactors: there is no subcommand "device"; did you mean "devices"\?')
refuses("an unknown option is answered with the nearest", ["submit", "echo", "--gpu", "1"],
        r'gpuactors submit: there is no option --gpu; did you mean "--gpus" or "--cpus"\?')
refuses("an unknown option before the subcommand is bad usage", ["--jso"], r"gpuactors: there is no option --jso")
refuses("an isolation that there is not is refused with those that there are", submit("echo", "--isolation", "vm"),
        r'gpuactors submit: --isolation is "vm": thread or process is expected')
refuses("a number of retries that is none is refused with what is allowed", submit("echo", "--max-retries", "-2"),
        r'gpuactors submit: --max-retries is "-2": a whole number from 0 on is expected, or always')
refuses("a time to wait that is none is refused", submit("echo", "--queue-timeout", "0"),
        r"gpuactors submit: --queue-timeout is 0: more than 0 and at most \d+ seconds are expected")
refuses("an option without its value is bad usage", ["submit", "echo", "--gpus"], r"gpuactors submit: .*--gpus")
refuses("a task is needed", ["submit"], r"gpuactors submit: .*task.*; see gpuactors submit --help")
refuses("an argument too many is named", submit("echo", "{}", "{}", "more"),
        r'gpuactors submit: too many arguments: "(\{\}|more)" is one more than it takes')

# -- types -----------------------------------------------------------------------------------------

gives("types shows tasks, actors and the fields of their messages", ["types"],
      contains("matmul", "counter", "crash", "gpuactors.builtin.v1.Matmul", "int32", "map<string, string>"))
gives("types as JSON are one array of tasks, actors and messages", ["types", "--json"], document(
    lambda all: {t["name"] for t in all if t["kind"] == "task"}
    == {"echo", "sleep", "matmul", "elementwise", "gram", "gpu_ids", "leak", "say", "gpuactors.source_kernel"}
    and {a["name"]: [m["name"] for m in a["methods"]] for a in all if a["kind"] == "actor"}
    == {"counter": ["add", "crash", "get", "say", "steps", "where"], "holder": ["allocate", "free", "used"]}
    and {"kind": "message", "name": "gpuactors.builtin.v1.Sleep", "fields": {"seconds": "double"}} in all))

# -- devices ---------------------------------------------------------------------------------------

gives("devices are shown as a table", ["devices", *TWO],
      lambda out: [line.split()[:4] for line in out.splitlines()]
      == [["NODE", "INDEX", "KIND", "TYPE"], ["local", "0", "host", "V100"], ["local", "1", "host", "V100"]])
gives("devices as JSON carry what the contract names", ["devices", "--json", *TWO], document(
    lambda all: [d["index"] for d in all] == [0, 1] and all[1] == {
        "node": "local", "index": 1, "kind": "host", "accelerator_type": "V100", "uuid": "host-local-1",
        "name": "host", "memory_bytes": str(1 << 30), "numa_node": None, "free_share": 1.0, "free_memory_bytes": str(1 << 30),
        "state": all[0]["state"]}))
gives("devices are repeatable", ["devices", "--json", "--devices", "host:1x1GiB", "--devices", "host:1x2GiB@A100"],
      document(lambda all: [d["accelerator_type"] for d in all] == ["host", "A100"]))
gives("devices are those that there are when none are named", ["devices", "--json"], document(len))
gives("more devices than there are can be offered", ["devices", "--json", "--devices", "cuda*3"],
      document(lambda all: [d["kind"] for d in all] == ["cuda"] * 3))
refuses("a malformed SPEC is named", ["devices", "--devices", "hots:1"], r"gpuactors devices: .*hots:1")
refuses("an empty SPEC is refused", ["devices", "--devices", " "], r"gpuactors devices: --devices is empty")
refuses("a malformed SPEC is named by types too", ["types", "--devices", "host:0"], r"gpuactors types: .*host:0")
refuses("use of a device that does not exist is a clear error",
        ["submit", "gram", "--devices", "cuda*64", "--gpus", "64", '{"n":8}'],
        r"gpuactors submit: .*CUDA device \d+ does not exist", code=1)

# -- broker ----------------------------------------------------------------------------------------

for subcommand in (["spawn", "counter", "--name", "c"], ["call", "c", "get"], ["kill", "c"], ["wait", "c"], ["actors"], ["leases"], ["queue"], ["quotas"],
                   ["drain", "n"], ["logs", "c"]):
    refuses(f"{subcommand[0]} without a broker says how to start and name one", subcommand,
            rf"gpuactors {subcommand[0]}: there is no cluster to ask: start one with gpuactors up, and name it by --broker")
gives("nodes shows the embedded one", ["nodes", "--json", *TWO], document(
    lambda all: [(n["name"], n["state"], n["devices"]) for n in all] == [("local", "ok", 2)]))
gives("status counts what is embedded", ["status", "--json", *TWO], document(
    lambda all: [(s["nodes"], s["devices"], s["memory_bytes"]) for s in all] == [(1, 2, str(2 << 30))]))
for address, pattern in (("localhost", "the port is missing"), (":7711", "host")):
    refuses(f"the broker {address} is refused, saying why", ["devices", "--broker", address],
            rf'gpuactors devices: "{address}" is no HOST:PORT: .*{pattern}')
refuses("a broker by the environment is taken, and its certificates are needed", ["devices"],
        r"gpuactors devices: .*gpuactors certs init", env={"GPUACTORS_BROKER": "localhost:4711",
                                                           "XDG_STATE_HOME": "{folder}/nobody"})
refuses("devices of an embedded cluster beside a broker are refused", ["devices", *TWO, "--broker", "localhost:4711"],
        r"gpuactors devices: --devices and --record are for an embedded cluster")

# -- tasks -----------------------------------------------------------------------------------------

gives("echo gives back text and bytes", submit("echo", '{"text":"héllo","data":"AAEC"}'),
      replies(lambda r: r == {"text": "héllo", "data": "AAEC"}))
gives("a task may be given a time to wait and tries that it does not need",
      submit("echo", "--queue-timeout", "5", "--max-retries", "always", '{"text":"here"}'),
      replies(lambda r: r["text"] == "here"))
gives("no input is an empty message", submit("echo"), replies(lambda r: r == {"text": "", "data": ""}))
gives("the input may come from standard input", submit("echo", "-"), replies(lambda r: r["text"] == "in"),
      stdin='{"text":"in"}')
gives("the input may come from a file", submit("echo", "@{folder}/echo.json"), replies(lambda r: r["text"] == "file"))
gives("sleep answers how long it slept", submit("sleep", '{"seconds":0.05}'),
      replies(lambda r: r["seconds"] >= 0.05 and r["interrupted"] is False))
gives("matmul of a fraction of a device is right", submit("matmul", "--gpus", "0.5", '{"n":100,"seed":"7"}'), replies(
    lambda r: r["n"] == 100 and r["dtype"] == "f32" and 0 < r["relative_error"] < 1e-5 and r["gflops"] > 0
    and r["seconds"] > 0 and r["device"]["share"] == 0.5 and r["device"]["memory_bytes"] == str(32 << 20)))
gives("matmul in float64 is more exact, and returns rows", submit(
    "matmul", "--gpus", "1", '{"n":50,"dtype":"f64","return_rows":3,"repeat":2}'), replies(
        lambda r: r["relative_error"] < 1e-13 and [row["index"] for row in r["rows"]] == [0, 24, 49]
        and len(r["rows"][0]["values"]) == 50))
for dtype, least, most in (("f16", 1e-5, 5e-4), ("bf16", 1e-4, 4e-3)):
    gives(f"matmul in {dtype} sums in f32 and rounds once",
          submit("matmul", "--gpus", "0.5", f'{{"n":200,"dtype":"{dtype}"}}'), replies(
              lambda r, dtype=dtype, least=least, most=most: r["dtype"] == dtype
              and least < r["relative_error"] < most))
gives("the same seed gives the same product", submit("matmul", "--gpus", "1", "--count", "2", '{"n":32,"seed":1}'),
      lines(lambda r: len(r) == 2 and r[0]["norm"] == r[1]["norm"]))
gives("matmul asks for a whole device by itself", submit("matmul", '{"n":32}'), replies(
    lambda r: r["device"]["share"] == 1))
gives("matmul of one row and column works", submit("matmul", "--gpus", "1", '{"n":1}'),
      replies(lambda r: r["relative_error"] < 1e-6))
gives("elementwise is right", submit("elementwise", "--gpus", "0.25", '{"n":100000}'),
      replies(lambda r: r["n"] == "100000" and 0 < r["max_error"] < 1e-6))
gives("gram is right, with transfers apart", submit("gram", "--gpus", "1", '{"n":100}'), replies(
    lambda r: 0 < r["relative_error"] < 1e-5 and min(r["seconds"], r["to_device_seconds"], r["to_host_seconds"]) > 0))
gives("gpu_ids shows devices and environment", ["submit", *TWO, "gpu_ids", "--gpus", "2"], replies(
    lambda r: r["node"] == "local" and [d["index"] for d in r["devices"]] == [0, 1]
    and r["devices"][0] == {"index": 0, "share": 1.0, "memory_bytes": str(1 << 30), "kind": "host", "name": "host",
                            "accelerator_type": "V100"}
    and r["environment"] == {"NEURON_RT_VISIBLE_CORES": "0,1"} and r["pid"] > 0),
      env={"NEURON_RT_VISIBLE_CORES": "0,1"})
gives("a device is found by its memory alone", submit("gpu_ids", "--memory", "16MiB"),
      replies(lambda r: r["devices"][0]["share"] == 0.25 and r["devices"][0]["memory_bytes"] == str(16 << 20)))
gives("a task leaks at will and the next ones have all the memory", submit(
    "leak", "--gpus", "1", "--count", "20", '{"bytes":"40000000"}'),
      lines(lambda r: len(r) == 20 and all(40000000 <= int(x["used_bytes"]) <= 64 << 20 for x in r)))
gives("node, priority, cpus, type and timeout are taken", [
    "submit", *TWO, "gpu_ids", "--node=local", "--priority=-5", "--cpus=0.5", "--accelerator-type=V100", "--gpus=0.3",
    "--timeout=60"], replies(lambda r: r["devices"][0]["share"] == 0.3))

gives("neuron cores are found under a root and named to the task", [
    "submit", *HOST, "--accelerator-root", "{folder}/neuron", "gpu_ids", "--resource", "neuron_cores=2"], replies(
        lambda r: r["accelerators"] == [{"kind": "neuron_cores", "ids": [0, 1]}]
        and r["environment"] == {"NEURON_RT_VISIBLE_CORES": "0,1"}))
refuses("a part of a neuron core is refused", [
    "submit", *HOST, "--accelerator-root", "{folder}/neuron", "gpu_ids", "--resource", "neuron_cores=0.5"],
        r"gpuactors submit: neuron_cores is 0\.5: they are granted in whole units only, 1 for example")
refuses("a root that is not there is refused", ["devices", "--accelerator-root", "{folder}/none"],
        r"gpuactors devices: there is no folder .*none to look for accelerators in")

# -- requests that break a rule --------------------------------------------------------------------

refuses("an unknown task is answered with the nearest", submit("matmull"),
        r'gpuactors submit: there is no task type "matmull"; did you mean "matmul"\?$')
for gpus, pattern in (("1.5", r"gpus is 1\.5: .*whole number"), ("-1", r"gpus is -1: .*negative"),
                      ("nan", r"gpus is NaN"), ("inf", r"gpus is inf"), ("0.00001", r"gpus is 1e-05: .*0\.0001"),
                      ("half", r'--gpus is "half": a number'), ("1x", r'--gpus is "1x": a number'), ("", r"--gpus")):
    refuses(f"--gpus={gpus or '(nothing)'} is refused with the rule", submit("echo", f"--gpus={gpus}"),
            rf"gpuactors submit: .*{pattern}")
refuses("--memory that is no amount is refused", submit("echo", "--memory", "6 gigs"),
        r'gpuactors submit: "6 gigs" is not a number of bytes: write it like')
refuses("--memory that overflows is refused", submit("echo", "--memory", "99999999999999999999"),
        r"gpuactors submit: .*is not a number of bytes")
refuses("--cpus below zero is refused", submit("echo", "--cpus", "-2"), r"gpuactors submit: cpus is -2: .*negative")
refuses("--label without = is refused", submit("echo", "--label", "zone"),
        r'gpuactors submit: --label is "zone": NAME=VALUE is expected')
refuses("--label twice is refused", submit("echo", "--label", "a=1", "--label", "a=2"),
        r"gpuactors submit: --label a is given twice")
refuses("--resource that is no number is refused", submit("echo", "--resource", "fpga=one"),
        r'gpuactors submit: --resource fpga is "one": a number is expected')
refuses("--priority that is no whole number is refused", submit("echo", "--priority", "high"),
        r'gpuactors submit: --priority is "high": a whole number from -2147483648 to 2147483647 is expected')
refuses("--timeout of zero is refused", submit("echo", "--timeout", "0"),
        r"gpuactors submit: --timeout is 0: more than 0")
refuses("--count of zero is refused", submit("echo", "--count", "0"),
        r'gpuactors submit: --count is "0": a whole number from 1 to 10000')
for what, options in (("more devices than there are", ["--gpus", "2"]), ("an unknown node", ["--node", "elsewhere"]),
                      ("an unknown type of device", ["--gpus", "1", "--accelerator-type", "Z9"]),
                      ("a resource that no node has", ["--resource", "fpga=1"]),
                      ("a label that no node has", ["--label", "zone=a"]), ("too much memory", ["--memory", "1TiB"])):
    refuses(f"{what} is infeasible at once", submit("echo", *options), r"gpuactors submit: \S+")

# -- input that breaks a rule ----------------------------------------------------------------------

refuses("malformed JSON is refused with the place", submit("echo", '{"text": }'),
        PLACE.format(1))
refuses("JSON that ends too soon is refused with its end", submit("echo", '{"text":\n"x"'),
        r"gpuactors submit: .*(at line 2, column 4|near 2:\d+|nexpected end)")
refuses("malformed JSON of a file is refused with its name", submit("echo", "@{folder}/bad.json"),
        PLACE.format(2))
refuses("malformed JSON on standard input is refused", submit("echo", "-"), r"gpuactors submit: standard input: ",
        stdin="[1")
refuses("an unknown field is refused by its name", submit("matmul", '{"m":1}'),
        r"gpuactors submit: .*\bm\b.*; its fields are: n, seed, dtype, return_rows, repeat$")
refuses("a field of the wrong type is refused", submit("matmul", '{"n":"many"}'), r"gpuactors submit: .*\bn\b")
refuses("a number that does not fit its field is refused", submit("matmul", '{"n":4294967296}'),
        r"gpuactors submit: .*\bn\b")
refuses("JSON that is no object is refused", submit("echo", "[1]"), r"gpuactors submit: the JSON is no .*text, data$")
refuses("an option that is given nothing is refused", submit("echo", "--memory", ""), r'gpuactors submit: "" is not')
refuses("a file that is not there is refused", submit("echo", "@{folder}/none.json"),
        r"gpuactors submit: .*none\.json cannot be read: No such file")
refuses("a folder is no file", submit("echo", "@{folder}"), r"gpuactors submit: .* cannot be read: Is a directory")
for n in ("0", "-3", "2147483647"):
    refuses(f"matmul of n = {n} is refused with the range",
            submit("matmul", "--gpus", "1", f'{{"n":{n},"dtype":"f64"}}'),
            rf"gpuactors submit: n is {n}: rows and columns of a matrix, 1 to \d+, are expected")
refuses("matmul without n is refused", submit("matmul", "--gpus", "1"), r"gpuactors submit: n is 0: ")
refuses("matmul in an unknown type is refused", submit("matmul", "--gpus", "1", '{"n":1,"dtype":"f8"}'),
        r'gpuactors submit: dtype is "f8": f32, f64, f16 or bf16')
refuses("matmul with too many rows back is refused", submit("matmul", "--gpus", "1", '{"n":1,"return_rows":17}'),
        r"gpuactors submit: return_rows is 17: 0 to 16")
refuses("elementwise of nothing is refused", submit("elementwise", "--gpus", "1"), r"gpuactors submit: n is 0: 1 to ")
refuses("elementwise that overflows is refused", submit("elementwise", "--gpus", "1", '{"n":"9223372036854775807"}'),
        r"gpuactors submit: n is 9223372036854775807: 1 to 2305843009213693951 are expected")
refuses("gram below one is refused", submit("gram", "--gpus", "1", '{"n":-1}'), r"gpuactors submit: n is -1: ")
refuses("leak below one byte is refused", submit("leak", "--gpus", "1", '{"bytes":-1}'),
        r"gpuactors submit: bytes is -1: 1 to")
for seconds in ("-1", "86401", '"NaN"', '"Infinity"'):
    refuses(f"sleep of {seconds} is refused", submit("sleep", f'{{"seconds":{seconds}}}'),
            r"gpuactors submit: seconds is \S+: 0 to 86400 are expected")

# -- failures that are nobody's mistake of form ------------------------------------------------------

refuses("a quota that is passed is an error with the numbers",
        submit("leak", "--gpus", "0.5", '{"bytes":"40000000"}'),
        r"gpuactors submit: .*40000000", code=1)
refuses("a matrix that does not fit the quota is an error", submit("matmul", "--gpus", "1", '{"n":30000}'),
        r"gpuactors submit: .*3600000000", code=1)
refuses("a task that takes longer than its time is an error", submit("sleep", "--timeout", "0.1", '{"seconds":3600}'),
        r"gpuactors submit: \S+", code=1)
refuses("failures of several tasks are counted",
        submit("leak", "--gpus", "0.5", "--count", "3", '{"bytes":"40000000"}'),
        r"gpuactors submit: 3 of 3 tasks failed, the first one: ", code=1)

# -- plan ------------------------------------------------------------------------------------------


def planned(out):
    events = [json.loads(line) for line in out.splitlines()]
    placed = [e["devices"][0]["index"] for e in events if e.get("event") == "granted"]
    return placed == [0, 0, 1] and events[3]["event"] == "infeasible" and "final" in events[-1]


gives("plan places a scenario from standard input", ["plan"], planned, stdin=json.dumps(PLAN))
gives("plan takes - for standard input", ["plan", "-"], planned, stdin=json.dumps(PLAN))
gives("plan places a scenario from a file", ["plan", "{folder}/plan.json"], planned)
refuses("plan refuses what is not JSON", ["plan"], r"gpuactors plan: standard input: ", stdin="{")
refuses("plan refuses an unknown field", ["plan", "{folder}/field.json"], r"gpuactors plan: .*field\.json: .*nodez")
refuses("plan refuses a file that is not there", ["plan", "{folder}/none.json"],
        r"gpuactors plan: .*none\.json cannot be read")
gives("plan explains a request to every node", ["plan", "{folder}/plan.json", "--explain", "d"],
      contains('"d" asks for 3 devices\n', "step 3: infeasible: ", "  n0  never      asked 3 devices: has 2\n"))
gives("plan explains as JSON", ["plan", "--explain", "d", "--json", "{folder}/plan.json"], document(
    lambda all: all["when_submitted"] == [{"node": "n0", "verdict": "never", "reason": "asked 3 devices: has 2"}]))
gives("plan draws how full the devices are", ["plan", "--table", "{folder}/plan.json"],
      contains("n0 0  H100  [██████████▓▓▓▓▓▓▓▓▓▓]  1 of 1    ", "  a, b\n", "2 devices on 1 nodes; 0 wait\n"))
gives("plan draws a picture beside the events", ["plan", "--svg", "{folder}/plan.svg", "{folder}/plan.json"], planned)
refuses("plan names the nearest of an id that it is to explain", ["plan", "{folder}/plan.json", "--explain", "dd"],
        r'gpuactors plan: .*no step has submitted "dd", which is to be explained; did you mean "d"\?')
refuses("plan refuses a picture that cannot be written", ["plan", "{folder}/plan.json", "--svg", "{folder}/no/x.svg"],
        r"gpuactors plan: --svg .*x\.svg cannot be written: No such file")
refuses("plan refuses JSON without an explanation", ["plan", "--json"], r"gpuactors plan: --json requires --explain")


def step(*steps):
    return json.dumps({"nodes": PLAN["nodes"], "steps": list(steps)})


gives("a run is recorded for plan", [*submit("--gpus", "0.5", "--record", "{folder}/run.json"), "echo"], contains("{"))
refuses("a recording that cannot be written is refused", submit("--record", "{folder}/no/run.json", "echo"),
        r"gpuactors submit: the recording .*run\.json cannot be written: No such file")
gives("plan takes what was recorded", ["plan", "{folder}/run.json"], lines(
    lambda events: events[0]["event"] == "granted" and events[0]["id"].startswith("echo#") and "final" in events[-1]))

for name, scenario, place in (
        ("JSON that is not valid", '{"nodes":[\n{]}', r"parse error at line 2, column 2"),
        ("an unknown field of a request", step({"submit": {"id": "a", "gpsu": 1}}),
         r'steps\[0\]\.submit\.gpsu: unknown field; did you mean "gpus"\?'),
        ("an unknown step", step({"sumbit": {}}), r'steps\[0\]\.sumbit: unknown field; did you mean "submit"'),
        ("an unknown id", step({"submit": {"id": "job1"}}, {"release": {"id": "job2"}}),
         r'steps\[1\]\.release\.id is "job2", which no step before has submitted; did you mean "job1"\?'),
        ("an unknown node", step({"drain_node": {"name": "n1"}}), r'steps\[0\]\.drain_node: there is no node "n1"'),
        ("an unknown device", step({"fail_device": {"node": "n0", "index": 9}}), r"steps\[0\]\.fail_device: .*9"),
        ("a double release", step({"submit": {"id": "a"}}, {"release": {"id": "a"}}, {"release": {"id": "a"}}),
         r'steps\[2\]\.release\.id is "a", which was released before'),
        ("an id that is used twice", step({"submit": {"id": "a"}}, {"submit": {"id": "a"}}),
         r'steps\[1\]\.submit\.id is "a", which is taken: each id is used once'),
        ("a negative count of devices", '{"nodes":[{"name":"n","devices":[{"count":-2}]}]}',
         r"nodes\[0\]\.devices\[0\]\.count is -2: it cannot be negative"),
        ("a negative share", step({"submit": {"id": "a", "gpus": -1}}),
         r"steps\[0\]\.submit\.gpus is -1: it cannot be negative")):
    refuses(f"plan refuses {name} with the place", ["plan"], "gpuactors plan: standard input: " + place, stdin=scenario)

# -- certs: one after the other, in one folder -------------------------------------------------------

CERTS = ["--certs", "{folder}/certs"]
STATE = {"XDG_STATE_HOME": "{folder}/state"}


def certs(*arguments):
    return ["certs", *arguments]


for subcommand in ("init", "issue", "issued", "revoke", "show"):
    gives(f"help on certs {subcommand} shows an example", certs(subcommand, "--help"),
          contains("Example", f"gpuactors certs {subcommand}"))
refuses("certs alone is bad usage", certs(),
        r"gpuactors certs: a subcommand is needed: init, issue, issued, revoke, replace, retire, show; see gpuactors certs --help$")
refuses("an unknown subcommand of certs is answered with the nearest", certs("isue"),
        r'gpuactors certs: there is no subcommand "isue"; did you mean "issue" or "issued"\?$')
refuses("an unknown option of certs issue is answered with the nearest", certs("issue", "a", "--hots", "b"),
        r'gpuactors certs issue: there is no option --hots; did you mean "--host')
refuses("certs issue needs a name", certs("issue"), r"gpuactors certs issue: .*name.*; see gpuactors certs issue --help")
refuses("certs show of a folder without any says how to make them", certs("show", *CERTS),
        r"gpuactors certs show: \S+/certs has no certificates: name the folder that has them .*gpuactors certs init --certs \S+/certs")
refuses("certs issue without an authority says how to make one", certs("issue", "a", *CERTS),
        r"gpuactors certs issue: \S+/certs/ca\.key is missing: .*gpuactors certs init --certs \S+/certs$")
for days in ("0", "36501", "many"):
    refuses(f"certs init for {days} days is refused with the range", certs("init", *CERTS, "--days", days),
            rf'gpuactors certs init: --days is "{days}": a whole number from 1 to 36500 is expected')
gives("certs init makes an authority", certs("init", *CERTS, "--days", "100"),
      contains("/certs: an authority for 100 days", "ca.key", "stays here"))
refuses("certs init does not replace an authority", certs("init", *CERTS),
        r"gpuactors certs init: \S+/certs has an authority: issue certificates with gpuactors certs issue NAME")
gives("certs issue writes a folder for another machine",
      certs("issue", "node-1", *CERTS, "--host", "gpu1", "--host=10.0.0.1", "--out", "{folder}/node-1", "--days", "9"),
      contains("/node-1: a node's certificate for gpu1, 10.0.0.1 until ", "copy its files to node-1"))
gives("certs issue writes below the authority by itself, for its name as host", certs("issue", "node-2", *CERTS),
      contains("/certs/node-2: a node's certificate for node-2 until "))
gives("certs issue --client is for a user", certs("issue", "alice", *CERTS, "--client"),
      contains("/certs/alice: a client's certificate for alice until "))
gives("certs issued lists what was issued, with roles", certs("issued", "--json", *CERTS), document(
    lambda all: {(c["subject"], c["role"]) for c in all} >= {("node-1", "node"), ("alice", "client")}
    and all[0]["revoked"] is None))
gives("certs revoke says what to do with the list", certs("revoke", "alice", *CERTS),
      contains("revoked the certificate of alice", "copy ", "/certs/revoked.pem to"))
refuses("certs revoke refuses what is revoked already", certs("revoke", "alice", *CERTS),
        r"gpuactors certs revoke: alice is revoked already$")
refuses("certs revoke of an unknown name says how to find it", certs("revoke", "bob", *CERTS),
        r'gpuactors certs revoke: "bob" is no name or serial number .*gpuactors certs issued')
gives("certs issued tells of the revocation", certs("issued", *CERTS), lambda out: any(
    line.startswith("alice") and line.count("UTC") == 3 for line in out.splitlines()))
refuses("certs issue refuses what is no host", certs("issue", "a", *CERTS, "--host", "gpu1:4711"),
        r'gpuactors certs issue: "gpu1:4711" is no host: .*without port')
refuses("certs issue refuses what is no name", certs("issue", "../a", *CERTS),
        r'gpuactors certs issue: "\.\./a" cannot be the name')
refuses("certs issue refuses a life beyond the authority's", certs("issue", "a", *CERTS, "--days", "101"),
        r"gpuactors certs issue: .*101 days would outlive its authority.*at most \d+ days")
gives("certs show lists authority and node", certs("show", *CERTS), lambda out: [line.split()[0] for line in
      out.splitlines()] == ["FILE", "ca.pem", "node.pem"] and "localhost,127.0.0.1,::1" in out)
gives("certs show as JSON carries what the table does", certs("show", "--json", "--certs", "{folder}/node-1"), document(
    lambda all: [os.path.basename(c["file"]) for c in all] == ["ca.pem", "node.pem"]
    and all[1]["subject"] == "node-1" and all[1]["issuer"] == all[0]["subject"] and all[0]["hosts"] == []
    and all[1]["hosts"] == ["gpu1", "10.0.0.1"] and re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", all[1]["fingerprint"])
    and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", all[1]["valid_until"])
    and all[1]["valid_from"] < all[1]["valid_until"] < all[0]["valid_until"]))
gives("certs init without a folder uses the user's own", certs("init"), contains("/state/gpuactors/certs: an authority"),
      env=STATE)
gives("certs show without a folder shows the user's own", certs("show"), contains("gpuactors authority"), env=STATE)


# -- running them ----------------------------------------------------------------------------------


def run(program, folder, case):
    """What is wrong with a case, or None."""
    name, arguments, stdin, env, code, check, pattern = case
    command = [program] + [argument.replace("{folder}", folder) for argument in arguments]
    clean = {key: value for key, value in os.environ.items()
             if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES", "NEURON_RT_VISIBLE_CORES")}
    done = subprocess.run(command, input=stdin.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**clean, **{key: value.replace("{folder}", folder) for key, value in env.items()}},
                          timeout=120, check=False)
    out, error = done.stdout.decode(), done.stderr.decode()
    shown = f"{command}\n  exit code {done.returncode}\n  out: {out}\n  error: {error}"
    if done.returncode != code:
        return f"exit code {code} expected: {shown}"
    if check is None:
        if error.count("\n") != 1 or not re.match(pattern, error.rstrip("\n")):
            return f"one line like {pattern} expected: {shown}"
    elif error or not check(out):
        return f"wrong output: {shown}"
    return None


def write_files(folder):
    files = {"echo.json": '{"text":"file"}', "bad.json": '{"text":\n  "x",,}', "plan.json": json.dumps(PLAN),
             "field.json": '{"nodez":[]}'}
    files.update({"neuron/dev/neuron0": "", "neuron/sys/devices/virtual/neuron_device/neuron0/core_count": "2\n"})
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def full_output(program):
    """An answer that cannot be written is a failure."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([program, "types"], stdout=full, stderr=subprocess.PIPE, check=False)
    return done.returncode == 1 and done.stderr.decode() == "gpuactors types: standard output cannot be written\n"


def main(program, part=""):
    failures = 0
    chosen = [case for case in CASES if part in case[0]]
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder)
        for case in chosen:
            try:
                wrong = run(program, folder, case)
            except (ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired) as error:
                wrong = f"{type(error).__name__}: {error}"
            print(f"{'FAILED' if wrong else 'ok':6} {case[0]}")
            if wrong:
                failures += 1
                print(f"  {wrong}")
    if not full_output(program):
        failures += 1
        print("FAILED an answer that cannot be written is a failure")
    print(f"{len(chosen) + 1} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
