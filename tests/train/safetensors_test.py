#!/usr/bin/env python3
"""Reads a checkpoint with the real packages safetensors, numpy and, where it is, PyTorch, and computes the same accuracy
from it: safetensors_test.py GPUACTORS_TRAIN FOLDER

FOLDER is where a virtual environment with safetensors and numpy is kept; it is made on first use. Exits with 77, and
the reason, where that is not possible. For PyTorch, install it there.
"""

import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[2], "safetensors", "numpy")

import numpy  # noqa: E402
import safetensors  # noqa: E402
import safetensors.numpy  # noqa: E402

try:
    import torch
    import safetensors.torch
except ImportError:
    torch = None

INPUTS, HIDDEN, CLASSES = 7, 16, 3


def make_rows(count):
    """Points around three centres, near enough that not all are told apart."""
    draw = random.Random(2)
    centres = [[draw.uniform(0, 8) for _ in range(INPUTS)] for _ in range(CLASSES)]
    return [[round(centre + draw.gauss(0, 3), 3) for centre in centres[row % CLASSES]] + [row % CLASSES]
            for row in range(count)]


def train(program, folder):
    rows = make_rows(300)
    with open(os.path.join(folder, "data.csv"), "w", encoding="utf-8") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)
    command = [program, "--devices", "host:1x256MiB", "--data", "data.csv", "--layers", f"{INPUTS},{HIDDEN},{CLASSES}",
               "--epochs", "5", "--splits", "1", "--test-part", "0.2", "--checkpoint", "net"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    loss = float(re.search(r"loss ([\d.]+)", done.stdout)[1])
    return numpy.array(rows), loss


def mean_loss(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return float((numpy.log(numpy.exp(shifted).sum(axis=1)) - shifted[numpy.arange(len(labels)), labels]).mean())


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        rows, last_loss = train(program, folder)
        path = os.path.join(folder, "net")
        with safetensors.safe_open(path, "np") as file:
            metadata = file.metadata()
            names = set(file.keys())
        layers = {f"layers.{layer}.{kind}" for layer in (0, 1) for kind in ("weight", "bias")}
        assert names == layers | {f"optimizer.momentum.{name}" for name in layers}, names
        assert metadata["gpuactors.format"] == "network 1" and metadata["gpuactors.activation"] == "relu"
        assert metadata["gpuactors.step"] == "20" and metadata["gpuactors.seed"] == "1", metadata
        arrays = safetensors.numpy.load_file(path)
        assert arrays["layers.0.weight"].shape == (HIDDEN, INPUTS) and arrays["layers.1.bias"].shape == (CLASSES,)
        x = rows[:, :INPUTS].astype(numpy.float32) * numpy.float32(metadata["gpuactors.input_scale"])
        hidden = numpy.maximum(x @ arrays["layers.0.weight"].T + arrays["layers.0.bias"], 0)
        logits = hidden @ arrays["layers.1.weight"].T + arrays["layers.1.bias"]
        loss = mean_loss(logits, rows[:, INPUTS].astype(int))
        # The loss over all rows after the last step, beside the mean of the last epoch before its steps.
        assert 0.5 * last_loss < loss < 1.1 * last_loss, (loss, last_loss)
        if torch is None:
            print("read by safetensors and numpy; PyTorch is not installed")
            return
        state = safetensors.torch.load_file(path)
        network = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(),
                                      torch.nn.Linear(HIDDEN, CLASSES))
        network.load_state_dict({f"{2 * layer}.{kind}": state[f"layers.{layer}.{kind}"]
                                 for layer in (0, 1) for kind in ("weight", "bias")})
        with torch.no_grad():
            found = network(torch.from_numpy(x)).numpy()
        assert numpy.abs(found - logits).max() < 1e-5
        print("read by safetensors, numpy and PyTorch")


if __name__ == "__main__":
    main()
