#!/usr/bin/env python3
"""Proves rules that hold for the text of every file: text.py ROOT

allow.txt lists the exceptions, one "RULE FILE reason" a line.
"""

import os
import re
import sys

import sources

COMMENT = {".hpp": "//", ".cuh": "//", ".h": "//", ".cu": "//", ".cmake": "#", ".sh": "#", ".py": ("#", '"""')}
LINE_LENGTH = 120  # without string literals: what a program must print or read stays in one piece
STRING = re.compile(r'"([^"\\]|\\.)*"')
FILE_LENGTH = 600

# rule: (pattern, files it holds for, what would be right)
PATTERNS = {
    "tab": (re.compile(r"\t"), r".*", "indent with spaces"),
    "blank-end": (re.compile(r"[ \r]$"), r".*", "no blanks at the end of a line"),
    "leftover": (re.compile(r"\b(TODO|FIXME|XXX)\b"), r".*", "do it, or say in docs/limitations.md that it is not"),
    "conflict": (re.compile(r"^(<{7}|={7}|>{7}|\|{7})( |$)"), r".*", "a merge was not finished"),
    "machine-path": (re.compile(r"(?<![\w.}])/(home|root|work|tmp|Users)/"), r".*", "a path of one machine"),
    "sleep": (re.compile(r"\bsleep_(for|until)\b|\b(u|nano)?sleep\("), r"tests/.*\.(cpp|hpp|cu|py)",
              "wait for a condition, never for a time"),
    "stream-buffer": (re.compile(r"\bistreambuf_iterator\b"), r"(libgpuactors|apps)/.*\.(cpp|hpp|cu)",
                      "throws where the system refuses to read: detail::read_to_end, nn::read_text or std::getline"),
}


def check_text(path, text):
    """Yields (rule, line number, message)."""
    suffix = os.path.splitext(path)[1]
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        yield "newline", len(lines), "the last line does not end"
    for rule, (pattern, where, message) in PATTERNS.items():
        if re.fullmatch(where, path):
            for number, line in enumerate(lines, 1):
                if pattern.search(line):
                    yield rule, number, message
    if suffix not in (".md", ".json", ""):
        for number, line in enumerate(lines, 1):
            if len(STRING.sub("", line)) > LINE_LENGTH:
                yield "line-length", number, f"more than {LINE_LENGTH} characters"
    if suffix in sources.CODE + (".py", ".sh", ".cmake") and len(lines) > FILE_LENGTH:
        yield "file-length", len(lines), f"more than {FILE_LENGTH} lines: divide it"
    if suffix in COMMENT:
        first = lines[1] if lines and lines[0].startswith("#!") and len(lines) > 1 else (lines or [""])[0]
        if not first.startswith(COMMENT[suffix]):
            yield "purpose", 1, "does not start with a comment that says what it is for"
    if suffix in (".hpp", ".cuh", ".h") and "#pragma once" not in lines:
        yield "pragma-once", 1, "has no #pragma once"


def check(root, allow_text):
    allowed = {tuple(line.split()[:2]) for line in allow_text.splitlines() if line and not line.startswith("#")}
    unused = set(allowed)
    findings = []
    for path in sources.files(root):
        text = sources.read(root, path)
        for rule, number, message in check_text(path, text) if text is not None else ():
            unused.discard((rule, path))
            if (rule, path) not in allowed:
                findings.append(f"{path}:{number}: {rule}: {message}")
    return findings + [f"allow.txt: nothing to allow any more: {' '.join(entry)}" for entry in sorted(unused)]


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(__file__), "allow.txt"), encoding="utf-8") as allow_file:
        sys.exit(sources.report(check(sys.argv[1], allow_file.read())))
