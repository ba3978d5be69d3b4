#!/usr/bin/env python3
"""Tasks that are source, from the command line, on a cluster of processes: source_test.py GPUACTORS

The driver is the tests' own, which LD_LIBRARY_PATH leads to; the compiler is real. Without one nothing is tested.
"""

import json
import os
import sys

import up

SKIPPED = 77
KERNEL = """
extern "C" __global__ void square_plus(const float* x, float* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] + 2 * x[i] + 1;
}
"""
TASK = {
    "source": KERNEL,
    "kernel": "square_plus",
    "options": ["--use_fast_math"],
    "block": {"x": 64},
    "arguments": [{"in": {"dtype": "F32", "shape": [3], "values": [0, 1, -2]}},
                  {"out": {"dtype": "F32", "shape": [3]}}, {"scalar": {"u32": 3}}],
    "returnValues": True,
}


def same(value, expected):
    assert value == expected, f"{value!r} came, {expected!r} was expected"


def submit(client, gpuactors, task):
    return client(gpuactors, "submit", "gpuactors.source_kernel", "--gpus", "0.5", "-", stdin=json.dumps(task))


def refused(done, *words):
    assert done.returncode == 2 and not done.stdout, done
    for text in words:
        assert text in done.stderr, f"{text!r} was expected in {done.stderr!r}"


def runs_source(gpuactors):
    with up.up(gpuactors, "--devices", "cuda", GPUACTORS_KERNEL_CACHE="") as client:
        done = submit(client, gpuactors, TASK)
        if "kernels cannot be compiled at run time" in done.stderr:
            return False
        assert done.returncode == 0, done
        result = json.loads(done.stdout)
        same(result["outputs"], [{"dtype": "F32", "shape": ["3"], "values": [1, 4, 1]}])
        same(result["kind"], "cuda")
        refused(submit(client, gpuactors, {**TASK, "source": KERNEL.replace("unsigned i", "unsigned j")}),
                "does not compile: kernel.cu(4): error", "\"i\" is undefined")
        refused(submit(client, gpuactors, {**TASK, "kernel": ""}), "kernel is empty")
        refused(submit(client, gpuactors, {**TASK, "arguments": TASK["arguments"][:2]}),
                "kernel square_plus declares 3 arguments of [8, 8, 4] B and was given 2 of [8, 8] B")
        types = json.loads(client(gpuactors, "types", "--json").stdout)
        assert any(entry["name"] == "gpuactors.source_kernel" for entry in types), types
    return True


def refuses_source(gpuactors):
    with up.up(gpuactors, "--devices", "cuda", "--no-jit", GPUACTORS_KERNEL_CACHE="") as client:
        done = submit(client, gpuactors, TASK)
        assert done.returncode != 0, done
        same(done.stderr, "gpuactors submit: kernel square_plus is not compiled: this node takes no source (--no-jit)\n")


def main(gpuactors):
    os.environ.pop("GPUACTORS_JIT", None)
    refuses_source(gpuactors)
    return 0 if runs_source(gpuactors) else SKIPPED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
