#!/usr/bin/env python3
"""Counts the instructions of some operations and compares them with those on record.

instructions.py GPUACTORS_BENCH RECORD [--strict] [--record]

An operation's instructions are those of a run of many less those of a run of fewer, by the number between: what starts
and ends a process is in both. valgrind counts; the processor, its speed and what else it does make no difference. What
threads do while they wait for each other does, by a few parts in a hundred: the record is the median of several counts,
and what is compared with it the least of some.

One that grew by more than a tenth is a warning, and with --strict an error. --record makes the counts the new record.
Exit code 77: there is no valgrind, or the record was made with other compilers or libraries.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

OPERATIONS = {"ledger": "a grant and its release", "embedded": "a call of an actor in the same process",
              "remote": "a call of an actor in another process (the caller's side)", "task": "a task in the same process"}
FEWER, MORE = 1000, 3000
ALLOWED = 1.1
TRIES = 8
RECORD_TRIES = 5
MADE_WITH = ("compiler", "build", "CAF", "Protobuf")


def run(command):
    # The long polls for other processes would count, and last as long as valgrind makes these take.
    environment = {**os.environ, "GPUACTORS_POLLING": "short"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"instructions.py: {' '.join(command[:2])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stderr


def toolchain(bench):
    """What the program was made with, as far as it changes counts."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        run([bench, "--filter", "ledger_grant_release_8_devices", "--repeat", "1", "--json", report])
        with open(report, encoding="utf-8") as file:
            machine = json.load(file)["machine"]
    return {name: machine[name] for name in MADE_WITH}


def instructions(bench, operation, count):
    output = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}", bench, "--operation", operation,
                  "--count", str(count)])
    return int(re.search(r"Collected : (\d+)", output)[1])


def count_once(bench, operation):
    """Instructions of one operation."""
    spent = instructions(bench, operation, MORE) - instructions(bench, operation, FEWER)
    return round(spent / (MORE - FEWER))


def count(bench, operation, enough):
    """The first count that is low enough, or the least of some."""
    found = []
    while len(found) < TRIES and not (found and found[-1] <= enough):
        found.append(count_once(bench, operation))
    return min(found)


def compare(counts, recorded):
    """A line for each operation, and a warning for each that has grown too much."""
    lines, warnings = [], []
    for operation, now in counts.items():
        before = recorded.get(operation)
        change = "new" if not before else f"{100 * (now / before - 1):+.1f} %"
        lines.append(f"{operation:<10} {now:>8} instructions, {change:>8}  {OPERATIONS[operation]}")
        if before and now > ALLOWED * before:
            warnings.append(f"warning: {OPERATIONS[operation]} takes {now} instructions, {change} of the {before} on "
                            f"record: make it shorter, or record it with --record and say why")
    return lines, warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("record_file")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        sys.exit(77)
    made_with = toolchain(arguments.bench)
    recorded = {"made_with": made_with, "instructions": {}}
    if os.path.exists(arguments.record_file):
        with open(arguments.record_file, encoding="utf-8") as file:
            recorded = json.load(file)
    if made_with != recorded["made_with"] and not arguments.record:
        print(f"skipped: the record is of {recorded['made_with']}, this program of {made_with}")
        sys.exit(77)
    before = recorded["instructions"]
    if arguments.record:
        counts = {operation: statistics.median(count_once(arguments.bench, operation) for _ in range(RECORD_TRIES))
                  for operation in OPERATIONS}
    else:
        counts = {operation: count(arguments.bench, operation, ALLOWED * before.get(operation, 0))
                  for operation in OPERATIONS}
    lines, warnings = compare(counts, before)
    print("\n".join(lines + warnings))
    if arguments.record:
        with open(arguments.record_file, "w", encoding="utf-8") as file:
            json.dump({"made_with": made_with, "instructions": counts}, file, indent=1)
            file.write("\n")
    elif warnings and arguments.strict:
        sys.exit(1)


if __name__ == "__main__":
    main()
