"""Measures gpuactors and Ray in turns, and writes the table of docs/performance.md.

versus.py --bench GPUACTORS_BENCH --python PYTHON_WITH_RAY [--turns N] [--filter TEXT] [--json FILE] [--document FILE]

Each turn runs all rows of the one and then of the other, so that a machine that slows down slows down both. A value is
the median of the turns; a ratio is that of the medians.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

BEGIN, END = "<!-- versus Ray: begin -->", "<!-- versus Ray: end -->"
# The row of Ray that a row of ours stands beside, where the names differ.
PEERS = {"many_actors_processes": "many_actors"}
# What must hold: our rate by Ray's in the cluster without TLS (Ray's default), and embedded.
WANTED = {"1_1_actor_calls_sync": (5, 40), "1_1_actor_calls_async": (12, None), "single_client_tasks_sync": (5, None),
          "single_client_tasks_async": (5, None), "n_n_actor_calls_async": (5, None),
          "placement_group_create/removal": (50, None), "many_actors": (10, None),
          "single_client_put_gigabytes": (1, None)}


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        sys.exit(f"versus.py: {command[0]} ended with {done.returncode}")
    return done.stdout


def ours(arguments):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run([arguments.bench, "--ray", "--filter", arguments.filter, "--seconds", str(arguments.seconds), "--rounds",
             str(arguments.rounds), "--actors", str(arguments.actors), "--json", file.name])
        return {(row["name"], row["mode"]): row["value"] for row in json.load(file)["rows"]}


def rays(arguments):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_rows.py")
    output = run([arguments.python, script, "--filter", arguments.filter, "--seconds", str(arguments.seconds),
                  "--rounds", str(arguments.rounds), "--actors", str(arguments.actors)])
    result = json.loads(output.splitlines()[-1])
    return result["version"], {row["name"]: row["value"] for row in result["rows"]}


def number(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def ratio(value, peer):
    return "-" if value is None or not peer else f"{value / peer:.1f}"


def verdict(name, plain, embedded, peer):
    wanted = WANTED.get(name)
    if wanted is None or not peer or plain is None:
        return ""
    parts = [(plain / peer, wanted[0], "")]
    if wanted[1] is not None and embedded is not None:
        parts.append((embedded / peer, wanted[1], " embedded"))
    return ", ".join(f"{'holds' if got >= least else 'MISSED'} (>= {least}{where})" for got, least, where in parts)


def table(values, peers):
    lines = ["| row | plain | TLS | embedded | Ray | plain / Ray | TLS / Ray | embedded / Ray | wanted |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---|"]
    for name in dict.fromkeys(name for name, _ in values):
        plain, tls, embedded = (values.get((name, mode)) for mode in ("plain", "tls", "embedded"))
        peer = peers.get(PEERS.get(name, name))
        cells = [name, number(plain), number(tls), number(embedded), number(peer), ratio(plain, peer), ratio(tls, peer),
                 ratio(embedded, peer), verdict(name, plain, embedded, peer)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def median_of(turns):
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: statistics.median(turn[name] for turn in turns if name in turn) for name in names}


def write(path, text):
    with open(path, encoding="utf-8") as file:
        before = file.read()
    head, rest = before.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--filter", default="")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--json")
    parser.add_argument("--document")
    arguments = parser.parse_args()
    version, mine, theirs = "", [], []
    for turn in range(arguments.turns):
        print(f"turn {turn + 1} of {arguments.turns}", file=sys.stderr)
        version, peer = rays(arguments)
        theirs.append(peer)
        mine.append(ours(arguments))
    values, peers = median_of(mine), median_of(theirs)
    text = (f"{datetime.date.today()}, {os.cpu_count()} processors, Linux {platform.release()}, Ray {version}, "
            f"{arguments.turns} turns of {arguments.rounds} rounds of {arguments.seconds:g} s; operations (or GB) a "
            f"second\n\n{table(values, peers)}\n")
    print(text)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"rows": [{"name": name, "mode": mode, "value": value, "unit": "GB/s" if "gigabytes" in name
                                 else "1/s", "peer": peers.get(PEERS.get(name, name)),
                                 "peer_ratio": value / peers[PEERS.get(name, name)]
                                 if peers.get(PEERS.get(name, name)) else None}
                                for (name, mode), value in values.items()]}, file, indent=1)
    if arguments.document:
        write(arguments.document, text)


if __name__ == "__main__":
    main()
