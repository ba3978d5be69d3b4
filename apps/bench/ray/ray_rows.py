"""Runs rows of Ray's own microbenchmark, and of its scale tests, for gpuactors-bench --peers.

ray_rows.py [--filter TEXT] [--seconds F] [--rounds N] [--actors N] [--tasks N] [--json FILE]

The work is Ray's (ray._private.ray_perf); only the clock around it is ours, so that rounds have the same length on both
sides. Prints or writes one line of JSON: {"peer": "Ray VERSION", "rows": [{"name", "value", "deviation", "unit"}]}.
"""

import argparse
import os
import statistics
import sys
import time

os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import peer  # noqa: E402
import ray  # noqa: E402
from ray._private import ray_perf  # noqa: E402

ROWS = {
    "single client tasks sync": "single_client_tasks_sync",
    "single client tasks async": "single_client_tasks_async",
    "single client tasks and get batch": "single_client_tasks_and_get_batch",
    "multi client tasks async": "multi_client_tasks_async",
    "single client wait 1k refs": "single_client_wait_1k_refs",
    "1:1 actor calls sync": "1_1_actor_calls_sync",
    "1:1 actor calls async": "1_1_actor_calls_async",
    "1:1 actor calls concurrent": "1_1_actor_calls_concurrent",
    "1:n actor calls async": "1_n_actor_calls_async",
    "n:n actor calls async": "n_n_actor_calls_async",
    "n:n actor calls with arg async": "n_n_actor_calls_with_arg_async",
    "1:1 async-actor calls sync": "1_1_async_actor_calls_sync",
    "1:1 async-actor calls async": "1_1_async_actor_calls_async",
    "1:1 async-actor calls with args async": "1_1_async_actor_calls_with_args_async",
    "1:n async-actor calls async": "1_n_async_actor_calls_async",
    "n:n async-actor calls async": "n_n_async_actor_calls_async",
    "single client put calls (Plasma Store)": "single_client_put_calls",
    "single client get calls (Plasma Store)": "single_client_get_calls",
    "multi client put calls (Plasma Store)": "multi_client_put_calls",
    "single client put gigabytes": "single_client_put_gigabytes",
    "multi client put gigabytes": "multi_client_put_gigabytes",
    "placement group create/removal": "placement_group_create/removal",
}


# Rows that are not in ray_perf, by our names.
OWN_ROWS = ("many_actors", "many_tasks", "single_client_tasks_cold")


# Defined once: each definition would be exported to the cluster anew, in the time that is measured.
@ray.remote(num_cpus=0)
class SmallActor:
    def value(self):
        return b"ok"


@ray.remote(num_cpus=0.25)
def small_task():
    return b"ok"


@ray.remote(max_calls=1)
def last_task():
    return b"ok"


def many_actors(count):
    """Starts so many actors, calls each once, ends them."""
    actors = [SmallActor.remote() for _ in range(count)]
    ray.get([actor.value.remote() for actor in actors])
    for actor in actors:
        ray.kill(actor)


def many_tasks(count):
    """Has so many tasks of a quarter of a CPU at once, as Ray's scale test many_tasks has."""
    ray.get([small_task.remote() for _ in range(count)])


def cold_task():
    """Runs a task in a process that is new."""
    ray.get(last_task.remote())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = []

    def rate_of(function, multiplier, seconds):
        count = 0
        start = time.perf_counter()
        while True:
            function()
            count += 1
            spent = time.perf_counter() - start
            if spent >= seconds:
                return multiplier * count / spent

    def timeit(name, function, multiplier=1, **_):
        row = ROWS.get(name, name)
        if (name not in ROWS and name not in OWN_ROWS) or arguments.filter not in row:
            return [None]
        print(f"running {row}, Ray", file=sys.stderr)
        rate_of(function, multiplier, arguments.seconds / 2)
        rates = [rate_of(function, multiplier, arguments.seconds) for _ in range(arguments.rounds)]
        rows.append({"name": row, "value": statistics.fmean(rates), "deviation": statistics.pstdev(rates),
                     "unit": "GB/s" if "gigabytes" in row else "1/s"})
        return [None]

    ray_perf.timeit = timeit
    ray_perf.client_microbenchmark_main = lambda results: results
    ray_perf.main()
    ray.init()
    timeit("single_client_tasks_cold", cold_task)
    timeit("many_tasks", lambda: many_tasks(arguments.tasks), arguments.tasks)
    timeit("many_actors", lambda: many_actors(arguments.actors), arguments.actors)
    ray.shutdown()
    peer.write(f"Ray {ray.__version__}", rows, arguments.json)


if __name__ == "__main__":
    main()
