"""gpuactors-serve for tests of the program: a server, a cluster of processes for it, and clients that keep asking."""

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

DEADLINE = 60
INPUTS = 64
OUTPUTS = 10


def environment(folder):
    """Variables of a user who has nothing: no broker, no certificates."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}
    env["XDG_STATE_HOME"] = folder
    return env


def until(condition, what, seconds=DEADLINE):
    """What condition() gives once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def has(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


class Cases:
    """The cases of a test: functions of a machine, by `@case`; the first line of one's documentation is its name."""

    def __init__(self):
        self.functions = []

    def __call__(self, function):
        self.functions.append(function)
        return function

    def run(self, machine_of, programs):
        """Runs those whose names contain what follows the programs on the command line, in order; what to exit with.

        machine_of(PROGRAM..., FOLDER) makes what they get, from so many programs.
        """
        failed, ran = 0, 0
        wanted = sys.argv[programs + 1] if len(sys.argv) > programs + 1 else ""
        with tempfile.TemporaryDirectory() as folder:
            machine = machine_of(*sys.argv[1:programs + 1], folder)
            for function in self.functions:
                name = function.__doc__.splitlines()[0]
                if wanted not in name:
                    continue
                ran += 1
                try:
                    function(machine)
                    print(f"ok: {name}", flush=True)
                except Exception:  # pylint: disable=broad-except
                    failed += 1
                    print(f"FAILED: {name}\n{traceback.format_exc()}", flush=True)
        return 1 if failed or not ran else 0


class Server:
    """A running gpuactors-serve."""

    def __init__(self, program, *arguments, env=None, await_line="ready"):
        self.process = subprocess.Popen([program, "--http", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        self.lines = []
        self.ended = queue.Queue()
        self.address = None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            found = re.fullmatch(r"HTTP at https?://(\S+?)(, .*)?", self.lines[-1])
            self.address = found.group(1) if found else self.address
            if self.lines[-1].startswith(await_line):
                break
        else:
            raise AssertionError(f"it did not start: {self.lines} {self.process.stderr.read()}")
        # What it says later must not fill the pipe.
        self.reader = threading.Thread(
            target=lambda: [self.lines.append(line.rstrip("\n")) for line in self.process.stdout], daemon=True)
        self.reader.start()

    def connect(self):
        host, port = self.address.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=DEADLINE)

    def ask(self, method, path, body=None, connection=None):
        """The status and the parsed body of an answer."""
        own = connection or self.connect()
        own.request(method, path, body=None if body is None else json.dumps(body))
        answer = own.getresponse()
        text = answer.read()
        if connection is None:
            own.close()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    @staticmethod
    def body(rows):
        return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(rows), INPUTS],
                            "data": [value for row in rows for value in row]}]}

    def infer(self, model, rows, connection=None, **parameters):
        body = self.body(rows)
        if parameters:
            body["parameters"] = parameters
        return self.ask("POST", f"/v2/models/{model}/infer", body, connection)

    def infer_binary(self, model, data, rows):
        """The bytes of the one output, for those of as many rows."""
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, INPUTS],
                                       "parameters": {"binary_data_size": len(data)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        connection = self.connect()
        connection.request("POST", f"/v2/models/{model}/infer", body=head + data,
                           headers={"Inference-Header-Content-Length": str(len(head))})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:300])
        connection.close()
        return body[int(answer.headers["Inference-Header-Content-Length"]):]

    def metric(self, name):
        """The sum of a metric over its labels."""
        text = self.ask("GET", "/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[{ ]", line))

    def counts(self, model):
        """How many requests each version that serves has answered."""
        return {one["version"]: one["inference_stats"]["success"]["count"]
                for one in self.ask("GET", f"/v2/models/{model}/stats")[1]["model_stats"]}

    def memory(self):
        """What the process holds of memory, in KiB."""
        return memory_of(self.process.pid)

    def end(self, number=signal.SIGTERM):
        """Its exit code and standard error."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE)
        self.reader.join(DEADLINE)
        error = self.process.stderr.read()
        self.process.stderr.close()
        return code, error

    def kill(self):
        self.process.kill()
        self.process.wait()


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s*(\d+) kB", status.read()).group(1))


@contextlib.contextmanager
def serving(program, *arguments, env=None, notices=()):
    """A server that must end cleanly when its block does, and must have noted just these things, in order."""
    server = Server(program, *arguments, env=env)
    try:
        yield server
        code, error = server.end()
        assert code == 0, (code, error)
        if notices is not None:
            lines = error.splitlines()
            assert len(lines) == len(notices), lines
            for line, notice in zip(lines, notices):
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ " + notice, line), (line, notice)
    finally:
        server.kill()


class Cluster:
    """A broker and a node whose workers run `program`, or gpuactors itself; `options` are those of the node."""

    def __init__(self, gpuactors, program, env, devices, *options):
        self.gpuactors = gpuactors
        self.env = env
        worker = ["--program", program] if program else []
        self.process = subprocess.Popen([gpuactors, "up", "--listen", "127.0.0.1:0", "--devices", devices, *worker,
                                         *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env,
                                        text=True)
        ready = self.process.stdout.readline()
        assert re.fullmatch(r"broker listens at 127\.0\.0\.1:\d+\n", ready), ready
        self.broker = ready.split()[-1]

    def run(self, *arguments):
        done = subprocess.run([self.gpuactors, *arguments, "--broker", self.broker], env=self.env, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def replicas(self, kind="serve/replica"):
        """Those of an actor type that are alive: dictionaries with name and pid."""
        actors = json.loads(self.run("actors", "--json"))
        return [actor for actor in actors if actor["state"] == "alive" and actor["type"] == kind]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)
        self.process.stdout.close()


@contextlib.contextmanager
def cluster_of(gpuactors, program, devices, *options):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(gpuactors, program, environment(folder), devices, *options)
        try:
            yield cluster
        finally:
            cluster.end()


class Clients:
    """Threads that ask again and again, each over a connection of its own; all answers are counted."""

    def __init__(self, server, model, count, pause=None):
        self.server = server
        self.model = model
        self.pause = pause  # seconds between the requests of one; none: as soon as it is answered
        self.lock = threading.Lock()
        self.answered = 0
        self.failures = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        connection = self.server.connect()
        row = [(number + i) % 16 for i in range(INPUTS)]
        first = None
        due = time.monotonic()
        while not self.stopping.is_set():
            failure = None
            try:
                status, body = self.server.infer(self.model, [row], connection)
                data = body["outputs"][0]["data"] if status == 200 else None
                first = first or data
                if status != 200:
                    failure = f"{status}: {body}"
                elif len(data) != OUTPUTS or any(abs(a - b) > 1e-3 for a, b in zip(data, first)):
                    failure = f"{data} after {first}"
            except (OSError, http.client.HTTPException) as error:
                failure = repr(error)
                connection.close()
                connection = self.server.connect()
            with self.lock:
                self.answered += 1
                if failure:
                    self.failures.append(failure)
            if self.pause:
                due = max(due + self.pause, time.monotonic() - self.pause)
                self.stopping.wait(max(0.0, due - time.monotonic()))
        connection.close()

    def await_more(self, count):
        goal = self.answered + count
        until(lambda: self.answered >= goal, f"{count} more answers")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(DEADLINE)
        return self.failures
