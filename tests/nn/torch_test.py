#!/usr/bin/env python3
"""Makes the steps of T3, T16 and T17 with PyTorch and holds every loss against ours: torch_test.py NN_LOSSES"""

import json
import subprocess
import sys

SKIPPED = 77
try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing} (pip install torch)")
    sys.exit(SKIPPED)

# Steps that are compared, and the largest relative difference of two losses.
BOUNDS = {"f32": (torch.float32, 100, 1e-5), "f64": (torch.float64, 1000, 1e-9)}


def train(program, dtype, steps):
    inputs, outputs = program["inputs"], program["outputs"]
    layer = torch.nn.Linear(inputs, outputs, dtype=dtype)
    parameters = torch.tensor(program["parameters"], dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(parameters[:inputs * outputs].reshape(outputs, inputs))
        layer.bias.copy_(parameters[inputs * outputs:])
    x = torch.tensor(program["x"], dtype=dtype).reshape(-1, inputs)
    targets = torch.tensor(program["targets"], dtype=dtype).reshape(-1, outputs)
    kind = torch.optim.Adam if program["optimizer"] == "adam" else torch.optim.SGD
    optimizer = kind(layer.parameters(), lr=program["rate"])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(layer(x), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    programs = json.loads(subprocess.run([sys.argv[1]], capture_output=True, check=True, text=True, timeout=60).stdout)
    good = True
    for program in programs:
        for name, (dtype, most, bound) in BOUNDS.items():
            ours = program[name][:most]
            theirs = train(program, dtype, len(ours))
            worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
            good = good and worst <= bound and len(ours) >= 10
            print(f"{program['id']} {program['inputs']} -> {program['outputs']}, {name}, {len(ours)} steps: {worst:.2e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
