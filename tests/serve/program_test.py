#!/usr/bin/env python3
"""Serves with the program as a user would: program_test.py GPUACTORS-SERVE GPUACTORS SERVE_MAKE_CHECKPOINT [CASE]"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

from program_support import (Cases, Clients, DEADLINE, INPUTS, OUTPUTS, Server, cluster_of, environment, has, serving,
                             until)

case = Cases()


class Machine:
    """The programs, and a folder with checkpoints."""

    def __init__(self, serve, gpuactors, make_checkpoint, folder):
        self.serve = serve
        self.gpuactors = gpuactors
        self.make_checkpoint = make_checkpoint
        self.folder = folder
        self.env = environment(folder)
        self.file = self.checkpoint("digits.safetensors", 1)

    def checkpoint(self, name, seed):
        path = os.path.join(self.folder, name)
        subprocess.run([self.make_checkpoint, path, str(seed), str(INPUTS), "32", str(OUTPUTS)], check=True)
        return path

    def serving(self, *arguments, notices=()):
        return serving(self.serve, *arguments, env=self.env, notices=notices)

    def refused(self, *arguments, code=2):
        """What it says when it does not start."""
        done = subprocess.run([self.serve, *arguments], env=self.env, capture_output=True, text=True, timeout=DEADLINE,
                              check=False)
        assert done.returncode == code and done.stderr.count("\n") == 1, done
        return done.stderr


class ModelsFile:
    """A models file in a folder with three checkpoints' names, of which the third is not there."""

    def __init__(self, machine):
        self.folder = os.path.join(machine.folder, "models")
        os.makedirs(self.folder, exist_ok=True)
        for number in (1, 2):
            machine.checkpoint(f"models/{number}.safetensors", number)
        self.path = os.path.join(self.folder, "models.json")

    def write(self, **models):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"models": models}, file)
        os.rename(self.path + ".new", self.path)


def note(server, notices, besides=None):
    """Reads what a server notes until all of these have come, in any order, and nothing else but what is `besides`."""
    missing = list(notices)
    while missing:
        line = server.process.stderr.readline()
        found = [notice for notice in missing if notice in line]
        assert found or (besides and besides in line), (line, missing)
        missing = [notice for notice in missing if notice not in found]


@case
def serves(machine):
    """it serves what the command line names, and says what and where"""
    with machine.serving("--model", f"digits={machine.file}", "--gpus", "0.25", "--replicas", "2", "--grpc",
                         "127.0.0.1:0") as server:
        has("\n".join(server.lines), "gRPC at 127.0.0.1:")
        assert ("model digits, version 1: x FP32 [-1,64] to y FP32 [-1,10]; 2 replicas of 0.25; batches of up to 32 "
                "rows") in server.lines, server.lines
        assert server.ask("GET", "/v2/health/ready")[0] == 200
        status, model = server.ask("GET", "/v2/models/digits")
        assert status == 200 and model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}], model
        status, reply = server.infer("digits", [[1.0] * INPUTS] * 3)
        assert status == 200 and reply["outputs"][0]["shape"] == [3, OUTPUTS], reply
        rows = reply["outputs"][0]["data"]
        assert all(abs(a - b) < 1e-4 for a, b in zip(rows[:OUTPUTS], rows[OUTPUTS:2 * OUTPUTS])), rows
        assert server.infer("digits", [[1.0] * 3])[0] == 400
        assert server.infer("digit", [[1.0] * INPUTS])[0] == 404
        assert server.infer("digits", [[1.0] * INPUTS] * 33)[0] == 400
        # No batch is done within a microsecond: it is refused at once, or late already.
        assert server.infer("digits", [[1.0] * INPUTS], timeout=1)[0] in (429, 504)
        assert server.metric("nv_inference_count") == 3
        assert server.metric("gpuactors_serve_refused") == 1


@case
def swaps(machine):
    """a file that was replaced is loaded beside the version that serves, without a failed request"""
    path = machine.checkpoint("swapped.safetensors", 5)
    with machine.serving("--model", f"digits={path}",
                         notices=["model digits: version 2 serves in the place of version 1"]) as server:
        before = server.infer("digits", [[1.0] * INPUTS])[1]
        # The answers change with the version, so these clients count what fails only.
        clients = Clients(server, "digits", 3)
        clients.await_more(20)
        machine.checkpoint("swapped.safetensors", 6)
        assert server.ask("POST", "/v2/repository/models/digits/load", {})[0] == 200
        clients.await_more(20)
        assert not [failure for failure in clients.stop() if " after " not in failure], clients.failures
        after = server.infer("digits", [[1.0] * INPUTS])[1]
        assert (before["model_version"], after["model_version"]) == ("1", "2"), (before, after)
        assert before["outputs"][0]["data"] != after["outputs"][0]["data"]


@case
def refuses_to_start(machine):
    """what it cannot start with is said in a line, and the exit code is 2"""
    has(machine.refused(), "--model")
    has(machine.refused("--modle", "a=b"), "there is no option --modle; did you mean \"--model\" or \"--models\"?")
    has(machine.refused("--model", "a"), "NAME=FILE is expected")
    has(machine.refused("--model", f"a={machine.file},replica=2"), "did you mean \"replicas\"")
    has(machine.refused("--model", f"a={machine.file}", "--max-batch", "0"), "--max-batch is \"0\"")
    has(machine.refused("--model", f"a={machine.file}", "--model", f"a={machine.file}"), "two models named \"a\"")
    has(machine.refused("--model", "a=missing", "--http", "127.0.0.1:0"), "missing cannot be read")
    has(machine.refused("--model", f"a={__file__}", "--http", "127.0.0.1:0"), os.path.basename(__file__))
    has(machine.refused("--model", f"a={machine.file}", "--http", "127.0.0.1"), "--http")
    has(machine.refused("--model", f"a={machine.file}", "--http", "0.0.0.0:0"), "--token-file")
    has(machine.refused("--model", f"a={machine.file}", "--tls-cert", "x"), "belong together")
    has(machine.refused("--model", f"a={machine.file}", "--allow-load-paths", "nowhere"), "there is no folder nowhere")
    has(machine.refused("--model", f"a={machine.file}", "--devices", "gpu:1", "--http", "127.0.0.1:0"), "gpu:1")
    has(machine.refused("--model", f"a={machine.file}", "--memory", "1TiB", "--http", "127.0.0.1:0"), "model a")


@case
def may_start_later(machine):
    """where a later start may succeed the exit code is 1: without a broker, and without a node that has room"""
    model = ("--model", f"a={machine.file}", "--insecure", "--http", "127.0.0.1:0", "--load-wait", "0.2")
    has(machine.refused(*model, "--broker", "127.0.0.1:1", "--link-timeout", "2", code=1), "nobody listens")
    broker = subprocess.Popen([machine.gpuactors, "broker", "--listen", "127.0.0.1:0", "--insecure"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=machine.env, text=True)
    try:
        where = broker.stdout.readline().split()[-1]
        has(machine.refused(*model, "--broker", where, code=1), "no node")
    finally:
        broker.kill()
        broker.communicate(timeout=DEADLINE)


@case
def keeps_going(machine):
    """with --keep-going a model that cannot be loaded keeps no other from serving, and serves when it can be"""
    late = os.path.join(machine.folder, "late.safetensors")
    with machine.serving("--model", f"late={late}", "--model", f"digits={machine.file}", "--keep-going", "--devices",
                         "host:1x64MiB", notices=None) as server:
        assert server.lines[-1] == "ready, but for 1 of 2 models", server.lines
        assert server.ask("GET", "/v2/models/digits/ready")[0] == 200
        for name in ("health", "models/late"):
            assert server.ask("GET", f"/v2/{name}/ready")[0] == 503, name
        has(server.ask("GET", "/metrics")[1], 'gpuactors_serve_model_ready{model="late"} 0')
        for _ in range(2): # at the start, and once more
            has(server.process.stderr.readline(), "model late could not be loaded")
        os.rename(machine.checkpoint("early.safetensors", 2), late)
        until(lambda: server.ask("GET", "/v2/health/ready")[0] == 200, "all serve")
        until(lambda: any(line.startswith("model late, version ") for line in server.lines), "what it serves is read")
    os.remove(late)


@case
def follows_a_file(machine):
    """a models file is followed: what comes, changes and goes does so under load, and what is wrong is noted"""
    file = ModelsFile(machine)
    one, two = {"file": "1.safetensors"}, {"file": "2.safetensors"}
    file.write(digits=one, gone=one)
    has(machine.refused("--models", file.path + ".missing"), ".missing cannot be read: No such file")
    has(machine.refused("--models", file.path, "--model", f"gone={machine.file}"), "two models named \"gone\"")
    with machine.serving("--models", file.path, "--model", f"typed={machine.file}", notices=None) as server:
        assert server.lines[-1] == "ready" and server.metric("gpuactors_serve_model_ready") == 3, server.lines

        def noted(*notices):
            note(server, notices, "model late")

        before = server.infer("digits", [[1.0] * INPUTS])[1]
        clients, others = Clients(server, "digits", 2), Clients(server, "typed", 2)
        clients.await_more(20)
        file.write(digits={**two, "max-batch": 8}, late={"file": "3.safetensors"})
        noted(f"the models file {file.path} was read again: 2 new or changed, 1 gone", "model gone, version 1 is unloaded",
              "model digits: version 2 serves in the place of version 1", "model late could not be loaded")
        clients.await_more(20)
        # Their answers change with the version.
        assert not [failure for failure in clients.stop() if " after " not in failure], clients.failures
        after = server.infer("digits", [[1.0] * INPUTS])[1]
        assert (before["model_version"], after["model_version"]) == ("1", "2"), (before, after)
        assert before["outputs"][0]["data"] != after["outputs"][0]["data"]
        assert server.infer("digits", [[1.0] * INPUTS] * 9)[0] == 400
        assert server.ask("GET", "/v2/models/gone")[0] == 404
        assert server.ask("GET", "/v2/models/late/ready")[0] == 503
        file.write(digits={"fiel": "2.safetensors"})
        noted(f'{file.path}: models.digits: there is no key "fiel"; did you mean "file"')
        assert server.infer("digits", [[1.0] * INPUTS])[0] == 200
        # It is tried again until there is something to be loaded.
        machine.checkpoint("models/3.safetensors", 3)
        until(lambda: server.infer("late", [[1.0] * INPUTS])[0] == 200, "the late one serves")
        file.write(digits={**two, "max-batch": 8})
        noted("was read again: 0 new or changed, 1 gone", "model late, version")
        others.await_more(20)
        assert others.stop() == [], others.failures
        assert server.ask("GET", "/v2/models/digits")[1]["versions"] == ["2"]
        assert server.ask("GET", "/v2/models/typed")[1]["versions"] == ["1"]


@case
def shifts_traffic(machine):
    """a canary gets exactly its share under load, becomes the model without a load, and its replicas are taken over"""
    file = ModelsFile(machine)
    old, new = {"file": "1.safetensors"}, {"file": "2.safetensors"}

    def entry(share):
        return {**old, "canary": {**new, "share": share}}

    with cluster_of(machine.gpuactors, machine.serve, "host:2x256MiB") as cluster:
        def serve(notices):
            return serving(machine.serve, "--models", file.path, "--broker", cluster.broker, "--deployment", "prod",
                           env=cluster.env, notices=notices)

        def replicas():
            return {(replica["name"], replica["pid"]) for replica in cluster.replicas()}

        file.write(digits=entry(0.1))
        with serve(None) as server:
            note(server, ["model digits: version 2 serves beside version 1, and gets 0.1 of the requests"])
            assert server.ask("GET", "/v2/models/digits")[1]["versions"] == ["2", "1"]
            clients = Clients(server, "digits", 4)
            clients.await_more(100)
            # Their answers differ with the version.
            assert not [failure for failure in clients.stop() if " after " not in failure], clients.failures
            assert server.counts("digits") == {"1": clients.answered - clients.answered // 10,
                                               "2": clients.answered // 10}, clients.answered
            assert server.ask("POST", "/v2/models/digits/versions/2/infer", server.body([[1.0] * INPUTS]))[0] == 200
            file.write(digits=entry(0.5))
            note(server, [f"the models file {file.path} was read again: 1 new or changed, 0 gone",
                          "model digits: version 2 gets 0.5 of the requests"])
            before = server.counts("digits")
            for _ in range(10):
                assert server.infer("digits", [[1.0] * INPUTS])[0] == 200
            after = server.counts("digits")
            assert {version: after[version] - before[version] for version in after} == {"1": 5, "2": 5}, (before, after)
            both = replicas()
            assert len(both) == 2, both
        # The server is gone, and the next one has the same two.
        taken = [f"model digits, version {version}: takes over 1 replica of deployment prod" for version in (1, 2)]
        with serve(None) as server:
            note(server, [*taken, "model digits: version 2 serves beside version 1, and gets 0.5 of the requests"])
            assert replicas() == both
            clients = Clients(server, "digits", 4)
            clients.await_more(20)
            file.write(digits=new)
            note(server, [f"the models file {file.path} was read again: 1 new or changed, 0 gone",
                          "model digits: version 2 serves in the place of version 1",
                          "model digits, version 1 is unloaded"])
            clients.await_more(20)
            assert not [failure for failure in clients.stop() if " after " not in failure], clients.failures
            assert server.infer("digits", [[1.0] * INPUTS])[1]["model_version"] == "2"
            last = until(lambda: len(replicas()) == 1 and replicas(), "the old one has ended")
            assert last < both, (last, both)
        with serve([taken[0]]) as server:
            assert replicas() == last
            assert server.infer("digits", [[1.0] * INPUTS])[1]["model_version"] == "1"


@case
def teaches(machine):
    """--help has examples, and --version a version"""
    done = subprocess.run([machine.serve, "--help"], capture_output=True, text=True, check=True, timeout=DEADLINE)
    for part in ("--max-batch", "Examples:", "gpuactors-serve --model digits=checkpoint.safetensors", "curl"):
        has(done.stdout, part)
    done = subprocess.run([machine.serve, "--version"], capture_output=True, text=True, check=True, timeout=DEADLINE)
    has(done.stdout, "gpuactors-serve 0.")


@case
def ends_under_load(machine):
    """a signal under load ends it with 0, and nobody gets half an answer"""
    for number in (signal.SIGTERM, signal.SIGINT):
        server = Server(machine.serve, "--model", f"digits={machine.file}", env=machine.env)
        clients = Clients(server, "digits", 4)
        clients.await_more(50)
        code, error = server.end(number)
        failures = clients.stop()
        assert (code, error) == (0, ""), (code, error)
        # Later requests find nobody, or are told so.
        wrong = [failure for failure in failures
                 if "IncompleteRead" in failure or "timed out" in failure or re.match(r"(?!503)\d{3}:", failure)]
        assert not wrong, wrong[:3]


@case
def ends_with_an_answer(machine):
    """a request that waits when the signal comes is answered before it ends"""
    # Alone, it would wait for an hour for others to share its batch.
    server = Server(machine.serve, "--model", f"digits={machine.file},max-delay=3600000", env=machine.env)
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.infer("digits", [[1.0] * INPUTS])))
    client.start()
    until(lambda: server.metric("nv_inference_pending_request_count") == 1, "the request waits")
    ended = server.end()
    client.join(DEADLINE)
    assert ended == (0, ""), ended
    assert answers and answers[0][0] == 200, answers


@case
def ends_with_a_slow_reader(machine):
    """an answer that is on its way when the signal comes is sent whole, as long as the server may drain"""
    rows, outputs = 200, 4096
    path = os.path.join(machine.folder, "wide.safetensors")
    subprocess.run([machine.make_checkpoint, path, "1", "4", "8", str(outputs)], check=True)
    server = Server(machine.serve, "--model", f"wide={path},max-batch={rows}", env=machine.env)
    text = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 4],
                                   "parameters": {"binary_data_size": rows * 16}}]}).encode()
    head = (f"POST /v2/models/wide/infer HTTP/1.1\r\nHost: {server.address}\r\nContent-Length: {len(text) + rows * 16}"
            f"\r\nInference-Header-Content-Length: {len(text)}\r\nConnection: close\r\n\r\n")
    host, port = server.address.rsplit(":", 1)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        connection.sendall(head.encode() + text + struct.pack("<4f", 0.1, 0.3, 0.7, 0.9) * rows)
        until(lambda: server.metric("nv_inference_count") == rows, "the request is inferred")
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.lines[-1] == "ending", "it ends")
        try:
            server.process.wait(5)  # longer than it waits for readers when it may not drain
            raise AssertionError("it ended before the answer was sent")
        except subprocess.TimeoutExpired:
            pass
        connection.settimeout(DEADLINE)
        received = bytearray()
        while block := connection.recv(1 << 20):
            received += block
    length = int(re.search(rb"Content-Length: (\d+)", received)[1])
    assert length > rows * outputs * 8 and len(received) - received.index(b"\r\n\r\n") - 4 == length, len(received)
    server.process.wait(DEADLINE)  # a second signal would end it at once
    ended = server.end()
    assert ended == (0, ""), ended


@case
def leaves(machine):
    """a server that leaves serves on while it says that it is not ready, and closes connections behind their answers"""
    server = Server(machine.serve, "--model", f"digits={machine.file}", "--leave-seconds", "3600", env=machine.env)
    try:
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.lines[-1] == "leaving", "it leaves")
        connection = server.connect()
        connection.request("GET", "/v2/health/ready")
        answer = connection.getresponse()
        assert answer.status == 503 and answer.headers["Connection"] == "close", answer.headers
        assert server.infer("digits", [[1.0] * INPUTS])[0] == 200
        assert server.ask("GET", "/v2/health/live")[0] == 200
        # A second signal ends it at once.
        assert server.end()[0] == -signal.SIGTERM
        with machine.serving("--model", f"digits={machine.file}", "--leave-seconds", "0.1") as short:
            short.process.send_signal(signal.SIGTERM)
            short.process.wait(DEADLINE)
            short.reader.join(DEADLINE)
            assert short.lines[-2:] == ["leaving", "ending"], short.lines
    finally:
        server.kill()


@case
def ends_while_it_loads(machine):
    """a signal while a model waits for its share ends it at once, and so does one while a client loads"""
    # The second model never gets its share: without the signal, an hour would pass.
    arguments = ("--model", f"a={machine.file},gpus=1", "--model", f"b={machine.file},gpus=1", "--devices", "host:1x64MiB",
                 "--load-wait", "3600")
    for number in (signal.SIGTERM, signal.SIGINT):
        server = Server(machine.serve, *arguments, env=machine.env, await_line="model a, version 1")
        until(lambda: [entry for entry in server.ask("POST", "/v2/repository/index")[1] if entry["state"] == "LOADING"],
              "the second model is being loaded")
        assert server.infer("a", [[1.0] * INPUTS])[0] == 200
        ended = server.end(number)
        assert ended == (0, ""), ended
        assert "ready" not in server.lines and server.lines[-1] == "ending", server.lines
    server = Server(machine.serve, *arguments[:2], *arguments[4:], env=machine.env)
    answers = []
    client = threading.Thread(target=lambda: answers.append(server.ask("POST", "/v2/repository/models/a/load", {})))
    client.start()
    until(lambda: [entry for entry in server.ask("POST", "/v2/repository/index")[1] if entry["state"] == "LOADING"],
          "the new version is being loaded")
    ended = server.end()
    client.join(DEADLINE)
    assert ended == (0, ""), ended
    assert answers and answers[0][0] == 503, answers


@case
def survives(machine):
    """in a cluster of processes, workers that are killed under load cost no request"""
    with cluster_of(machine.gpuactors, machine.serve, "host:2x256MiB") as cluster, \
         serving(machine.serve, "--model", f"digits={machine.file}", "--replicas", "2", "--broker", cluster.broker,
                 env=cluster.env, notices=3 * [r"model digits, version 1: replica \d was lost: .+",
                                               r"model digits, version 1: replica \d serves, on node \S+"]) as server:
        assert len({replica["pid"] for replica in cluster.replicas()}) == 2, cluster.replicas()
        clients = Clients(server, "digits", 4)
        for i in range(3):
            clients.await_more(50)
            # The broker may still show the one that was killed, or already one that the server does not use yet.
            until(lambda: server.metric("gpuactors_serve_replicas_lost") == i, "the loss is noticed")
            until(lambda: server.metric("gpuactors_serve_replicas") == 2, "two replicas serve")
            replicas = until(lambda: len(cluster.replicas()) == 2 and cluster.replicas(), "there are two replicas")
            if i == 1:
                cluster.run("kill", replicas[0]["name"], "--no-restart")
            else:
                os.kill(replicas[i % 2]["pid"], signal.SIGKILL)
        clients.await_more(50)
        assert clients.stop() == [], clients.failures[:3]
        until(lambda: server.metric("gpuactors_serve_replicas_lost") == 3, "the last loss is noticed")
        until(lambda: server.metric("gpuactors_serve_replicas") == 2, "two replicas serve")
        assert server.metric("nv_inference_request_failure") == 0


@case
def serves_large_batches(machine):
    """in a cluster of processes, batches above 4 MiB are served, and a worker that is killed under them costs no request"""
    rows = 20_000  # 5 MiB, and answers of 0.8 MiB
    with cluster_of(machine.gpuactors, machine.serve, "host:2x256MiB") as cluster, \
         serving(machine.serve, "--model", f"digits={machine.file},max-batch={rows}", "--replicas", "2", "--broker",
                 cluster.broker, env=cluster.env,
                 notices=[r"model digits, version 1: replica \d was lost: .+",
                          r"model digits, version 1: replica \d serves, on node \S+"]) as server:
        status, one = server.infer("digits", [[0.5] * INPUTS])
        assert status == 200, one
        expected = one["outputs"][0]["data"]

        def ask():
            answer = server.infer_binary("digits", struct.pack(f"<{INPUTS}f", *([0.5] * INPUTS)) * rows, rows)
            values = struct.unpack(f"<{rows * OUTPUTS}f", answer)
            for row in (0, 1, rows // 2, rows - 1):
                found = values[row * OUTPUTS:(row + 1) * OUTPUTS]
                assert all(abs(a - b) < 1e-4 for a, b in zip(found, expected)), (row, found, expected)

        for _ in range(3):
            ask()
        os.kill(cluster.replicas()[0]["pid"], signal.SIGKILL)
        for _ in range(5):
            ask()
        until(lambda: server.metric("gpuactors_serve_replicas_lost") == 1, "the loss is noticed")
        until(lambda: server.metric("gpuactors_serve_replicas") == 2, "two replicas serve")
        assert server.metric("nv_inference_request_failure") == 0


@case
def hands_over(machine):
    """replicas of a deployment outlive their server, and the next one takes over those that are as it wants them"""
    path = machine.checkpoint("lasting.safetensors", 5)
    with cluster_of(machine.gpuactors, machine.serve, "host:2x256MiB") as cluster:
        arguments = ("--model", f"digits={path}", "--broker", cluster.broker, "--deployment", "prod")

        def serve(*more, notices):
            return serving(machine.serve, *arguments, *(more or ("--replicas", "2")), env=cluster.env, notices=notices)

        def processes():
            return {replica["name"]: replica["pid"] for replica in cluster.replicas()}

        taken = r"model digits, version 1: takes over 2 replicas of deployment prod"
        with serve(notices=[]) as server:
            first = processes()
            assert len(first) == 2 and all(name.startswith("serve:prod/digits/") for name in first), first
            answer = server.infer("digits", [[1.0] * INPUTS])[1]["outputs"][0]["data"]
        # The server before has ended in order; this one is killed.
        server = Server(machine.serve, *arguments, "--replicas", "2", env=cluster.env)
        assert processes() == first
        assert server.infer("digits", [[1.0] * INPUTS])[1]["outputs"][0]["data"] == answer
        assert server.metric("gpuactors_serve_replicas") == 2
        server.kill()
        # One that ends while it still loads leaves them as they are.
        server = Server(machine.serve, *arguments, "--replicas", "2", env=cluster.env, await_line="HTTP at")
        code, _ = server.end()
        assert code == 0 and processes() == first, (code, processes(), first)
        # One of them dies while nobody looks: another one comes in its place.
        os.kill(list(first.values())[0], signal.SIGKILL)
        until(lambda: len(processes()) == 1, "its death is noticed")
        with serve(notices=[taken.replace("2 replicas", "1 replica")]) as server:
            second = processes()
            assert len(second) == 2 and len(second.items() & first.items()) == 1, (first, second)
        # With another file, or other options, none of them is of use.
        machine.checkpoint("lasting.safetensors", 6)
        with serve(notices=[]) as server:
            third = processes()
            assert len(third) == 2 and not set(third) & set(second), (second, third)
            assert server.infer("digits", [[1.0] * INPUTS])[1]["outputs"][0]["data"] != answer
        # One of them is enough. A model that is unloaded has none, and what is loaded then takes over nothing.
        with serve("--replicas", "1", notices=[taken, "model digits, version 1 is unloaded",
                                               "model digits: version 2 serves"]) as server:
            assert len(processes()) == 1
            assert server.ask("POST", "/v2/repository/models/digits/unload", {})[0] == 200
            assert processes() == {}
            assert server.ask("POST", "/v2/repository/models/digits/load", {})[0] == 200
        assert len(processes()) == 1
        done = subprocess.run([machine.serve, "--deployment", "prod", "--end-deployment", "--broker", cluster.broker],
                              env=cluster.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert (done.returncode, done.stdout) == (0, "1 replica of deployment prod ended\n"), done
        assert processes() == {}
    has(machine.refused("--model", f"a={machine.file}", "--deployment", "a"), "--deployment is for a running cluster")
    has(machine.refused("--model", f"a={machine.file}", "--deployment", "a/b", "--broker", "x:1"), "1 to 24 letters")
    has(machine.refused("--end-deployment"), "--deployment NAME")


@case
def says_how_it_is(machine):
    """a service manager hears that it loads, is ready, alive while it takes turns, and ends"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = f"gpuactors-serve-{os.getpid()}"
        manager.bind("\0" + address)
        manager.settimeout(DEADLINE)
        env = dict(machine.env, NOTIFY_SOCKET="@" + address, WATCHDOG_USEC="600000")
        with serving(machine.serve, "--model", f"digits={machine.file}", env=env):
            said = [manager.recv(1000).decode() for _ in range(4)]
            assert said == ["STATUS=loads models", "READY=1\nSTATUS=ready", "WATCHDOG=1", "WATCHDOG=1"], said
        while said[-1] == "WATCHDOG=1":
            said.append(manager.recv(1000).decode())
        assert said[-1] == "STOPPING=1", said


@case
def moves(machine):
    """a replica leaves a node that is being emptied when another one serves elsewhere, and that costs no request"""
    with cluster_of(machine.gpuactors, machine.serve, "host:1x256MiB") as cluster:
        node = subprocess.Popen([machine.gpuactors, "node", "--broker", cluster.broker, "--name", "other", "--devices",
                                 "host:1x256MiB", "--program", machine.serve], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=cluster.env)
        try:
            until(lambda: len(json.loads(cluster.run("nodes", "--json"))) == 2, "there are two nodes")
            notices = [r"model digits, version 1: replica \d serves, on node \S+",
                       r"model digits, version 1: replica \d has left node \S+, which is being emptied"]
            with serving(machine.serve, "--model", f"digits={machine.file}", "--replicas", "2", "--broker",
                         cluster.broker, env=cluster.env, notices=notices) as server:
                (first,) = {replica["node"] for replica in cluster.replicas()} - {"other"}
                clients = Clients(server, "digits", 4)
                cluster.run("drain", first, "--deadline", "60")
                until(lambda: [one["node"] for one in cluster.replicas()] == 2 * ["other"], "both are on the other")
                clients.await_more(20)
                assert clients.stop() == [], clients.failures[:3]
                assert server.metric("gpuactors_serve_replicas_lost") == 0
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(DEADLINE)


if __name__ == "__main__":
    sys.exit(case.run(Machine, 3))
