#!/usr/bin/env python3
"""The guide as a test: what docs/guide/first-actor.md tells a newcomer to write compiles and prints what it says.

guide.py write GUIDE FOLDER       writes the files that the guide shows, and pieces.cmake for those beside its program
guide.py run GUIDE PROGRAM ARG... runs the program and compares its output with the guide's
"""

import os
import re
import subprocess
import sys

FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.S)
OUTPUT = re.compile(r"<!-- output -->\n```\n(.*?)```\n", re.S)


def write(guide, folder):
    files = dict(FILE.findall(guide))
    pieces = [name for name in files if name.startswith("pieces/")]
    # Included by the guide's own project(); takes effect when its CMakeLists.txt is done.
    files["pieces.cmake"] = (f"cmake_language(DEFER CALL target_sources first PRIVATE {' '.join(pieces)})\n"
                             "cmake_language(DEFER CALL target_include_directories first PRIVATE .)\n")
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def run(guide, command):
    expected = re.sub(r"\n +", " ", OUTPUT.search(guide).group(1)) # long lines are broken and indented
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()
    if printed != expected:
        sys.exit(f"the guide says\n{expected}\nbut the program prints\n{printed}")


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as source:
        text = source.read()
    if sys.argv[1] == "write":
        write(text, sys.argv[3])
    else:
        run(text, sys.argv[3:])
