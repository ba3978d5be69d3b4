#!/usr/bin/env python3
"""Proves that headers include what the names in them come from: includes.py ROOT

Installed headers are compiled alone too (CMakeLists.txt). But what is missing may then come from a package's header, or
from another one of the standard library, whose next version may not bring it: so a header that names std::vector must
include <vector>, itself or through headers of ours. Sources are left alone.
"""

import os
import re
import sys

import sources

# The names by which each header of the standard library is missed.
NAMES = {
    "array": ("array",),
    "atomic": ("atomic", "atomic_bool", "memory_order_relaxed"),
    "bit": ("bit_cast", "bit_ceil", "countr_zero", "popcount"),
    "chrono": ("chrono",),
    "compare": ("strong_ordering", "partial_ordering"),
    "concepts": ("same_as", "convertible_to", "derived_from", "invocable", "integral", "floating_point"),
    "condition_variable": ("condition_variable",),
    "cstddef": ("size_t", "byte", "ptrdiff_t", "nullptr_t"),
    "cstdint": ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uintptr_t"),
    "cstring": ("memcpy", "memset", "strlen"),
    "deque": ("deque",),
    "exception": ("exception_ptr", "current_exception"),
    "filesystem": ("filesystem",),
    "functional": ("function", "hash", "less"),
    "future": ("promise",),
    "initializer_list": ("initializer_list",),
    "iosfwd": ("ostream", "istream"),
    "limits": ("numeric_limits",),
    "list": ("list",),
    "map": ("map", "multimap"),
    "memory": ("unique_ptr", "shared_ptr", "weak_ptr", "make_unique", "make_shared", "enable_shared_from_this"),
    "mutex": ("mutex", "lock_guard", "scoped_lock", "unique_lock"),
    "optional": ("optional", "nullopt"),
    "queue": ("priority_queue",),
    "set": ("set", "multiset"),
    "span": ("span",),
    "string": ("string", "to_string"),
    "string_view": ("string_view",),
    "thread": ("thread", "jthread"),
    "tuple": ("tuple", "make_tuple", "tie", "apply"),
    "type_traits": ("decay_t", "is_same_v", "is_void_v", "invoke_result_t", "enable_if_t", "conditional_t",
                    "remove_cvref_t", "is_base_of_v", "is_convertible_v", "true_type", "false_type"),
    "typeindex": ("type_index",),
    "unordered_map": ("unordered_map",),
    "utility": ("move", "forward", "pair", "exchange", "swap", "index_sequence", "declval"),
    "variant": ("variant", "monostate", "visit"),
    "vector": ("vector",),
}
# Headers that bring the names of others, by the standard or in every library in use.
BRINGS = {"string": {"string_view", "initializer_list", "compare"}, "vector": {"initializer_list", "compare"},
          "map": {"initializer_list", "utility", "compare"}, "set": {"initializer_list"}, "span": {"array", "cstddef"},
          "optional": {"utility", "type_traits", "initializer_list", "compare"}, "functional": {"utility", "type_traits"},
          "variant": {"utility", "type_traits"}, "tuple": {"utility", "type_traits"}, "memory": {"utility", "type_traits"},
          "chrono": {"cstdint", "compare", "type_traits"}, "mutex": {"chrono", "utility"}, "thread": {"chrono"},
          "condition_variable": {"mutex", "chrono"}, "future": {"thread", "mutex", "utility"}, "array": {"utility"},
          "concepts": {"type_traits"}, "iostream": {"iosfwd"}, "ostream": {"iosfwd"}, "istream": {"iosfwd"},
          "sstream": {"iosfwd", "string"}, "fstream": {"iosfwd"}, "deque": {"initializer_list"},
          "utility": {"type_traits", "initializer_list"}, "unordered_map": {"utility"}, "string_view": {"cstddef"},
          "queue": {"vector", "deque"}, "filesystem": {"string", "chrono"}}
WHERE = {name: header for header, names in NAMES.items() for name in names}
# The namespaces of packages, and how the paths of headers begin that bring them.
PACKAGES = {"caf": ("caf/",), "google::protobuf": ("google/protobuf/", "gpuactors/v1/")}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
STD = re.compile(r"(?<![\w:])std::(\w+)")


def reached(path, own, included, seen):
    """All that a header includes, itself or through headers of ours."""
    for include in included.get(path, ()):
        if include in seen:
            continue
        seen.add(include)
        if include in own:
            reached(own[include], own, included, seen)
    return seen


def check(texts):
    """Findings in headers, which are given as text by path."""
    own = {path.split("/", 1)[1]: path for path in texts}
    included = {path: INCLUDE.findall(text) for path, text in texts.items()}
    findings = []
    for path, text in texts.items():
        has = reached(path, own, included, set())
        for header in list(has):
            has |= BRINGS.get(header, set())
        code = COMMENT.sub("", text)
        for name in sorted(set(STD.findall(code))):
            if name in WHERE and WHERE[name] not in has:
                findings.append(f"{path}: names std::{name} and does not include <{WHERE[name]}>")
        for package, beginnings in PACKAGES.items():
            named = re.search(rf"(?<![\w:]){package}::\w", code) and f"namespace {package} {{" not in code
            if named and not any(h.startswith(beginnings) for h in has):
                findings.append(f"{path}: names {package} and includes nothing of it")
    return findings


def headers(root):
    for path in sources.files(root):
        if path.endswith(".hpp") and path.split("/")[0] in ("libgpuactors", "kernels") and "/device/cuda/" not in path:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                yield path, file.read()


if __name__ == "__main__":
    sys.exit(sources.report(check(dict(headers(sys.argv[1])))))
