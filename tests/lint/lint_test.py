"""Tests of the lint tests: each rule finds its planted violation and nothing else."""

import os
import tempfile
import unittest

import header_chains
import includes
import layers
import layout
import links
import text

BASE = "libgpuactors/gpuactors/base/a.hpp"
LEDGER = "libgpuactors/gpuactors/ledger/b.hpp"
WIRE = "libgpuactors/gpuactors/wire/c.hpp"
DEVICE = "libgpuactors/gpuactors/device/d.hpp"
HOST = "libgpuactors/gpuactors/device/host/e.hpp"
CUDA = "libgpuactors/gpuactors/device/cuda/f.cpp"
ACTOR = "libgpuactors/gpuactors/actor/g.hpp"
BROKER = "libgpuactors/gpuactors/broker/h.hpp"
APP = "apps/tour/i.cpp"


def read_beside(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


class IncludeRule(unittest.TestCase):
    def findings(self, text, other=""):
        return includes.check({BASE: text, LEDGER: other})

    def test_what_is_included_is_clean(self):
        for text in ("#include <vector>\nstd::vector<int> x;", "#include <string>\nstd::string_view x;",
                     "#include <caf/fwd.hpp>\ncaf::actor* x;", "namespace caf {\nclass actor;\n}\ncaf::actor* x;",
                     "#include <gpuactors/v1/actor.pb.h>\ngoogle::protobuf::Message* x;", "my::std::vector x;",
                     "// std::vector is not here.\n", 'auto x = "std::vector";', "/* caf::actor */"):
            self.assertEqual(self.findings(text), [], text)

    def test_headers_of_ours_bring_what_they_include(self):
        brought = "#include <gpuactors/ledger/b.hpp>\nstd::vector<int> x;"
        self.assertEqual(self.findings(brought, "#include <vector>\n"), [])
        self.assertEqual(len(self.findings(brought, "#include <map>\n")), 1)

    def test_what_is_missing_is_found(self):
        for text in ("std::vector<int> x;", "#include <map>\nstd::unordered_map<int, int> x;", "caf::actor* x;",
                     "#include <caf/fwd.hpp>\ngoogle::protobuf::Message* x;", "#include <functional>\nstd::tuple<> x;",
                     "namespace caf::detail {}\ncaf::actor* x;"):
            self.assertEqual(len(self.findings(text)), 1, text)


class HeaderChains(unittest.TestCase):
    def test_a_chain_is_of_headers_that_include_each_other(self):
        included = {"a": {"b", "c", "d"}, "b": {"d"}, "c": {"d"}, "d": set(), "e": {"d"}, "f": set()}
        chains = header_chains.chains_of(included)
        self.assertEqual(sorted(header for chain in chains for header in chain), sorted(included))
        for chain in chains:
            for first, second in zip(chain, chain[1:]):
                self.assertIn(first, included[second])
        self.assertEqual(len(chains), 4)  # none of b, c, e and f includes another

    def test_includes_are_followed_through_headers_that_are_not_asked_for(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in (("a.hpp", "#include <b.hpp>\n"), ("b.hpp", "#include <vector>\n# include \"c.hpp\"\n"),
                               ("c.hpp", "")):
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(header_chains.includes_of(["a.hpp", "c.hpp"], [root]), {"a.hpp": {"c.hpp"}, "c.hpp": set()})


class LayerRule(unittest.TestCase):
    def findings(self, path, include):
        """What the rule says of one include in one file, beside a tree of legal files."""
        with tempfile.TemporaryDirectory() as root:
            for name in (BASE, LEDGER, WIRE, DEVICE, HOST, CUDA, ACTOR, BROKER, APP, path):
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(f"#include {include}\n" if name == path else "")
            with open(os.path.join(root, "libgpuactors/public_headers.txt"), "w", encoding="utf-8") as file:
                file.write("# What it is.\ngpuactors/actor/g.hpp\ngpuactors/device/*.hpp\n")
            return layers.check(root, read_beside("layers.txt"))

    def test_what_goes_downward_is_clean(self):
        for path, include in ((LEDGER, "<gpuactors/base/a.hpp>"), (ACTOR, "<gpuactors/wire/c.hpp>"),
                              (CUDA, "<gpuactors/device/d.hpp>"), (CUDA, "<cuda.h>"), (WIRE, "<caf/all.hpp>"),
                              (WIRE, "<gpuactors/v1/control.pb.h>"), (APP, "<gpuactors/actor/g.hpp>"),
                              (BASE, "<string>"), (HOST, '"e.hpp"'), (HOST, "<gpuactors/device/d.hpp>")):
            self.assertEqual(self.findings(path, include), [], (path, include))

    def test_what_does_not_is_found(self):
        for path, include in ((BASE, "<gpuactors/ledger/b.hpp>"),  # upward
                              (LEDGER, "<gpuactors/device/d.hpp>"),  # sideways
                              (WIRE, "<gpuactors/device/d.hpp>"),
                              (ACTOR, "<gpuactors/broker/h.hpp>"),
                              (ACTOR, '"../broker/h.hpp"'),
                              (DEVICE, "<gpuactors/device/host/e.hpp>"),  # installed needs a layer's own
                              (BASE, "<caf/all.hpp>"), (LEDGER, "<caf/error.hpp>"), (DEVICE, "<cuda_runtime.h>"),
                              (BROKER, "<google/protobuf/message.h>"), (HOST, "<cuda.h>"),
                              (LEDGER, "<thread>"), (LEDGER, "<unordered_map>"),
                              (APP, "<gpuactors/broker/h.hpp>"), (APP, "<gpuactors/device/host/e.hpp>"),
                              (APP, "<gpuactors/wire/c.hpp>"),  # not installed
                              (ACTOR.replace(".hpp", ".cpp"), "<gpuactors/device/host/e.hpp>"),  # another's own
                              (BASE, "<qt/widget.hpp>"),  # unknown package
                              ("libgpuactors/gpuactors/extra/x.hpp", "<string>")):  # unknown layer
            self.assertEqual(len(self.findings(path, include)), 1, (path, include))


    def test_what_a_header_must_not_bring_is_found_however_far_away(self):
        headers = {"libgpuactors/gpuactors/gpuactors.hpp": "#include <gpuactors/cluster/a.hpp>\n",
                   "libgpuactors/gpuactors/cluster/a.hpp": "#include <gpuactors/wire/c.hpp>\n",
                   WIRE: "#include <gpuactors/v1/control.pb.h>\n#include <caf/all.hpp>\n"}
        with tempfile.TemporaryDirectory() as root:
            for name, content in headers.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(content)
            found = layers.check(root, read_beside("layers.txt"))
        self.assertEqual(len(found), 1, found)
        self.assertIn("cluster/a.hpp > libgpuactors/gpuactors/wire/c.hpp includes caf/all.hpp", found[0])


class TextRules(unittest.TestCase):
    def rules(self, path, content):
        return [rule for rule, _, _ in text.check_text(path, content)]

    def test_clean_files_are_clean(self):
        self.assertEqual(self.rules("tests/a.hpp", "// What it is.\n#pragma once\n"), [])
        self.assertEqual(self.rules("apps/run.sh", "#!/usr/bin/env bash\n# What it is.\nsleep 1\n"), [])
        self.assertEqual(self.rules("tests/a.cpp", 'submit("sleep", {1.0});\n'), [])

    def test_each_rule_finds_its_violation(self):
        for rule, path, content in (("newline", "a.md", "x"),
                                    ("tab", "a.md", "\tx\n"),
                                    ("blank-end", "a.md", "x \n"),
                                    ("leftover", "a.cpp", "// TODO: more\n"),
                                    ("conflict", "a.md", "<" * 7 + " main\n"),
                                    ("conflict", "a.md", "=" * 7 + "\n"),
                                    ("machine-path", "a.md", "see /home/me/x\n"),
                                    ("sleep", "tests/a.cpp", "std::this_thread::sleep_for(1s);\n"),
                                    ("sleep", "tests/a.py", "# What it is.\ntime.sleep(1)\n"),
                                    ("stream-buffer", "apps/a.cpp", "std::istreambuf_iterator<char>{file}\n"),
                                    ("line-length", "a.cpp", "x" * 121 + "\n"),
                                    ("file-length", "a.cpp", "x\n" * 601),
                                    ("purpose", "a.cu", "int x;\n"),
                                    ("pragma-once", "a.hpp", "// What it is.\n")):
            self.assertEqual(self.rules(path, content), [rule], (path, content))

    def test_an_exception_that_nothing_needs_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(len(text.check(root, "tab a.md no reason\n")), 1)


class Layout(unittest.TestCase):
    GOOD = sorted(layout.FILES | {name + "/x" for name in layout.FOLDERS} | {".gitignore", ".ci/run"})

    def test_the_layout_is_clean(self):
        self.assertEqual(layout.check(self.GOOD), [])

    def test_what_is_missing_or_too_much_is_found(self):
        self.assertEqual(len(layout.check(self.GOOD + ["scripts/x.sh"])), 1)
        self.assertEqual(len(layout.check(self.GOOD + ["notes.txt"])), 1)
        self.assertEqual(len(layout.check([path for path in self.GOOD if path != "LICENSE"])), 1)


class Links(unittest.TestCase):
    PATHS = ["README.md", "docs/a.md", "docs/b/c.md"]

    def findings(self, content, target="# One heading\n"):
        return links.check({"docs/a.md": content, "docs/b/c.md": target}, self.PATHS)

    def test_links_that_lead_somewhere_are_clean(self):
        self.assertEqual(self.findings("[up](../README.md) [down](b/c.md#one-heading) [dir](b) [b](b/)\n"), [])
        self.assertEqual(self.findings("# Here `it` is\n[self](#here-it-is) [far](https://example.org/x)\n"), [])
        self.assertEqual(self.findings("```\n[code](nowhere.md)\n```\n"), [])

    def test_links_that_lead_nowhere_are_found(self):
        for target in ("b/d.md", "c.md", "b/c.md#another", "#none"):
            self.assertEqual(len(self.findings(f"see [this]({target})\n")), 1, target)


if __name__ == "__main__":
    unittest.main()
