#!/usr/bin/env python3
"""Proves that links inside the documentation lead somewhere: links.py ROOT

Looks at every Markdown file: relative links must name a file or folder of the project, and a fragment a heading of it.
Links to other sites are not followed.
"""

import os
import re
import sys

import sources

LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~)")
HEADING = re.compile(r"^#+ +(.*?) *#*$")


def prose(text):
    """(line number, line) for all lines outside of code blocks."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(text):
    """The fragments that a Markdown file's headings make."""
    result = set()
    for _, line in prose(text):
        if heading := HEADING.match(line):
            words = re.sub(r"[^\w\- ]", "", heading.group(1).lower())
            result.add(words.replace(" ", "-"))
    return result


def check(texts, paths):
    """Findings over `texts`, a path -> text of the Markdown files, in a project that has the files `paths`."""
    there = set(paths)
    for path in paths:
        while path := os.path.dirname(path):
            there.add(path)
    findings = []
    for path, text in sorted(texts.items()):
        for number, line in prose(text):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, fragment = target.partition("#")
                full = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                if full not in there:
                    findings.append(f"{path}:{number}: links: there is no {target}")
                elif fragment and full in texts and fragment not in anchors(texts[full]):
                    findings.append(f"{path}:{number}: links: {full} has no heading #{fragment}")
    return findings


if __name__ == "__main__":
    project = sys.argv[1]
    everything = sources.files(project)
    markdown = {path: sources.read(project, path) or "" for path in everything if path.endswith(".md")}
    sys.exit(sources.report(check(markdown, everything)))
