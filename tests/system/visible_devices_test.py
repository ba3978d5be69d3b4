#!/usr/bin/env python3
"""CUDA_VISIBLE_DEVICES=1,3 at the start of a node on a machine with four devices: visible_devices_test.py GPUACTORS

The driver is the tests' own, which LD_LIBRARY_PATH leads to.
"""

import json
import sys

import up

UUIDS = [f"GPU-0{number}112233-4455-6677-8899-aabbccddeeff" for number in (1, 3)]


def same(value, expected):
    assert value == expected, f"{value!r} came, {expected!r} was expected"


def answer(done):
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def main(gpuactors):
    with up.up(gpuactors, "--devices", "cuda", FAKE_CUDA_DEVICES="4", CUDA_VISIBLE_DEVICES="1,3") as client:
        devices = answer(client(gpuactors, "devices", "--json"))
        same([(device["kind"], device["index"], device["uuid"]) for device in devices],
             [("cuda", 1, UUIDS[0]), ("cuda", 3, UUIDS[1])])
        place = answer(client(gpuactors, "submit", "gpu_ids", "--gpus", "2"))
        same([device["index"] for device in place["devices"]], [1, 3])
        same(place["environment"]["CUDA_VISIBLE_DEVICES"], ",".join(UUIDS))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
