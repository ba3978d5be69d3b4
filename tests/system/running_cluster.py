"""A cluster of processes on loopback, and cases that run against it in their order: for tests of the command line."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import traceback

DEADLINE = 60


def until(condition, what):
    """What condition() gives once it is true."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


def environment(state):
    """That of this process, without what would lead its children elsewhere, and with a state folder of their own."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}
    return {**kept, "XDG_STATE_HOME": state}


class Daemons:
    """Daemons that a test starts by name, what they say, and commands beside them."""

    def __init__(self, program, folder, stack):
        """`stack` ends them."""
        self.program = os.path.abspath(program)
        self.folder = folder
        self.stack = stack
        self.env = environment(os.path.join(folder, "state"))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def daemon(self, name, *arguments):
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([self.program, *arguments], stdout=subprocess.PIPE, stderr=log, env=self.env,
                                       text=True)
        self.stack.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Ends one that still runs, as an operator would."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            same(process.wait(DEADLINE), 0)
        process.stdout.close()

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as log:
            return log.read()

    def logs(self):
        """What all of them have said, for failures."""
        return {name: self.log(name[:-len(".log")]) for name in os.listdir(self.folder) if name.endswith(".log")}

    def command(self, *arguments, code=0):
        """Standard output, or standard error of a command that ends with another code than 0."""
        done = subprocess.run([self.program, *arguments], env=self.env, capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        assert done.returncode == code, (arguments, done, self.logs())
        return done.stdout if code == 0 else done.stderr


class Cluster:
    """`gpuactors up` and its state folder."""

    def __init__(self, program, folder, *arguments, listen="127.0.0.1:0", **popen):
        """`arguments` are more of `up`; `popen` says how it is started otherwise than with its log in a file."""
        self.program = program
        self.env = environment(folder)
        self.folder = folder
        self.log = os.path.join(folder, "up.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [program, "up", "--devices", "host:2x1GiB@V100", "--listen", listen, "--name", "n0", "--label",
                 "zone=a", "--resource", "fpga=2", *arguments],
                **{"stdout": subprocess.PIPE, "stderr": log, "env": self.env, "text": True, **popen})
        ready = self.process.stdout.readline()
        self.broker = ready.split()[-1] if ready else self.process.kill()
        assert re.fullmatch(r"broker listens at 127\.0\.0\.1:\d+\n", ready), (ready, self.notices())

    def start(self, *arguments, broker=None):
        return subprocess.Popen([self.program, *arguments, "--broker", broker or self.broker], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.env, text=True)

    def run(self, *arguments, code=0, stdin="", broker=None):
        """Standard output, or standard error of a command that ends with another code than 0: one line of it."""
        done = subprocess.run([self.program, *arguments, "--broker", broker or self.broker], input=stdin, env=self.env,
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == code, f"{arguments}: exit code {code} was expected: {done}"
        if code == 0:
            assert done.stderr == "", done
            return done.stdout
        assert done.stdout == "" and done.stderr.count("\n") == 1, done
        assert done.stderr.startswith(f"gpuactors {arguments[0]}: "), done
        return done.stderr

    def json(self, *arguments, stdin=""):
        return json.loads(self.run(*arguments, stdin=stdin))

    def actor(self, name):
        """The actor as `actors --json` shows it, or None."""
        return next((actor for actor in self.json("actors", "--json") if actor["name"] == name), None)

    def notices(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def processes(self):
        """Commands of all processes of this state folder: `up`, its workers and what they started."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = f"XDG_STATE_HOME={self.folder}".encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read().replace(b"\0", b" ").decode()
                if ours:
                    found[int(pid)] = command
        return found

    def end(self):
        """Ends it as an operator would; the error, if it does not go."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(DEADLINE)
        finally:
            self.process.kill()
            self.process.stdout.close()
        assert code == 0, f"up ended with {code}: {self.notices()}"
        until(lambda: not self.processes(), f"no process is left: {self.processes()}")


def same(value, expected):
    assert value == expected, f"{value!r} came, {expected!r} was expected"


def fits(pattern, text):
    assert re.search(pattern, text), f"{text!r} does not fit {pattern!r}"


def run_cases(program, cases, part=""):
    """Runs those cases whose first line of documentation has this part; the exit code."""
    failures = 0
    chosen = [function for function in cases if part in function.__doc__]
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(os.path.abspath(program), folder)

        def ends(_):
            """up ends with 0 when it is told to, and no process is left"""
            cluster.end()

        for function in [*chosen, ends]:
            wrong = ""
            try:
                function(cluster)
            except Exception:  # pylint: disable=broad-except
                wrong = traceback.format_exc()
            print(f"{'FAILED' if wrong else 'ok':6} {function.__doc__}", flush=True)
            if wrong:
                failures += 1
                print(wrong, flush=True)
        if failures:
            print(f"what the cluster said:\n{cluster.notices()}")
    print(f"{len(chosen) + 1} cases, {failures} failed")
    return 1 if failures else 0
