#!/usr/bin/env python3
"""Proves the layer rule of layers.txt over every #include: layers.py ROOT"""

import glob
import os
import re
import sys

import sources

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# The folders that includes are looked up in.
ROOTS = ("libgpuactors", "kernels", "tests", ".")
# Generated from the .proto files of the wire layer.
GENERATED = re.compile(r"gpuactors/v\d+/\w+\.pb\.h")
# The header that includes all others lies here, beside the layers: not a layer that they could be part of.
UMBRELLA = "libgpuactors/gpuactors"
SYSTEM = re.compile(r"[a-z0-9_]+(\.h)?|(sys|net|netinet|arpa|linux)/\w+\.h")


class Rules:
    """layers.txt, read."""

    def __init__(self, text):
        self.layers = {}  # folder -> (row, packages)
        self.packages = {}  # prefix -> package
        self.pure = {}  # folder -> standard headers it does without
        self.public = set()
        self.without = {}  # header -> packages
        for line in text.splitlines():
            kind, *words = line.split("#")[0].split() or [""]
            if kind == "layer":
                self.layers[words[1]] = (int(words[0]), set(words[2:]) - {"-"})
            elif kind == "package":
                self.packages.update({prefix: words[0] for prefix in words[1:]})
            elif kind == "pure":
                self.pure.setdefault(words[0], set()).update(words[1:])
            elif kind == "public":
                self.public.update(words)
            elif kind == "without":
                self.without.setdefault(words[0], set()).update(words[1:])
            elif kind:
                raise ValueError(f"layers.txt: what is {kind}?")

    def layer_of(self, path):
        """The longest folder with a row that holds path, or None."""
        folder = os.path.dirname(path)
        if folder == UMBRELLA:
            return folder
        while folder and folder not in self.layers:
            folder = os.path.dirname(folder)
        return None if folder in ("", UMBRELLA) else folder

    def package_of(self, name):
        for prefix, package in self.packages.items():
            if name.startswith(prefix):
                return package
        return None


def resolve(root, path, quote, name):
    """The project's file that an include names, or None if it is not one of the project's."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if quote == '"' and os.path.exists(os.path.join(root, beside)):
        return beside
    if GENERATED.fullmatch(name):
        return "libgpuactors/gpuactors/wire/" + name
    for folder in ROOTS:
        if os.path.isfile(os.path.join(root, folder, name)):
            return os.path.normpath(f"{folder}/{name}")
    if name.endswith(".pb.h"):
        return None
    return f"libgpuactors/{name}" if name.startswith("gpuactors/") else None


def installed_headers(root):
    """What libgpuactors/public_headers.txt names, and all of ours that it includes."""
    try:
        with open(os.path.join(root, "libgpuactors/public_headers.txt"), encoding="utf-8") as file:
            names = [line.strip() for line in file if line.startswith("gpuactors/")]
    except OSError:
        names = []
    left = [found for name in names for folder in ("libgpuactors", "kernels")
            for found in glob.glob(os.path.join(root, folder, name))]
    left = [os.path.relpath(path, root) for path in left]
    installed = set()
    while left:
        path = left.pop()
        if path in installed:
            continue
        installed.add(path)
        for line in (sources.read(root, path) or "").splitlines():
            match = INCLUDE.match(line)
            target = resolve(root, path, *match.groups()) if match else None
            if target is not None and os.path.isfile(os.path.join(root, target)):
                left.append(target)
    return installed


def is_inner(path):
    """Whether a header lies in a folder below the one of its layer."""
    return not re.fullmatch(r"libgpuactors/gpuactors/(\w+/)?\w+\.hpp|kernels/gpuactors/kernels/\w+\.hpp", path)


def same_layer(a, b):
    """Whether they are one folder, or one lies in the other."""
    if UMBRELLA in (a, b):
        return a == b
    return f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/")


def is_of(rules, target, layer):
    """Whether a layer may see a header in some folder below: of itself, or the folder is a layer of its own."""
    return same_layer(layer, rules.layer_of(target)) or os.path.dirname(target) in rules.layers


def check_include(rules, installed, root, path, quote, name):
    """Why this include breaks the rule, or None."""
    layer = rules.layer_of(path)
    row, packages = rules.layers[layer]
    target = resolve(root, path, quote, name)
    if target is None:
        package = rules.package_of(name)
        if package is not None:
            return None if package in packages else f"{layer} does without {package}"
        if quote == '"' or name.endswith(".pb.h"):
            return None  # a program's own generated header
        if not SYSTEM.fullmatch(name):
            return "is of no package that layers.txt knows"
        return f"{layer} does without it" if name in rules.pure.get(layer, ()) else None
    target_layer = rules.layer_of(target)
    if target_layer is None:
        return "has no row in layers.txt"
    if layer.split("/")[0] == "apps":
        if target in rules.public or target in installed or target.startswith("apps/"):
            return None
        return "is not public"
    target_row = rules.layers[target_layer][0]
    if not same_layer(layer, target_layer) and target_row >= row:
        return f"{layer} is row {row}, {target_layer} is row {target_row}: includes go downward only"
    if is_inner(target) and not target.endswith(".pb.h"):
        if path in installed:
            return "is a layer's own business, and this header is installed"
        if layer.startswith("libgpuactors/") and not is_of(rules, target, layer):
            return f"is the own business of {target_layer}"
    return None


def check_reach(rules, root, header, packages):
    """Why programs that include this header get something of these packages with it, or None."""
    found_in, left = {header: None}, [header] if os.path.isfile(os.path.join(root, header)) else []
    while left:
        path = left.pop()
        for line in (sources.read(root, path) or "").splitlines():
            match = INCLUDE.match(line)
            if not match:
                continue
            target = resolve(root, path, *match.groups())
            if target is None and rules.package_of(match[2]) in packages:
                way = []
                while path is not None:
                    way.insert(0, path)
                    path = found_in[path]
                return f"{' > '.join(way)} includes {match[2]}"
            if target is not None and target not in found_in and os.path.isfile(os.path.join(root, target)):
                found_in[target] = path
                left.append(target)
    return None


def check(root, rules_text):
    rules = Rules(rules_text)
    installed = installed_headers(root)
    findings = []
    for path in sources.code_files(root):
        if rules.layer_of(path) is None:
            findings.append(f"{path}: its folder has no row in layers.txt")
            continue
        for number, line in enumerate((sources.read(root, path) or "").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                why = check_include(rules, installed, root, path, *match.groups())
                if why:
                    findings.append(f"{path}:{number}: {match[2]}: {why}")
    for header, packages in rules.without.items():
        why = check_reach(rules, root, header, packages)
        if why:
            findings.append(f"{header}: {why}")
    return findings


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(__file__), "layers.txt"), encoding="utf-8") as rules_file:
        sys.exit(sources.report(check(sys.argv[1], rules_file.read())))
