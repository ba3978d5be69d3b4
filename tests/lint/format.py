#!/usr/bin/env python3
"""Proves that clang-format would change nothing: format.py ROOT, or changes it: format.py ROOT --fix

Version 14 (Debian 12, Ubuntu 22.04 and 24.04) decides: every version formats a little differently.
"""

import os
import re
import shutil
import subprocess
import sys

import sources

VERSION = "14"
SKIPPED = 77


def clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            shown = subprocess.run([name, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
            if re.search(rf"version {VERSION}\.", shown):
                return name
    return None


def main(root, fix):
    program = clang_format()
    if program is None:
        print(f"skipped: there is no clang-format {VERSION} (apt-get install clang-format-{VERSION})")
        return SKIPPED
    files = [os.path.join(root, path) for path in sources.code_files(root)]
    mode = ["-i"] if fix else ["--dry-run", "-Werror", "--ferror-limit=1"]
    return subprocess.run([program, *mode, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--fix" in sys.argv[2:]))
