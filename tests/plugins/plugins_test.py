#!/usr/bin/env python3
"""Plugins with real processes: plugins_test.py GPUACTORS FOLDER, where FOLDER has the plugins.

Those that are sound are submitted to, spawned and called from the command line, which has never seen their messages;
each of the others is refused in one line that names it, and the node does not start.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import up  # pylint: disable=wrong-import-position

DEVICES = ("--devices", "host:1x1GiB")


def fits(pattern, text):
    assert re.search(pattern, text), f"{text!r} does not fit {pattern!r}"


def same(value, expected):
    assert value == expected, f"{value!r} came, {expected!r} was expected"


def test_types(gpuactors, client, others):
    """types shows what the nodes run: built in, and from both plugins"""
    types = json.loads(client("types", "--json"))
    named = {(entry["kind"], entry["name"]): entry for entry in types}
    same(named["task", "words.reverse"]["input"], "plugintest.v1.Words")
    same(named["task", "words.reverse"]["needs"]["cpus"], 0.5)
    same(named["actor", "words.counter"]["owns"], "a share below 1")
    same([method["name"] for method in named["actor", "words.counter"]["methods"]], ["count", "each"])
    same(named["message", "plugintest.v1.Words"]["fields"]["counts"], "map<string, int32>")
    assert ("task", "second.half") in named and ("task", "echo") in named, sorted(named)
    without = subprocess.run([gpuactors, "types"], capture_output=True, text=True, env=others, check=True).stdout
    assert "words.reverse" not in without, without
    fits(r"(?m)^words\.reverse +plugintest\.v1\.Words +plugintest\.v1\.Words +cpus 0\.5$", client("types"))


def test_submit(_, client, __):
    """submit turns JSON into messages of a plugin and back: enums, maps, standard messages, names in JSON"""
    words = {"words": ["a", "bc"], "letters": "UPPER", "at": "2026-01-02T03:04:05Z", "odd": "x"}
    reply = json.loads(client("submit", "words.reverse", json.dumps(words)))
    same(reply, {"words": ["BC", "A"], "letters": "UPPER", "counts": {"a": 1, "bc": 1}, "at": "2026-01-02T03:04:05Z",
                 "other_name": "x"})
    same(json.loads(client("submit", "second.half", "-", stdin='{"value":5}')), {"value": 2.5})
    same(json.loads(client("submit", "echo", '{"text":"built in"}'))["text"], "built in")
    fits(r"its fields are: words, letters, counts, at, other_name$",
         client("submit", "words.reverse", '{"word":[]}', code=2))
    fits(r'there is no task type "words.revers"; did you mean "words.reverse"\?', client("submit", "words.revers", code=2))


def test_actor(_, client, __):
    """spawn and call an actor of a plugin, with its configuration, needs and a streamed method"""
    spawned = json.loads(client("spawn", "words.counter", "--name", "w0", "--json", '{"count":10}'))
    same([device["share"] for device in spawned["devices"]], [0.25])
    same(json.loads(client("call", "w0", "count", '{"words":["x","y"]}')), {"count": "12", "pid": str(spawned["pid"])})
    lines = client("call", "w0", "each", '{"words":["x","y","z"]}').splitlines()
    same([json.loads(line)["words"] for line in lines], [["x"], ["y"], ["z"]])
    fits(r'has no method "cont"; did you mean "count"\?', client("call", "w0", "cont", code=2))
    fits(r"words.counter is a FractionalGPUActor", client("spawn", "words.counter", "--name", "w1", "--gpus", "1", code=2))
    fits(r'there is no actor type "counterr"', client("spawn", "counterr", "--name", "w1", code=2))
    client("kill", "w0", "--no-restart")


def test_isolated(_, client, __):
    """a process of an actor's own has the plugins as well"""
    spawned = json.loads(client("spawn", "words.counter", "--name", "w2", "--isolation", "process", "--json"))
    same(json.loads(client("call", "w2", "count"))["pid"], str(spawned["pid"]))


def without_plugins(gpuactors, client, broker, env):
    """beside a node without the plugins, their types are where they were, and types says so"""
    assert "NODES" not in client("types"), "the only node has all types"
    with subprocess.Popen([gpuactors, "node", "--broker", broker, "--name", "plain", "--devices", "host:2x1GiB",
                           "--insecure"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as node:
        try:
            fits(r"node plain is registered", node.stderr.readline())
            types = {entry["name"]: entry for entry in json.loads(client("types", "--json"))}
            same(types["words.reverse"]["node_count"], 1)
            assert "nodes" not in types["echo"], types["echo"]
            home = types["words.reverse"]["nodes"][0]
            fits(rf"(?m)^words\.reverse .* cpus 0\.5 +{re.escape(home)}$", client("types"))
            fits(r"(?m)^echo .* all$", client("types"))
            # The other node has more of everything.
            for _ in range(4):
                client("submit", "words.reverse")
            same(json.loads(client("spawn", "words.counter", "--name", "w3", "--json"))["node"], home)
            fits(r'^gpuactors submit: node plain does not have the type "task words\.reverse"$',
                 client("submit", "words.reverse", "--node", "plain", code=2))
        finally:
            node.kill()


def sound(gpuactors, folder):
    failed = 0
    plugins = [os.path.join(folder, name) for name in ("plugin_words.so", "plugin_second.so")]
    with up.up(gpuactors, *DEVICES, "--insecure", "--plugin", plugins[0], "--plugin", plugins[1]) as connected:

        def client(command, *arguments, code=0, stdin=""):
            done = connected(gpuactors, command, *arguments, "--insecure", stdin=stdin)
            assert done.returncode == code, f"exit code {code} was expected: {done}"
            return done.stderr.rstrip("\n") if code else done.stdout

        plain = {key: value for key, value in os.environ.items()
                 if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS")}
        for test in (test_types, test_submit, test_actor, test_isolated):
            failed += report(test.__doc__, lambda test=test: test(gpuactors, client, plain))
        failed += report(without_plugins.__doc__, lambda: without_plugins(gpuactors, client, connected.broker, plain))
    return failed


BAD = (
    ("plugin_words.so plugin_path_clash.so", r"plugin \S*plugin_path_clash\.so: its plugintest/v1/words\.proto clashes"),
    ("plugin_words.so plugin_message_clash.so", r"plugin \S*plugin_message_clash\.so: its message plugintest\.v1\.Words"),
    ("plugin_missing_symbol.so", r"plugin \S*missing_symbol\.so: it cannot be loaded: .*undefined symbol: .*defined_nowhere"),
    ("plugin_other_version.so", r"plugin \S*other_version\.so: it was built with gpuactors 9\.7, .*this program with gpuactors"),
    ("plugin_taken.so", r"plugin \S*taken\.so: .*task type echo is registered twice"),
    ("plugin_nothing.so", r"plugin \S*nothing\.so: it registers no task or actor"),
    ("plugin_crash.so", r"plugin \S*crash\.so: the process that loaded it was ended by signal 11 \(SIGSEGV\)"),
    ("plugin_leave.so", r"plugin \S*leave\.so: the process that loaded it ended with exit code 0"),
    ("plugin_throw.so", r"plugin \S*throw\.so: .*the model is missing"),
    ("plugin_no_plugin.so", r"plugin \S*no_plugin\.so: it is no plugin of gpuactors"),
    ("plugin_words.so plugin_words.so", r"plugin \S*words\.so: it is loaded already"),
    ("text.so", r"plugin \S*text\.so: it is no shared library"),
    ("not_there.so", r"plugin \S*not_there\.so: No such file"),
)


def refused(gpuactors, folder, names, pattern):
    with tempfile.TemporaryDirectory() as state:
        with open(os.path.join(state, "text.so"), "w", encoding="utf-8") as file:
            file.write("no library at all\n")
        arguments = []
        for name in names.split():
            arguments += ["--plugin", os.path.join(state if name == "text.so" else folder, name)]
        done = subprocess.run([gpuactors, "up", "--insecure", "--listen", "127.0.0.1:0", *DEVICES, *arguments],
                              env={**os.environ, "XDG_STATE_HOME": state}, capture_output=True, text=True,
                              timeout=up.DEADLINE, check=False)
    same((done.returncode, done.stdout), (2, ""))
    last = done.stderr.rstrip("\n").rsplit("\n", maxsplit=1)[-1]
    assert last.startswith("gpuactors up: "), done.stderr
    fits(pattern, last)


def report(what, run):
    try:
        run()
    except Exception:  # pylint: disable=broad-except
        print(f"FAILED {what}\n{traceback.format_exc()}", flush=True)
        return 1
    print(f"ok     {what}", flush=True)
    return 0


def main(gpuactors, folder):
    failed = sound(gpuactors, folder)
    for names, pattern in BAD:
        failed += report(f"{names} is refused", lambda n=names, p=pattern: refused(gpuactors, folder, n, p))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
