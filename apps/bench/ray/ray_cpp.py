"""Builds ray_cpp_rows.cpp against the headers of the wheel ray-cpp, runs it, and gives its rows to gpuactors-bench.

ray_cpp.py [--filter TEXT] [--seconds F] [--rounds N] [--actors N] [--json FILE]

To be run by a Python that has the package ray[cpp]; the compiler is $CXX or c++. Prints or writes one line of JSON:
{"peer": "Ray C++ VERSION", "rows": [{"name", "value", "unit"}]}. Exit code 77: the package is not there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import peer
import ray

LIMIT_S = 600


def build(wheel, folder):
    """The program, and in a folder of its own the same as a library: from there Ray's workers take the functions."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_cpp_rows.cpp")
    code = os.path.join(folder, "code")
    os.mkdir(code)
    compiler = os.environ.get("CXX", "c++")
    thing, program = os.path.join(folder, "rows.o"), os.path.join(folder, "ray_cpp_rows")
    # The library in the wheel has the strings of before C++11.
    compiling = [compiler, "-std=c++17", "-O2", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-I{wheel}/include", "-c",
                 source, "-o", thing]
    linking = [compiler, thing, f"-L{wheel}/lib", "-lray_api", f"-Wl,-rpath,{wheel}/lib"]
    for command in (compiling, [*linking, "-shared", "-o", os.path.join(code, "rows.so")], [*linking, "-o", program]):
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"ray_cpp.py: {' '.join(command[:3])} ... failed")
    return program, code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    wheel = os.path.join(os.path.dirname(ray.__file__), "cpp")
    if not os.path.isdir(os.path.join(wheel, "include")):
        print("ray_cpp.py: ray[cpp] is not installed for this Python", file=sys.stderr)
        sys.exit(77)
    # The program starts Ray by the command `ray`, which lies beside this Python.
    environment = dict(os.environ)
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment.get("PATH", "")
    with tempfile.TemporaryDirectory() as folder:
        program, code = build(wheel, folder)
        done = subprocess.run([program, code, arguments.filter, str(arguments.seconds), str(arguments.rounds),
                               str(arguments.actors)], env=environment, stdout=subprocess.PIPE, text=True, check=False,
                              timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"ray_cpp.py: the program ended with {done.returncode}")
    peer.write(f"Ray C++ {ray.__version__}", json.loads(done.stdout.splitlines()[-1]), arguments.json)


if __name__ == "__main__":
    main()
