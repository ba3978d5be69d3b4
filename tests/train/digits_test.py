#!/usr/bin/env python3
"""Trains on hand-written digits, as the guide shows it: digits_test.py GPUACTORS_TRAIN"""

import os
import re
import subprocess
import sys
import tempfile

from digits import digits

LEAST_ACCURACY = 0.97


def main():
    with tempfile.TemporaryDirectory() as folder:
        digits(folder)
        command = [os.path.abspath(sys.argv[1]), "--devices", "host:1x256MiB", "--data", "digits.csv.gz", "--layers",
                   "64,128,10", "--epochs", "30", "--gpus", "0.5", "--checkpoint", "digits.safetensors"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        print(done.stdout + done.stderr)
        assert done.returncode == 0
        assert "1797 rows of 64 numbers, 10 classes" in done.stdout
        accuracy = re.search(r"test accuracy: ([\d.]+) \(mean of 5 splits", done.stdout)
        assert float(accuracy[1]) >= LEAST_ACCURACY


if __name__ == "__main__":
    main()
