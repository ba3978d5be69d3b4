#!/usr/bin/env python3
"""The guide as a test: what its pages tell a newcomer to write compiles and prints what they say.

guide.py write FOLDER PAGE...    writes the files that the pages show, and pieces.cmake for those beside the program
guide.py run PAGE PROGRAM ARG... runs the program and compares its output with the page's
"""

import os
import re
import subprocess
import sys

FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.S)
OUTPUT = re.compile(r"<!-- output -->\n```\n(.*?)```\n", re.S)


def write(folder, pages):
    files = dict(found for page in pages for found in FILE.findall(read(page)))
    pieces = [name for name in files if name.startswith("pieces/")]
    added = [name for name in files if name.endswith(".cmake")]
    # Included by the guide's own project(); takes effect when its CMakeLists.txt is done.
    files["pieces.cmake"] = (f"cmake_language(DEFER CALL target_sources first PRIVATE {' '.join(pieces)})\n"
                             "cmake_language(DEFER CALL target_include_directories first PRIVATE .)\n"
                             # In one compilation, because each would read the library's headers once more.
                             f"set_source_files_properties({' '.join(pieces)} PROPERTIES UNITY_GROUP pieces)\n"
                             "cmake_language(DEFER CALL set_target_properties first PROPERTIES UNITY_BUILD ON "
                             "UNITY_BUILD_MODE GROUP)\n"
                             + "".join(f"cmake_language(DEFER CALL include {name})\n" for name in added))
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def read(page):
    with open(page, encoding="utf-8") as source:
        return source.read()


def run(page, command):
    expected = re.sub(r"\n +", " ", OUTPUT.search(read(page)).group(1)) # long lines are broken and indented
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=120)
    printed = done.stdout.decode()
    if done.returncode != 0 or printed != expected:
        sys.exit(f"the guide says\n{expected}\nbut the program prints\n{printed}")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3:])
    else:
        run(sys.argv[2], sys.argv[3:])
