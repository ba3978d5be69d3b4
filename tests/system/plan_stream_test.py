#!/usr/bin/env python3
"""Proves that `gpuactors plan` runs a scenario as a stream: plan_stream_test.py PROGRAM [NODES STEPS]

A generated scenario is piped through standard input, once with a quarter of the steps and once with all. The second run
may need little more memory than the first: what is over is forgotten. Prints what it measured.
"""

import os
import random
import subprocess
import sys
import time

# Eight bytes for each id that is over, in a table that doubles; the rest is the allocator's.
BYTES_PER_STEP = 24
SLACK = 6 << 20


def scenario(nodes, steps):
    """Pieces of a scenario in which about two leases a node are held, and that ends with a line for each."""
    rng = random.Random(7)
    yield '{"nodes":['
    for i in range(nodes):
        yield ("," if i else "") + (f'{{"name":"n{i:05}","cpus":64,"devices":[{{"accelerator_type":"H100","count":8,'
                                    '"memory_bytes":"85899345920"}]}\n')
    yield '],"steps":['
    held = []
    sizes = ['"gpus":0.25,"cpus":1'] * 12 + ['"memory_bytes":"6442450944"'] * 4 + ['"gpus":1'] * 3 + ['"gpus":4']
    for step in range(steps):
        if step % 997 == 996:
            text = '{"advance":{"seconds":0.5}}'
        elif held and (len(held) >= 2 * nodes or rng.random() < 0.4):
            at = rng.randrange(len(held))
            held[at], held[-1] = held[-1], held[at]
            text = f'{{"release":{{"id":"{held.pop()}"}}}}'
        else:
            held.append(f"job-{step}")
            text = f'{{"submit":{{"id":"job-{step}",{rng.choice(sizes)}}}}}'
        yield ("," if step else "") + text + "\n"
    yield "]}"


def measure(program, nodes, steps):
    """Pipes the scenario through the program: its peak memory in bytes, seconds, and lines of output."""
    child = subprocess.Popen([program, "plan"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    writer = os.fork()
    if writer == 0:
        child.stdout.close()
        with child.stdin as pipe:
            batch = []
            for piece in scenario(nodes, steps):
                batch.append(piece)
                if len(batch) == 10_000:
                    pipe.write("".join(batch).encode())
                    batch.clear()
            pipe.write("".join(batch).encode())
        os._exit(0)
    child.stdin.close()
    start = time.monotonic()
    lines, last = 0, b""
    for line in child.stdout:
        lines += 1
        last = line
    os.waitpid(writer, 0)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"exit code {child.returncode}"
    assert last.startswith(b'{"final":{"nodes":[{"name":"n00000"'), last[:100]
    return usage.ru_maxrss * 1024, time.monotonic() - start, lines, usage.ru_utime + usage.ru_stime


def main(program, nodes="100", steps="100000"):
    nodes, steps = int(nodes), int(steps)
    few, _, _, _ = measure(program, nodes, steps // 4)
    many, seconds, lines, cpu = measure(program, nodes, steps)
    print(f"{nodes} nodes: {steps // 4} steps {few >> 20} MiB, {steps} steps {many >> 20} MiB; {lines} lines in "
          f"{seconds:.1f} s, {steps / cpu:.0f} steps for each second of processor time")
    allowed = few + BYTES_PER_STEP * steps + SLACK
    if many > allowed:
        print(f"{steps} steps took {many} bytes: at most {allowed} are expected")
        return 1
    if lines < 0.9 * steps:
        print(f"{lines} lines are too few for {steps} steps")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
