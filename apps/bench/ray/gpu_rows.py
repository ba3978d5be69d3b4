"""Runs on Ray what gpuactors-bench --filter gpu_ runs here, by the same names, for gpuactors-bench --peers.

gpu_rows.py [--device cuda|cpu] [--repeat N] [--json FILE]

On a GPU the work is of PyTorch; with --device cpu of NumPy, to try the program where there is no GPU. Tensors go
from actor to actor through the object store of Ray, which is what programs get that ask for nothing else. Prints or
writes {"peer": "Ray VERSION", "device": "cuda"|"host", "rows": [{"name", "value", "unit"}]}: medians of milliseconds.
Shows Ray the first GPU that is visible and no other: the same that ours is measured on.
"""

import argparse
import os
import statistics
import sys
import time

os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import peer  # noqa: E402
import ray  # noqa: E402

SIZE = 256
ELEMENTS = 16 << 20  # 64 MiB of float32
HELD_BYTES = 256 << 20
SHARE = 0.4
LITTLE_BYTES = 8 << 20
LONGEST_MS = 60_000


def show_one_gpu():
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]


class Cuda:
    """Work on the GPU that Ray shows to the process."""

    def __init__(self):
        import torch
        self.torch = torch

    def product(self):
        ones = self.torch.ones((SIZE, SIZE), device="cuda")
        values = (ones @ ones).cpu()
        assert values[-1, -1] == SIZE

    def tensor(self, mark):
        return self.torch.full((ELEMENTS,), float(mark), device="cuda")

    def last(self, tensor):
        return tensor.cuda()[-1].item()

    def hold(self, count):
        held = self.torch.ones(count, dtype=self.torch.uint8, device="cuda")
        self.torch.cuda.synchronize()
        return held

    def free_bytes(self):
        return self.torch.cuda.mem_get_info()[0]


class Cpu:
    """The same with NumPy."""

    def __init__(self):
        import numpy
        self.numpy = numpy

    def product(self):
        ones = self.numpy.ones((SIZE, SIZE), dtype=self.numpy.float32)
        assert (ones @ ones)[-1, -1] == SIZE

    def tensor(self, mark):
        return self.numpy.full(ELEMENTS, mark, dtype=self.numpy.float32)

    def last(self, tensor):
        return float(tensor[-1])

    def hold(self, count):
        return self.numpy.ones(count, dtype=self.numpy.uint8)

    def free_bytes(self):
        return 0


def work(device):
    return Cuda() if device == "cuda" else Cpu()


@ray.remote(num_gpus=SHARE)
class Holder:
    """What bench.share of gpuactors-bench is."""

    def __init__(self, device):
        self.work = work(device)
        self.held = None

    def product(self):
        self.work.product()

    def offer(self, mark):
        return self.work.tensor(mark)

    def take(self, tensor):
        return self.work.last(tensor)

    def hold(self, count):
        self.held = self.work.hold(count)


def product(device):
    work(device).product()


def milliseconds(step):
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def warm_task(once, count=300):
    """The mean of many, after a tenth as many that do not count: as gpuactors-bench has it."""
    for _ in range(count // 10 + 1):
        once()
    return milliseconds(lambda: [once() for _ in range(count)]) / count


def kill_to_free(device, outside):
    """Free is the memory when the device has it back but for a little, and Ray has all of its GPUs in its books."""
    before, total = outside.free_bytes(), ray.cluster_resources()["GPU"]
    holder = Holder.remote(device)
    ray.get(holder.product.remote())
    ray.get(holder.hold.remote(HELD_BYTES))
    start = time.perf_counter()
    ray.kill(holder)
    while True:
        spent = (time.perf_counter() - start) * 1e3
        # Shares are sums of parts: they come back but for a rounding.
        if ray.available_resources().get("GPU", 0) > total - 1e-6 and outside.free_bytes() + LITTLE_BYTES >= before:
            return spent
        if spent > LONGEST_MS:
            sys.exit(f"gpu_rows.py: a minute after the kill {outside.free_bytes() >> 20} of {before >> 20} MiB are free: "
                     "does another program use it?")


def spawn(device):
    started = []
    spent = milliseconds(lambda: (started.append(Holder.remote(device)), ray.get(started[0].product.remote())))
    ray.kill(started[0])
    return spent


class HandOver:
    """A tensor from one actor to another; each has a mark of its own, so that no answer is an old one."""

    def __init__(self, device):
        self.giver, self.taker, self.mark = Holder.remote(device), Holder.remote(device), 0
        ray.get([self.giver.product.remote(), self.taker.product.remote()])

    def once(self):
        self.mark += 1
        spent = time.perf_counter()
        got = ray.get(self.taker.take.remote(self.giver.offer.remote(self.mark)))
        spent = time.perf_counter() - spent
        assert got == self.mark
        return spent * 1e3

    def end(self):
        ray.kill(self.giver)
        ray.kill(self.taker)


def measure(device, repeat):
    """Rows of medians, after one turn that does not count."""
    rows = []

    def row(name, once):
        print(f"running {name}, Ray", file=sys.stderr)
        values = [once() for _ in range(repeat + 1)][1:]
        rows.append({"name": name, "value": statistics.median(values), "unit": "ms"})

    # A GPU task's process ends with it, as Ray has it unless told otherwise; max_calls=0 keeps it.
    cold = ray.remote(num_gpus=SHARE, max_calls=1)(product)
    warm = ray.remote(num_gpus=SHARE, max_calls=0)(product)
    row("gpu_task_cold", lambda: milliseconds(lambda: ray.get(cold.remote(device))))
    row("gpu_task_warm", lambda: warm_task(lambda: ray.get(warm.remote(device))))
    outside = work(device)
    hand_over = HandOver(device)
    row("gpu_tensor_hand_over_64MiB", hand_over.once)
    hand_over.end()
    row("gpu_kill_to_free_256MiB", lambda: kill_to_free(device, outside))
    row("gpu_fractional_actor_spawn", lambda: spawn(device))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if arguments.device == "cuda":
        show_one_gpu()
        ray.init()
        if ray.cluster_resources().get("GPU", 0) < 1:
            print("gpu_rows.py: Ray sees no GPU here (--device cpu tries the program without one)", file=sys.stderr)
            sys.exit(77)
    else:
        ray.init(num_gpus=1)
    rows = measure(arguments.device, arguments.repeat)
    ray.shutdown()
    peer.write(f"Ray {ray.__version__}", rows, arguments.json, "cuda" if arguments.device == "cuda" else "host")


if __name__ == "__main__":
    main()
