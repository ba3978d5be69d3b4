#!/usr/bin/env python3
"""Runs a program and holds what it prints and how it ends: run_program.py [OPTION...] -- PROGRAM [ARGUMENT...]"""

import argparse
import json
import re
import subprocess
import sys


def parse():
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exit", type=int, default=0, help="the exit code that it ends with")
    parser.add_argument("--stdout", action="append", default=[], help="a pattern that standard output has, in this order")
    parser.add_argument("--stderr", action="append", default=[], help="a pattern that standard error has, in this order")
    parser.add_argument("--stderr-lines", type=int, help="number of lines on standard error")
    parser.add_argument("--rows", help="standard output is a JSON array of passed results of these programs: T6,T7")
    return parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]


def missing(patterns, text):
    """Returns the first pattern that does not follow the ones before it."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        if not found:
            return pattern
        at = found.end()
    return None


def check_rows(text, programs):
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        yield f"standard output is no JSON: {error}"
        return
    ran = {row["program"] for row in rows}
    if ran != set(programs.split(",")):
        yield f"results of {programs} were expected, {sorted(ran)} came"
    for row in rows:
        for key in ("program", "title", "device", "result", "seconds", "ok", "failures"):
            if key not in row:
                yield f"a row has no {key}: {row}"
        if not row.get("ok") or row.get("failures"):
            yield f"a check failed: {row}"
        if "error" in row and not row["error"] <= row["tolerance"]:
            yield f"the error is too large: {row}"


def check(options, done):
    if done.returncode != options.exit:
        yield f"exit code {options.exit} was expected, {done.returncode} came"
    for name, patterns, text in (("output", options.stdout, done.stdout), ("error", options.stderr, done.stderr)):
        pattern = missing(patterns, text)
        if pattern is not None:
            yield f"on standard {name} was expected: {pattern}"
    lines = done.stderr.count("\n")
    if options.stderr_lines is not None and lines != options.stderr_lines:
        yield f"{options.stderr_lines} lines on standard error were expected, {lines} came"
    if options.rows is not None:
        yield from check_rows(done.stdout, options.rows)


def main():
    options, command = parse()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = list(check(options, done))
    if findings:
        print(f"--- standard output\n{done.stdout}--- standard error\n{done.stderr}---")
        print("\n".join(findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
