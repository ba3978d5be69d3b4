#!/usr/bin/env python3
"""Writes sources that prove that headers compile alone: header_chains.py OUT ROOT... < HEADERS

A header that compiles behind one that it includes itself also compiles alone. So a source includes a whole chain, each
header before the one that includes it, and there are as few chains as can be. Each chain is included twice. Reads the
headers, relative to a ROOT, one on a line; prints the path of each source.
"""

import functools
import os
import re
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def includes_of(headers, roots):
    """For each header, those of ours that it includes, itself or through others."""

    @functools.lru_cache(maxsize=None)
    def included(header):
        path = next((path for path in (os.path.join(root, header) for root in roots) if os.path.exists(path)), None)
        if path is None:
            return frozenset()
        with open(path, encoding="utf-8") as file:
            direct = INCLUDE.findall(file.read())
        return frozenset(direct).union(*(included(other) for other in direct))

    return {header: included(header) & set(headers) for header in headers}


def chains_of(included):
    """Lists of headers, each of which is included by the one after it: the fewest that hold all headers.

    A header has at most one before it: a largest matching of headers with what they include, by augmenting paths.
    """
    after = {}

    def match(header, tried):
        for other in sorted(included[header], key=lambda name: (-len(included[name]), name)):
            if other in tried:
                continue
            tried.add(other)
            if other not in after or match(after[other], tried):
                after[other] = header
                return True
        return False

    for header in sorted(included, key=lambda name: (len(included[name]), name)):
        match(header, set())
    chains = []
    for header in sorted(set(included) - set(after.values())):
        chain = [header]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        chains.append(chain)
    return chains


def source_of(chain):
    return 2 * "".join(f"#include <{header}>\n" for header in chain)


def write(path, text):
    """Only what changes, so that nothing else is compiled again."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    out, *roots = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    headers = sys.stdin.read().split()
    for chain in chains_of(includes_of(headers, roots)):
        path = os.path.join(out, chain[-1].replace("/", "-") + ".cpp")
        write(path, source_of(chain))
        print(path)


if __name__ == "__main__":
    main()
