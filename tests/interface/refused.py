"""Compiles a file of faults and checks that the compiler refuses each of them, where it stands and with its text.

    refused.py SOURCE COMPILER [OPTION...]

A line `// refused: TEXT` says what the compiler must say of the line below it; no other line may be refused.
"""

import os
import pathlib
import re
import subprocess
import sys


def main(source, *compiler):
    lines = pathlib.Path(source).read_text(encoding="utf-8").splitlines()
    expected = {number + 1: line.split("// refused: ")[1]
                for number, line in enumerate(lines, start=1) if "// refused: " in line}
    done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", source], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}, check=False)
    # Each error ends with its own line; the lines before it say where it was required from.
    found = {}
    required = []
    for line in done.stderr.splitlines():
        if place := re.match(rf"(?:.*/)?{re.escape(pathlib.Path(source).name)}:(\d+):", line):
            required.append(int(place.group(1)))
        if error := re.search(r"error: (.*)", line):
            found.setdefault(required[-1] if required else 0, []).append(error.group(1))
            required = []
    problems = [f"line {number} was not refused with \"{text}\", but with {found.get(number, 'nothing')}"
                for number, text in expected.items()
                if not any(text in error for error in found.get(number, []))]
    problems += [f"line {number} was refused: {errors}" for number, errors in found.items() if number not in expected]
    for problem in problems:
        print(problem)
    if problems:
        print(done.stderr)
    print(f"{len(expected) - len(problems)} of {len(expected)} faults were refused as they should be")
    return 1 if problems or not expected else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
