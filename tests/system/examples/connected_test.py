#!/usr/bin/env python3
"""Runs an example against `gpuactors up` whose workers are that example: connected_test.py GPUACTORS EXAMPLE
PATTERN..."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import run_program  # pylint: disable=wrong-import-position
import up  # pylint: disable=wrong-import-position


def main(gpuactors, example, *patterns):
    with up.up(gpuactors, "--devices", "host:1x1GiB", "--program", example) as client:
        done = client(example)
    missing = run_program.missing(patterns, done.stdout)
    if done.returncode == 0 and missing is None:
        return 0
    print(f"exit code {done.returncode}\n--- standard output\n{done.stdout}--- standard error\n{done.stderr}---")
    print(f"on standard output was expected: {missing}" if missing else "exit code 0 was expected")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
