#!/usr/bin/env python3
"""Proves that the top level holds what docs/ARCHITECTURE.md says and nothing else: layout.py ROOT"""

import sys

import sources

FILES = {"CMakeLists.txt", "README.md", "LICENSE", "CMakePresets.json"}
FOLDERS = {"libgpuactors", "apps", "kernels", "tests", "docs"}


def check(paths):
    findings = [f"{name}: missing" for name in sorted(FILES - set(paths))]
    tops = {path.split("/")[0] for path in paths if "/" in path}
    findings += [f"{name}/: missing" for name in sorted(FOLDERS - tops)]
    for path in paths:
        top, *rest = path.split("/")
        if not top.startswith(".") and top not in (FOLDERS if rest else FILES):
            findings.append(f"{path}: does not belong at the top level")
    return findings


if __name__ == "__main__":
    sys.exit(sources.report(check(sources.files(sys.argv[1]))))
