#!/usr/bin/env python3
"""Loads the server with Triton's perf_analyzer over HTTP and gRPC: perf_analyzer_test.py SERVER MAKE_CHECKPOINT FOLDER

FOLDER is where a virtual environment with perf_analyzer is kept; it is made on first use. Exits with 77, and the
reason, where it cannot be had: it is part of tritonclient's wheels up to 2.48 and needs Debian's libb64-0d.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from environment import SKIPPED, enter_environment  # noqa: E402
from program_support import DEADLINE, INPUTS, OUTPUTS, environment, serving  # noqa: E402

try:
    ctypes.CDLL("libb64.so.0d")
except OSError as missing:
    print(f"skipped: perf_analyzer needs {missing} (apt install libb64-0d)")
    sys.exit(SKIPPED)

# The library of CUDA's runtime is linked, and not used without --shared-memory.
enter_environment(sys.argv[3], "tritonclient==2.48.0", "nvidia-cuda-runtime-cu12==12.4.127", "numpy<2")


def analyzer():
    """The command, and the environment that it finds its libraries in."""
    packages = [path for path in sys.path if path.endswith("site-packages")][0]
    libraries = os.path.join(packages, "nvidia", "cuda_runtime", "lib")
    inherited = os.environ.get("LD_LIBRARY_PATH", "")
    return os.path.join(sys.prefix, "bin", "perf_analyzer"), os.environ | {"LD_LIBRARY_PATH": f"{libraries}:{inherited}"}


def analyze(protocol, address, batch, clients):
    """Its report of 200 requests or more; how stable their times are does not matter here."""
    program, env = analyzer()
    done = subprocess.run(
        [program, "-m", "digits", "-i", protocol, "-u", address, "-b", str(batch), "--shape", f"x:{INPUTS}",
         "--concurrency-range", str(clients), "--measurement-mode", "count_windows", "--measurement-request-count", "200",
         "--stability-percentage", "10000", "--max-trials", "5"],
        env=env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def number(report, name):
    found = re.search(rf"{name}: (\d+)", report)
    assert found, f"{name} is not in {report}"
    return int(found.group(1))


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "digits.safetensors")
        subprocess.run([sys.argv[2], file, "1", str(INPUTS), "32", str(OUTPUTS)], check=True)
        with serving(sys.argv[1], "--model", f"digits={file}", "--grpc", "127.0.0.1:0",
                     env=environment(folder)) as server:
            grpc = next(line.split()[-1] for line in server.lines if line.startswith("gRPC at "))
            answered = 0
            for protocol, address in (("http", server.address), ("grpc", grpc)):
                for batch, clients in ((1, 1), (8, 4)):
                    report = analyze(protocol, address, batch, clients)
                    requests = number(report, "Request count")
                    assert requests >= 200, report
                    # What the server says of itself, by its statistics, is what the client has counted.
                    assert number(report, "Successful request count") >= requests, report
                    assert number(report, "Inference count") >= batch * requests, report
                    answered += requests
                    print(f"{protocol}, {clients} clients with {batch} rows: {requests} requests, "
                          f"{re.search(r'Throughput: .*', report).group(0)}", flush=True)
            assert server.metric("nv_inference_request_success") >= answered
            assert server.metric("nv_inference_request_failure") == 0


if __name__ == "__main__":
    main()
