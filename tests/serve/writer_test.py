#!/usr/bin/env python3
"""Serves the example of a generative model: writer_test.py GPUACTORS-SERVE GPUACTORS PLUGIN [CASE]

PLUGIN is apps/examples/served_writer.cpp as a library."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

from http2 import Connection
from program_support import Cases, DEADLINE, cluster_of, environment, has, serving, until

TYPE = "examples/writer"
STREAM = "/v2/models/writer/generate_stream"
TEXT = "the cat sat on the mat and the dog sat on the log. " * 20
case = Cases()


class Machine:
    """The programs, and a folder with the text."""

    def __init__(self, serve, gpuactors, plugin, folder):
        self.serve = serve
        self.gpuactors = gpuactors
        self.plugin = plugin
        self.env = environment(folder)
        self.path = os.path.join(folder, "text.txt")
        with open(self.path, "w", encoding="ascii") as out:
            out.write(TEXT)

    def serving(self, *arguments, keys="", notices=()):
        return serving(self.serve, "--model", f"writer={self.path},actor={TYPE}{keys}", "--plugin", self.plugin,
                       "--devices", "host:1x256MiB", *arguments, env=self.env, notices=notices)


class Events:
    """The events of one answer, as they come."""

    def __init__(self, server, **body):
        self.connection = server.connect()
        self.connection.request("POST", STREAM, json.dumps(body))
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")

    def __iter__(self):
        for line in self.answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def next(self):
        return next(iter(self))

    def text(self):
        return "".join(event["text"] for event in self)

    def close(self):
        self.answer.close()
        self.connection.close()


def write(server, **body):
    return server.ask("POST", "/v2/models/writer/generate", body)


@case
def streams(machine):
    """a text comes as a stream of characters and as a whole, the same for the same seed"""
    with machine.serving() as server:
        has("\n".join(server.lines), "model writer, version 1: text BYTES [1] to a stream of text BYTES [1]; 1 replica of "
            "0.25; up to 16 requests at once in each")
        events = Events(server, text="the c", max_tokens=12, temperature=0, id="7")
        first = events.next()
        assert first == {"id": "7", "model_name": "writer", "model_version": "1", "text": "a"}, first
        assert "a" + events.text() == "at sat on th"
        status, whole = write(server, text="the c", max_tokens=12, temperature=0)
        assert (status, whole["text"]) == (200, "at sat on th"), whole
        seeded = [write(server, text="the ", parameters={"seed": seed, "temperature": 1.0})[1]["text"]
                  for seed in (1, 1, 2)]
        assert seeded[0] == seeded[1] != seeded[2] and len(seeded[0]) == 100, seeded
        status, stopped = write(server, text="the c", temperature=0, stop=" on")
        assert (status, stopped["text"]) == (200, "at sat on"), stopped
        command = ["curl", "-sN", "-d", '{"text": "the c", "max_tokens": 3, "temperature": 0}',
                   f"http://{server.address}{STREAM}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
        assert done.stdout == "".join(f'data: {{"model_name":"writer","model_version":"1","text":"{c}"}}\n\n'
                                      for c in "at "), done.stdout
        assert server.metric("gpuactors_serve_items") == 12 + 12 + 300 + 9 + 3
        assert server.metric("gpuactors_serve_first_item_seconds_count") == 7
        status, model = server.ask("GET", "/v2/models/writer/config")
        assert model["model_transaction_policy"] == {"decoupled": True} and model["max_batch_size"] == 0, model


@case
def refuses(machine):
    """what the model does not understand is said before it begins"""
    with machine.serving() as server:
        for body, words in (({"text": "a", "max_tokens": 0}, "none of max_tokens (from 1)"),
                            ({"text": "a", "top_k": 3}, 'the parameter "top_k" is none of'),
                            ({"text": ["a", "b"]}, 'more data than the 1 elements'),
                            ({"txt": ["a"]}, 'has no input "txt"'),
                            ({}, "has one input")):
            for path in (STREAM, STREAM.replace("_stream", "")):
                status, answer = server.ask("POST", path, body)
                assert status == 400, answer
                has(answer["error"], words)
        status, answer = server.ask("POST", "/v2/models/writer/infer", {"inputs": [
            {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]})
        assert status == 501, answer
        has(answer["error"], "/generate_stream")


@case
def runs_together(machine):
    """one replica writes many texts at once, those beyond wait, and clients that go make room"""
    with machine.serving(keys=",max-running=4") as server:
        endless = [Events(server, text="the ", max_tokens=10**9, seed=i) for i in range(4)]
        for events in endless:
            events.next()
        assert server.metric("gpuactors_serve_running") == 4
        waiting = {}
        thread = threading.Thread(target=lambda: waiting.update(done=write(server, text="the c", max_tokens=5)))
        thread.start()
        until(lambda: server.metric("nv_inference_pending_request_count") == 1, "one waits")
        endless[0].close()
        thread.join(DEADLINE)
        assert waiting["done"][0] == 200, waiting
        for events in endless[1:]:
            events.next()
            events.close()
        until(lambda: server.metric("gpuactors_serve_running") == 0, "nothing runs")
        texts = {}
        threads = [threading.Thread(target=lambda i=i: texts.update({i: Events(server, text="the ", seed=i,
                                                                              max_tokens=20 + i).text()}))
                   for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert {i: len(text) for i, text in texts.items()} == {i: 20 + i for i in range(32)}, texts


@case
def survives(machine):
    """a killed replica fails the texts that it has begun, in so many words; all others come"""
    with cluster_of(machine.gpuactors, None, "host:2x256MiB", "--plugin", machine.plugin) as cluster, \
         serving(machine.serve, "--model", f"writer={machine.path},actor={TYPE}", "--replicas", "2", "--broker",
                 cluster.broker, env=cluster.env,
                 notices=[r"model writer, version 1: replica \d was lost: .+",
                          r"model writer, version 1: replica \d serves, on node \S+"]) as server:
        replicas = until(lambda: len(cluster.replicas(TYPE)) == 2 and cluster.replicas(TYPE), "there are two replicas")
        endless = [Events(server, text="the ", max_tokens=10**9, seed=i) for i in range(6)]
        lost = []

        def read(events):
            with contextlib.suppress(ValueError, OSError, AttributeError):
                for event in events:
                    if "error" in event:
                        lost.append(event["error"])

        threads = [threading.Thread(target=read, args=(events,), daemon=True) for events in endless]
        for events, thread in zip(endless, threads):
            events.next()
            # From now on all of it: the server cuts off whoever leaves its answer where it is.
            thread.start()
        os.kill(replicas[0]["pid"], signal.SIGKILL)
        until(lambda: server.metric("gpuactors_serve_replicas_lost") == 1, "the loss is noticed")
        until(lambda: server.metric("gpuactors_serve_running") == 3, "the others go on")
        # Those of the dead one end with the reason; what they have had before is still there.
        server.ask("POST", "/v2/models/writer/generate", {"text": "the ", "max_tokens": 5})
        until(lambda: server.metric("gpuactors_serve_replicas") == 2, "two replicas serve")
        assert server.metric("gpuactors_serve_running") == 3
        until(lambda: len(lost) == 3, "three have ended")
        for sentence in lost:
            has(sentence, "the replica was lost after")
        status, whole = write(server, text="the c", max_tokens=12, temperature=0)
        assert (status, whole["text"]) == (200, "at sat on th"), whole
        for events in endless:
            with contextlib.suppress(OSError):
                events.connection.sock and events.connection.sock.shutdown(2)
        until(lambda: server.metric("gpuactors_serve_running") == 0, "nothing runs")


@case
def converses(machine):
    """the requests of a conversation go on where the one before has ended"""
    with machine.serving("--replicas", "3", keys=",sequence-idle=3600") as server:
        def say(text, number, **more):
            status, whole = write(server, text=text, sequence_id=number, temperature=0, **more)
            assert status == 200, whole
            return whole["text"]

        for number in (1, 2, "three"):
            assert say("the c", number, max_tokens=3, sequence_start=True) == "at "
        # While others keep a replica busy.
        endless = [Events(server, text="the ", max_tokens=10**9, seed=i) for i in range(20)]
        for number in ("three", 2, 1):
            assert say("", number, max_tokens=4) == "sat "
        for events in endless:
            events.close()
        assert server.metric("gpuactors_serve_sequences") == 3
        assert say("", 2, max_tokens=5, sequence_end=True) == "on th"
        assert server.metric("gpuactors_serve_sequences") == 2
        for body, words in (({"sequence_id": 2}, 'there is no sequence "2"'),
                            ({"sequence_id": 4}, "start it anew, by sequence_start"),
                            ({"sequence_start": True}, "no sequence_id"),
                            ({"sequence_id": "x" * 129}, "has 129 bytes: it may have 128")):
            status, answer = write(server, text="a", **body)
            assert status == 400, answer
            has(answer["error"], words)
        assert say("the c", 1, max_tokens=3, sequence_start=True) == "at "
        assert "sequence" in server.ask("GET", "/v2")[1]["extensions"]


@case
def forgets(machine):
    """with its replica a conversation is lost, which its next request is told"""
    with cluster_of(machine.gpuactors, None, "host:1x256MiB", "--plugin", machine.plugin) as cluster, \
         serving(machine.serve, "--model", f"writer={machine.path},actor={TYPE}", "--broker", cluster.broker,
                 env=cluster.env, notices=[r"model writer, version 1: replica \d was lost: .+",
                                           r"model writer, version 1: replica \d serves, on node \S+"]) as server:
        assert write(server, text="the c", max_tokens=3, temperature=0, sequence_id=1, sequence_start=True)[0] == 200
        os.kill(cluster.replicas(TYPE)[0]["pid"], signal.SIGKILL)
        until(lambda: server.metric("gpuactors_serve_replicas_lost") == 1, "the loss is noticed")
        status, answer = write(server, text="", sequence_id=1)
        assert status == 400, answer
        has(answer["error"], "or its state was lost with a replica; start it anew")
        status, whole = write(server, text="the c", max_tokens=3, temperature=0, sequence_id=1, sequence_start=True)
        assert (status, whole["text"]) == (200, "at "), whole


@case
def swaps(machine):
    """a new version takes new requests, and the old one finishes what it has begun"""
    swapped = ["model writer: version 2 serves in the place of version 1"]
    with machine.serving("--drain-seconds", "20", notices=swapped) as server:
        old = Events(server, text="the ", max_tokens=3_000)
        old.next()
        assert server.ask("POST", "/v2/repository/models/writer/load", {})[0] == 200
        assert write(server, text="the c", max_tokens=1)[1]["model_version"] == "2"
        rest = list(old)
        assert len(rest) == 2_999 and {event["model_version"] for event in rest} == {"1"}, rest[-1]


@case
def ends_beside_a_text(machine):
    """a server that ends sends clients elsewhere at once, while it still answers others"""
    with machine.serving("--grpc", "127.0.0.1:0", "--drain-seconds", "3600") as server:
        idle = server.connect()
        idle.request("GET", "/v2/health/live")
        idle.getresponse().read()
        port = int(next(line for line in server.lines if line.startswith("gRPC at")).rsplit(":", 1)[1])
        ended = []
        with Connection(port) as calls:
            assert calls.answer(calls.call("/inference.GRPCInferenceService/ServerLive", b"")) == 0
            events = Events(server, text="the ", max_tokens=10**9)
            events.next()

            def read():
                with contextlib.suppress(ValueError, OSError, AttributeError):
                    for _ in events:
                        pass
                ended.append(True)

            # All of it: the server cuts off whoever leaves its answer where it is.
            reader = threading.Thread(target=read, daemon=True)
            reader.start()
            server.process.send_signal(signal.SIGTERM)
            assert idle.sock.recv(1) == b""
            calls.until(lambda: False)
            assert calls.closed and not ended
        events.connection.sock and events.connection.sock.shutdown(2)
        server.process.wait(DEADLINE)  # a second signal would end it at once
        reader.join(DEADLINE)


if __name__ == "__main__":
    sys.exit(case.run(Machine, 3))
