"""Measures gpuactors and Ray in turns, and writes the table of docs/performance.md.

versus.py --bench GPUACTORS_BENCH --python PYTHON_WITH_RAY [--turns N] [--filter TEXT] [--json FILE] [--svg FILE]
          [--document FILE]

Each turn runs all rows of the one and then of the other, so that a machine that slows down slows down both. Values and
ratios are medians of the turns, a ratio always that of one turn (in the picture that of the medians); the extremes of
the ratios that are held to something stand in the table. A document takes the whole table of three turns or more: with
--filter it is left alone, and --document '' leaves it alone too.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

BEGIN, END = "<!-- versus Ray: begin -->", "<!-- versus Ray: end -->"
FOLDER = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = 77
LEAST_TURNS = 3


def run(command, may_be_left_out=False):
    """Runs a program, whose output is not that of this one; whether it did its work."""
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode == LEFT_OUT and may_be_left_out:
        return False
    if done.returncode != 0:
        sys.exit(f"versus.py: {os.path.basename(command[0])} ended with {done.returncode}")
    return True


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, data):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)


def median_peers(turns):
    """The rows of several turns of one program in one file of peers; no turns, no file."""
    values = {}
    for turn in turns:
        for row in turn["rows"]:
            values.setdefault((row["name"], row["unit"]), []).append(row["value"])
    return {"peer": turns[0]["peer"], "rows": [{"name": name, "value": statistics.median(found), "unit": unit}
                                               for (name, unit), found in values.items()]}


def with_ratios(report, ours, rays):
    """Puts the ratio to Ray of each turn into the rows of a report: their median, least and most."""
    peers = [{row["name"]: row["value"] for row in turn["rows"]} for turn in rays]
    for i, row in enumerate(report["rows"]):
        if row["peer"]:
            name = row.get("peer_name") or row["name"]
            ratios = [turn["rows"][i]["value"] / values[name] for turn, values in zip(ours, peers) if name in values]
            row["peer_ratio"] = statistics.median(ratios)
            row["peer_least"], row["peer_most"] = min(ratios), max(ratios)
            floor_holds = not row["bound"] or not row["floor_ratio"] or keeps(row, row["floor_ratio"], row["bound"])
            row["holds"] = floor_holds and (not row["peer_bound"] or keeps(row, row["peer_ratio"], row["peer_bound"]))


def median_rows(turns):
    """Our rows of several turns in one file of the same form."""
    result = dict(turns[-1])
    result["rows"] = []
    for i, last in enumerate(turns[-1]["rows"]):
        same = [turn["rows"][i] for turn in turns]
        row = dict(last)
        row["value"] = statistics.median(one["value"] for one in same)
        if last["floor"]:
            row["floor"] = statistics.median(one["floor"] for one in same)
            row["floor_ratio"] = statistics.median(one["floor_ratio"] for one in same)
        row["least"] = min(one["least"] for one in same)
        row["most"] = max(one["most"] for one in same)
        result["rows"].append(row)
    return result


def number(value):
    return "-" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def ratio(value):
    return "-" if not value else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def keeps(row, ratio_of_it, bound):
    return ratio_of_it <= bound if row["at_most"] else ratio_of_it >= bound


def verdict(modes):
    """What a row has to keep to, whether it does, and between which extremes the ratio was: "holds (>= 5 Ray:
    5.04..5.31), MISSED (>= 0.87 floor, embedded: 0.81..0.88)"."""
    parts = []
    for mode, row in modes.items():
        for ratio_of, bound, beside, least, most in (
                ("peer_ratio", "peer_bound", "Ray", "peer_least", "peer_most"),
                ("floor_ratio", "bound", "floor", "least", "most")):
            if row.get(bound) and row.get(ratio_of):
                said = "holds" if keeps(row, row[ratio_of], row[bound]) else "MISSED"
                where = "" if mode == "plain" else f", {mode}"
                spread = f": {row[least]:.3g}..{row[most]:.3g}" if row.get(least) and row.get(most) else ""
                parts.append(f"{said} (>= {row[bound]:.3g} {beside}{where}{spread})")
    return ", ".join(parts)


def table(report, cpp):
    """The rows of one report, a line for each name; `cpp` are values of Ray's C++ API by name."""
    lines = ["| row | plain | TLS | embedded | Ray | Ray C++ | plain / Ray | TLS / Ray | embedded / Ray | plain / floor | "
             "embedded / floor | wanted |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    rows = {}
    for row in report["rows"]:
        rows.setdefault(row["name"], {})[row["mode"]] = row
    for name, modes in rows.items():
        plain, tls, embedded = (modes.get(mode, {}) for mode in ("plain", "tls", "embedded"))
        peer = next((row["peer"] for row in modes.values() if row["peer"]), None)
        cells = [name, number(plain.get("value")), number(tls.get("value")), number(embedded.get("value")),
                 number(peer), number(cpp.get(name)), ratio(plain.get("peer_ratio")), ratio(tls.get("peer_ratio")),
                 ratio(embedded.get("peer_ratio")), ratio(plain.get("floor_ratio")),
                 ratio(embedded.get("floor_ratio")), verdict(modes)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put_into_document(path, text):
    with open(path, encoding="utf-8") as file:
        before = file.read()
    head, rest = before.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def measure(arguments, folder):
    """All turns. @returns those of ours, of Ray and of Ray's C++ API (none without)."""
    ours, rays, cpps = [], [], []
    common = ["--filter", arguments.filter, "--seconds", str(arguments.seconds), "--rounds", str(arguments.rounds),
              "--actors", str(arguments.actors)]
    for turn in range(arguments.turns):
        print(f"turn {turn + 1} of {arguments.turns}", file=sys.stderr)
        file = os.path.join(folder, "turn.json")
        run([arguments.python, os.path.join(FOLDER, "ray_rows.py"), *common, "--tasks", str(arguments.tasks), "--json",
             file])
        rays.append(read(file))
        if run([arguments.python, os.path.join(FOLDER, "ray_cpp.py"), *common, "--json", file], may_be_left_out=True):
            cpps.append(read(file))
        run([arguments.bench, "--ray", *common, "--tasks", str(arguments.tasks), "--json", file])
        ours.append(read(file))
    return ours, rays, cpps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--filter", default="")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--document")
    arguments = parser.parse_args()
    if arguments.document and arguments.filter:
        print(f"versus.py: {arguments.document} is left alone: --filter takes some rows only", file=sys.stderr)
        arguments.document = None
    if arguments.document and arguments.turns < LEAST_TURNS:
        parser.error(f"the document takes {LEAST_TURNS} turns or more: who measures once knows no spread (--document '' "
                     "leaves it alone)")
    with tempfile.TemporaryDirectory() as folder:
        ours, rays, cpps = measure(arguments, folder)
        mine, theirs, both = (os.path.join(folder, name) for name in ("ours.json", "ray.json", "both.json"))
        write(mine, median_rows(ours))
        write(theirs, median_peers(rays))
        command = [arguments.bench, "--from", mine, "--peers", theirs, "--json", both]
        run([*command, "--svg", os.path.abspath(arguments.svg)] if arguments.svg else command)
        report = read(both)
    with_ratios(report, ours, rays)
    cpp = median_peers(cpps) if cpps else None
    values = {row["name"]: row["value"] for row in cpp["rows"]} if cpp else {}
    machine = report["machine"]
    text = (f"{datetime.date.today()}, {machine['hardware threads']} x {machine['processor']}, {machine['kernel']}, "
            f"gpuactors {machine['gpuactors']}, {rays[0]['peer']}{', ' + cpp['peer'] if cpp else ''}; {arguments.turns} "
            f"turns of {arguments.rounds} rounds of {arguments.seconds:g} s; operations (or GB) a second\n\n"
            f"{table(report, values)}\n")
    print(text)
    if arguments.json:
        report["ray_cpp"] = cpp
        write(arguments.json, report)
    if arguments.document:
        put_into_document(arguments.document, text)


if __name__ == "__main__":
    main()
