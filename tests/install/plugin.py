#!/usr/bin/env python3
"""Runs the installed program with a plugin that was built with the installed library: plugin.py GPUACTORS PLUGIN"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import up  # pylint: disable=wrong-import-position


def main(gpuactors, plugin):
    with up.up(gpuactors, "--devices", "host:1x1GiB", "--insecure", "--plugin", plugin) as client:
        done = client(gpuactors, "submit", "consumer.double", '{"value":2}', "--insecure")
    if (done.returncode, done.stdout) == (0, '{"value":4}\n'):
        return 0
    print(done)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
