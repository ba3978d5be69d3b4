#!/usr/bin/env python3
"""Epochs of a training through an actor and by PyTorch on the CPU, in turns: versus.py --bench GPUACTORS-BENCH

The network, the batches and the optimizer are those of the row train_digits_epoch_host of gpuactors-bench: 1437 rows of
64 numbers, layers 64-128-10, relu, cross-entropy, batches of 64 in a new order each epoch, SGD with momentum.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

ROWS, INPUTS, HIDDEN, OUTPUTS, BATCH = 1437, 64, 128, 10, 64
EPOCHS = 60
ROW = "train_digits_epoch_host"


def torch_epoch(threads):
    """Milliseconds of one, the mean of many in a row. Nothing is done for each step that learning does not need."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    x = torch.randint(0, 17, (ROWS, INPUTS)).float()
    labels = torch.arange(ROWS) % OUTPUTS
    network = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUTPUTS))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    x = x * 0.0625

    def epoch():
        for rows in torch.randperm(ROWS).split(BATCH):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(x[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        return loss

    for _ in range(5):
        epoch()
    begin = time.perf_counter()
    for _ in range(EPOCHS):
        loss = epoch()
    taken = time.perf_counter() - begin
    assert torch.isfinite(loss)
    return 1e3 * taken / EPOCHS


def our_epoch(bench):
    """What gpuactors-bench says of it, on a share of one thread."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        subprocess.run([bench, "--filter", ROW, "--repeat", "3", "--json", file], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        with open(file, encoding="utf-8") as rows:
            return json.load(rows)["rows"][0]["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True, help="gpuactors-bench")
    parser.add_argument("--turns", type=int, default=5, help="so often each (5)")
    arguments = parser.parse_args()
    threads = torch.get_num_threads()
    ways = {"gpuactors, 1 thread": lambda: our_epoch(arguments.bench), "PyTorch, 1 thread": lambda: torch_epoch(1)}
    if threads > 1:
        ways[f"PyTorch, {threads} threads"] = lambda: torch_epoch(threads)
    times = {name: [] for name in ways}
    for _ in range(arguments.turns):
        for name, measure in ways.items():
            times[name].append(measure())
    ours, *theirs = (statistics.median(values) for values in times.values())
    print(f"PyTorch {torch.__version__}, {os.cpu_count()} processors, {arguments.turns} turns; milliseconds of an epoch")
    for name, values in times.items():
        print(f"{name:<24} {statistics.median(values):8.2f}  ({min(values):.2f}..{max(values):.2f})")
    ratio = min(theirs) / ours
    print(f"gpuactors is {ratio:.1f} times as fast as the faster of PyTorch's: {'holds' if ratio >= 1 else 'MISSED'} (>= 1)")
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
