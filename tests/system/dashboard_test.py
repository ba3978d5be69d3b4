#!/usr/bin/env python3
"""Looks at a cluster by `gpuactors dashboard` as a browser does: dashboard_test.py PROGRAM [CASE]

The cluster is `gpuactors up`. The cases are sentences and run in their order. Whatever happens by itself is polled for
with a deadline.
"""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys

import dashboard_page
from running_cluster import DEADLINE, fits, run_cases, same, until

CASES = []
EVIL = '"><script>alert(1)</script>'
POLICY = ("default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")


def case(function):
    """A case; its name is the function's first line of documentation."""
    CASES.append(function)
    return function


class Dashboard:
    """`gpuactors dashboard`, and what it answers."""

    def __init__(self, process):
        self.process = process
        ready = process.stdout.readline()
        fits(r"^dashboard at http://127\.0\.0\.1:\d+/\n$", ready)
        self.port = int(ready.rsplit(":", 1)[1].rstrip("/\n"))

    def ask(self, path, method="GET"):
        """Status, headers and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def text(self, path):
        status, _, text = self.ask(path)
        same(status, 200)
        return text

    def page(self, path="/"):
        return dashboard_page.read(self.text(path))

    def part(self, name):
        return self.page("/main").one("div", data_part=name)

    def words(self, name):
        return self.page("/main").one("p", data_part=name).text()

    def soon(self, condition, what):
        """What condition(page) gives once it is true: the page is up to a second old."""
        return until(lambda: condition(self.page("/main")), what)


@contextlib.contextmanager
def dashboard(cluster, *arguments, **options):
    """`gpuactors dashboard`; its end must be a clean one."""
    process = cluster.start("dashboard", "--listen", "127.0.0.1:0", *arguments, **options)
    try:
        yield Dashboard(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
        same(process.returncode, 0)
    finally:
        process.kill()


# -- the page ----------------------------------------------------------------------------------------


@case
def whole(cluster):
    """the page is well-formed, says what there is in words, and brings its style and script from files of its own"""
    with dashboard(cluster) as looks:
        page = looks.page()
        same(page.one("link", rel="stylesheet").attributes["href"], "/style.css")
        same(page.one("script").attributes["src"], "/script.js")
        same(page.one("p", id="headline").text(),
             "1 node with 2 devices: 0 of 2 granted, 0 B of 2 GiB of their memory. Nothing waits for resources. "
             "0 actors.")
        fits("No problems", page.one("div", id="problems").text())
        same(page.one("main").attributes["class"], "fresh")
        same(page.one("head").one("meta", http_equiv="refresh").attributes["content"], "10")
        fits("@media \\(prefers-color-scheme: dark\\)", looks.text("/style.css"))
        fits('fetch\\("/main"', looks.text("/script.js"))
        fits("zone=a", page.one("details", id="devices").text())
        fits("fpga=2", page.one("details", id="devices").text())


@case
def headers(cluster):
    """no answer may be kept or framed, or run anything but the page's own script; all but GET and HEAD is refused"""
    with dashboard(cluster) as looks:
        for path in ("/", "/main", "/style.css", "/script.js", "/livez", "/readyz", "/other", "/logs/1"):
            _, head, _ = looks.ask(path)
            same({name: head[name] for name in ("Content-Security-Policy", "X-Content-Type-Options", "Cache-Control",
                                                "Referrer-Policy")},
                 {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
                  "Referrer-Policy": "no-referrer"})
        same([looks.ask(path)[1]["Content-Type"].split(";")[0] for path in ("/", "/style.css", "/script.js", "/livez")],
             ["text/html", "text/css", "text/javascript", "text/plain"])
        same((looks.ask("/livez")[::2], looks.ask("/readyz")[::2]), ((200, "ok\n"), (200, "ready\n")))
        same(looks.ask("/other")[::2], (404, "there are /, /main, /logs/NUMBER of an actor, /livez and /readyz\n"))
        same([looks.ask("/", method)[0] for method in ("POST", "DELETE", "HEAD")], [405, 405, 200])
        for path in ("/logs/", "/logs/1", "/logs/x", "/logs/-1", "/logs/99999999999999999999999"):
            same(looks.ask(path)[0], 404)


@case
def devices(cluster):
    """who holds which part of which device is there, and agrees with the command line"""
    cluster.run("spawn", "counter", "--name", "half", "--gpus", "0.5")
    cluster.run("spawn", "counter", "--name", "quarter", "--name-space", "lab", "--gpus", "0.25")
    with dashboard(cluster) as looks:
        page = looks.soon(lambda page: page if "0.75 of 2 granted" in page.text() else None, "both are granted")
        shown = page.one("div", data_part="devices")
        granted = {"0": "0.75 of 1, 768 MiB of 1 GiB", "1": "0 of 1, 0 B of 1 GiB"}
        same([bar.attributes["aria-label"] for bar in shown.all("svg", class_="bar")],
             [f"Device {index} of n0: {words}" for index, words in granted.items()])
        same([(str(d["index"]), d["free_share"]) for d in cluster.json("devices", "--json")], [("0", 0.25), ("1", 1.0)])
        parts = [(segment.one("title").text().split(",")[0], segment.attributes["x"], segment.attributes["width"])
                 for bar in shown.all("svg", class_="bar") for segment in bar.all("svg")]
        same(parts, [("half: 0.5 of the device", "0%", "50%"), ("quarter: 0.25 of the device", "50%", "25%")])
        rows = page.one("div", data_part="actors").rows()
        actors = cluster.json("actors", "--json")
        same([(row["Name"], row["Type"], row["State"], row["Node"], row["Pid"], row["Restarts"]) for row in rows],
             [("/".join(filter(None, (a["name_space"], a["name"]))), a["type"], a["state"], a["node"], str(a["pid"]),
               str(a["restarts"])) for a in actors])
        same([row["Devices (share, memory)"] for row in rows], ["0 (0.5, 512 MiB)", "0 (0.25, 256 MiB)"])


@case
def queue(cluster):
    """what waits is there with its reason"""
    waiting = cluster.start("submit", "gpu_ids", "--gpus", "2")
    try:
        with dashboard(cluster) as looks:
            page = looks.soon(lambda page: page if "1 request waits" in page.text() else None, "a request waits")
            (listed,) = cluster.json("queue", "--json")
            (row,) = page.one("div", data_part="queue").rows()
            same((row["Name"], row["Id"], row["Priority"], row["Why it waits"]),
                 (listed["name"], listed["id"], str(listed["priority"]), listed["reason"]))
            same(page.one("span", data_part="queue-summary").text(), "1 wait")
    finally:
        waiting.kill()
        waiting.communicate(timeout=DEADLINE)
    until(lambda: not cluster.json("queue", "--json"), "nothing waits")


@case
def calls(cluster):
    """calls, what actors publish and events are there, and agree with the command line"""
    with dashboard(cluster) as looks:
        for number in ("40", "2"):
            cluster.run("call", "half", "add", '{"n": %s}' % number)
        page = looks.soon(lambda page: page if "counter_value=42" in page.text() else None, "its worker has reported")
        (listed,) = [row for row in cluster.json("calls", "--json") if row.get("name") == "half"]
        (row,) = [row for row in page.one("div", data_part="calls").rows() if row["Actor"] == "half"]
        same((row["Method or task"], row["Ran"], row["Failed"], row["Late"]),
             (listed["method"], listed["ran"], listed["failed"], listed["late"]))
        fits(r"^[0-9.]+ [mu]?s$", row["Mean"])
        events = [(row["Number"], row["Kind"], row["Name"]) for row in page.one("div", data_part="events").rows()]
        numbers = [int(number) for number, _, _ in events]
        same(numbers, sorted(numbers, reverse=True))
        assert [kind for _, kind, name in events if name == "half"] == ["spawned", "granted"], events
        curves = [figure.text() for figure in page.one("div", data_part="history").all("figure")]
        same(len(curves), 4)
        fits(r"^Granted share: now 37\.5 %", curves[0])


@case
def logs(cluster):
    """what an actor printed last is a page of plain text, found by the link on its name"""
    with dashboard(cluster) as looks:
        cluster.run("call", "half", "say", '{"text": "<b>words</b>"}')
        number = cluster.actor("half")["id"]
        link = next(each for each in looks.part("actors").all("a") if each.text() == "half")
        same(link.attributes["href"], f"/logs/{number}")
        status, head, text = looks.ask(f"/logs/{number}")
        same((status, head["Content-Type"]), (200, "text/plain; charset=utf-8"))
        fits(r"(?s)^\S+ \S+ n0 half  <b>words</b>\n.*\(the last \d+ lines of half\)\n$", text)


@case
def names_of_users(cluster):
    """a name that tries to break out of the page stays text, wherever it is shown"""
    cluster.run("spawn", "counter", "--name", EVIL, "--gpus", "0.5")
    with dashboard(cluster) as looks:
        page = looks.soon(lambda page: page if EVIL in page.text() else None, "it is there")
        same(len(list(page.all("script"))), 0)
        assert any(EVIL in title.text() for title in page.one("div", data_part="devices").all("title"))
        assert "<script>alert" not in looks.text("/")
        name = next(row["Name"] for row in page.one("div", data_part="actors").rows() if "script" in row["Name"])
        same(name, EVIL)
    cluster.run("kill", EVIL, "--no-restart")


@case
def problems(cluster):
    """a drained node, a quota that is used up and an actor that died are problems, with the command that tells more"""
    with dashboard(cluster) as looks:
        cluster.run("drain", "n0")
        page = looks.soon(lambda page: page if "Node n0 is drained" in page.text() else None, "the node is drained")
        fits(rf"gpuactors nodes --broker {re.escape(cluster.broker)}", page.one("div", id="problems").text())
        fits("⚠ draining", page.one("div", data_part="devices").text())
        fits(r"^\(1\) problem ", page.one("main").attributes["data-title"])
        cluster.run("undrain", "n0")
        looks.soon(lambda page: "No problems" in page.text(), "nothing is wrong")
        certs = os.path.join(cluster.folder, "alice")
        subprocess.run([cluster.program, "certs", "issue", "alice", "--client", "--out", certs], env=cluster.env,
                       capture_output=True, timeout=DEADLINE, check=True)
        cluster.run("quotas", "--set", "alice=0.5")
        cluster.run("spawn", "counter", "--name", "hers", "--gpus", "0.5", "--certs", certs)
        page = looks.soon(lambda page: page if "is used up" in page.text() else None, "her quota")
        fits(r"The quota of alice is used up: it holds 0\.5 of 0\.5 devices\.", page.one("div", id="problems").text())
        (row,) = [row for row in page.one("div", data_part="quotas").rows() if row["Owner"] == "alice"]
        same((row["Holds"], row["Of"]), ("0.5", "0.5"))
        fits("100 % ⚠ used up", row["Used"])
        os.kill(cluster.actor("hers")["pid"], signal.SIGKILL)
        page = looks.soon(lambda page: page if "Actor hers has died" in page.text() else None, "her actor has died")
        row = page.one("div", data_part="ended").rows()[0]
        (ended,) = cluster.json("actors", "--ended", "1", "--json")
        same((row["Name"], row["Error"], row["Reason"]), (ended["name"], ended["error"], ended["reason"]))
        cluster.run("quotas", "--remove", "alice")


# -- a broker that is away ---------------------------------------------------------------------------


def broker_at(cluster, listen):
    """A broker of its own, without nodes, and where it listens."""
    process = subprocess.Popen([cluster.program, "broker", "--listen", listen], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=cluster.env, text=True)
    return process, process.stdout.readline().split()[-1]


@case
def broker_away(cluster):
    """when the broker is killed the page says so and keeps what it knew, and when it is back it goes on"""
    process, listen = broker_at(cluster, "127.0.0.1:0")
    try:
        with dashboard(cluster, broker=listen) as looks:
            looks.soon(lambda page: "No node has joined yet" in page.text(), "the broker has answered")
            process.kill()
            process.wait(DEADLINE)
            page = looks.soon(lambda page: page if list(page.all("main", class_="stale")) else None, "it says so")
            fits(rf"The broker at {re.escape(listen)} has not answered since [0-9: .-]+ UTC: \S.*Below is what it said last",
                 page.one("div", data_part="banner").text())
            fits("No node has joined yet", page.text())
            same(page.one("main").attributes["data-title"], "no answer - gpuactors")
            same((looks.ask("/readyz")[0], looks.ask("/livez")[0]), (503, 200))
            process, _ = broker_at(cluster, listen)
            page = looks.soon(lambda page: page if list(page.all("main", class_="fresh")) else None, "it is back")
            same(page.one("div", data_part="banner").text(), "")
            same(looks.ask("/readyz")[0], 200)
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


@case
def no_broker(cluster):
    """it starts without a broker, and its page says what it waits for"""
    with dashboard(cluster, broker="127.0.0.1:1") as looks:
        page = looks.page()
        same(page.one("main").attributes["class"], "stale")
        fits("The broker at 127.0.0.1:1 has not answered since .* It is asked again and again",
             page.one("div", data_part="banner").text())
        same(looks.ask("/livez")[0], 200)


@case
def others(cluster):
    """it listens for other machines only where it is told that anyone may read"""
    fits(r"--listen 0\.0\.0\.0:0: others than this machine could read names, loads and logs of everything there is, "
         r"without a certificate; --allow-remote says that they may",
         cluster.run("dashboard", "--listen", "0.0.0.0:0", code=2))
    fits(r'"7713" is no HOST:PORT', cluster.run("dashboard", "--listen", "7713", code=2))


if __name__ == "__main__":
    sys.exit(run_cases(sys.argv[1], CASES, *sys.argv[2:]))
