#!/usr/bin/env python3
"""Serves a language model: program_test.py GPUACTORS-SERVE GPUACTORS PLUGIN FOLDER [CASE]

FOLDER has the models and what is expected of them (make.py there)."""

import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from program_support import Cases, cluster_of, environment, has, serving, until  # noqa: E402

case = Cases()
GENERATE = "/v2/models/m/generate"


class Machine:
    """The programs and the models."""

    def __init__(self, serve, gpuactors, plugin, models, folder):
        self.serve = serve
        self.gpuactors = gpuactors
        self.plugin = plugin
        self.models = models
        self.env = environment(folder)

    def serving(self, *arguments, model="llama", keys="", devices="host:1x64MiB", notices=()):
        source = f"m,actor=llm/decoder,set=folder={os.path.join(self.models, model)}{keys}"
        return serving(self.serve, "--model", source, "--plugin", self.plugin, "--devices", devices, *arguments,
                       env=self.env, notices=notices)

    def in_cluster(self, cluster, model="llama"):
        source = f"m,actor=llm/decoder,set=folder={os.path.join(self.models, model)}"
        return serving(self.serve, "--model", source, "--broker", cluster.broker, env=cluster.env)

    def expected(self, model="llama"):
        with open(os.path.join(self.models, model, "expected.json"), encoding="ascii") as file:
            return json.load(file)


def write(server, **body):
    return server.ask("POST", GENERATE, body)


def written(one, end=7):
    """What is expected of one case with the token that ends texts."""
    tokens = one["written"]
    return tokens[: tokens.index(end)] if end in tokens else tokens


@case
def texts(machine):
    """tokens come as transformers chooses them, until the model ends the text or it is long enough"""
    for model in ("llama", "qwen2"):
        with machine.serving(model=model) as server:
            has("\n".join(server.lines), "model m, version 1: tokens INT32 [-1] to a stream of tokens INT32 [-1]")
            for one in machine.expected(model):
                status, answer = write(server, tokens=one["prompt"], max_tokens=len(one["written"]), ignore_end=True)
                assert status == 200, answer
                if model == "llama":
                    assert answer["tokens"] == one["written"], answer
                first = answer["tokens"]
                status, answer = write(server, tokens=one["prompt"], max_tokens=len(one["written"]))
                wanted = written({"written": first})
                # A text that ends at once has no tokens, and one alone is no list.
                tokens = answer.get("tokens", [])
                assert (status, tokens) in ((200, wanted), (200, *wanted[:1])), answer
                assert answer["finish_reason"] == ("stop" if len(wanted) < len(first) else "length"), answer


@case
def together(machine):
    """many texts run at once and each is as it is alone"""
    with machine.serving(keys=",max-running=4,set=context=100,set=step_tokens=8") as server:
        cases = machine.expected()[:3]
        answers = {}

        def ask(i):
            one = cases[i % len(cases)]
            answers[i] = write(server, tokens=one["prompt"], max_tokens=len(one["written"]), ignore_end=True)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, (status, answer) in answers.items():
            assert (status, answer["tokens"]) == (200, cases[i % len(cases)]["written"]), (i, status, answer)


@case
def chances(machine):
    """with a temperature a seed decides, and other seeds decide otherwise"""
    with machine.serving() as server:
        def one(seed, **more):
            status, answer = write(server, tokens=[1, 2], max_tokens=20, temperature=1.5, seed=seed, ignore_end=True,
                                   **more)
            assert status == 200, answer
            return answer["tokens"]

        assert one(5) == one(5)
        assert len({tuple(one(seed)) for seed in range(6)}) == 6
        assert one(5, top_k=1) == one(6, top_k=1)
        assert one(5, top_p=0.000001) == one(5, top_k=1)


class Events:
    """The events of one answer, as they come."""

    def __init__(self, server, **body):
        self.connection = server.connect()
        self.connection.request("POST", GENERATE + "_stream", json.dumps(body))
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def __iter__(self):
        for line in self.answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self):
        self.answer.close()
        self.connection.close()


@case
def streams(machine):
    """tokens come one by one, and a client that goes makes room for the next one"""
    with machine.serving(keys=",max-running=1,set=context=2000") as server:
        one = machine.expected()[1]
        events = list(Events(server, tokens=one["prompt"], max_tokens=9, ignore_end=True))
        assert [event["tokens"] for event in events] == one["written"][:9], events
        assert [event.get("finish_reason") for event in events] == [None] * 8 + ["length"], events
        endless = Events(server, tokens=[1], max_tokens=1990, ignore_end=True)
        next(iter(endless))
        endless.close()
        status, answer = write(server, tokens=one["prompt"], max_tokens=9, ignore_end=True, timeout=20_000_000)
        assert (status, answer["tokens"]) == (200, one["written"][:9]), answer


@case
def refusals(machine):
    """what a request cannot have is said in words, and costs nothing"""
    with machine.serving(keys=",set=context=20") as server:
        for body, words in (
            ({"tokens": []}, "no tokens were given"),
            ({"tokens": [61]}, "61 is no token; they are 0 to 60"),
            ({"tokens": [-1]}, "-1 is no token"),
            ({"tokens": list(range(20))}, "20 tokens were given; with at least one more, 20 have room"),
            ({"tokens": [1], "temperature": -1}, 'the parameter "temperature" must be a number from 0'),
            ({"tokens": [1], "top_p": 0}, 'the parameter "top_p" must be a number above 0, up to 1'),
            ({"tokens": [1], "max_tokens": 0}, 'the parameter "max_tokens" must be a whole number from 1'),
            ({"tokens": [1], "seed": 0.5}, 'the parameter "seed" must be a whole number'),
            ({"tokens": [1], "beams": 2}, 'the parameter "beams" is none of'),
        ):
            status, answer = write(server, **body)
            assert status == 400, (body, status, answer)
            has(answer["error"], words)
        # What does not fit any more is left out.
        for most in (1000, 2**63 - 1):
            status, answer = write(server, tokens=[1, 2, 3], max_tokens=most, ignore_end=True)
            assert (status, len(answer["tokens"])) == (200, 17), answer
        # Too small to be divided by.
        status, answer = write(server, tokens=[1, 2], max_tokens=3, temperature=1e-38, ignore_end=True)
        assert answer["tokens"] == write(server, tokens=[1, 2], max_tokens=3, ignore_end=True)[1]["tokens"], answer


@case
def shared(machine):
    """a beginning that was asked before is not computed again, and a replica in a cluster tells what it does"""
    with cluster_of(machine.gpuactors, None, "host:1x64MiB", "--plugin", machine.plugin) as cluster:
        with machine.in_cluster(cluster) as server:
            longest = max(machine.expected(), key=lambda one: len(one["prompt"]))
            given = len(longest["prompt"])
            for _ in range(2):
                status, answer = write(server, tokens=longest["prompt"], max_tokens=5, ignore_end=True)
                assert (status, answer["tokens"]) == (200, longest["written"][:5]), answer

            def tells():
                (replica,) = cluster.replicas("llm/decoder")
                return replica.get("metrics", {})

            until(lambda: tells().get("llm_written_tokens_total") == 10, "it tells of what was written")
            told = tells()
            assert told["llm_prompt_tokens_total"] == 2 * given, told
            assert told["llm_shared_tokens_total"] == (given - 1) // 16 * 16, told
            assert told["llm_pages_free"] == told["llm_pages"] > 0, told
            assert told["llm_texts_running"] == told["llm_texts_waiting"] == 0, told


def refused(machine, model, words, devices="host:1x64MiB"):
    done = subprocess.run([machine.serve, "--model", model, "--plugin", machine.plugin, "--devices", devices, "--http",
                           "127.0.0.1:0"], env=machine.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, done
    has(done.stderr, words)


@case
def settings(machine):
    """a model that cannot be served says why before the server starts"""
    for keys, words in (
        (",set=step_tokens=0", 'the setting step_tokens is "0"; it is a whole number from 1'),
        (",set=other=1", 'the setting "other" is none of folder, context, step_tokens and share'),
        (",set=share_beginnings=1", 'the setting share_beginnings is "1"; it is true or false'),
        (",set=folder=/nowhere", "/nowhere/config.json cannot be read"),
    ):
        folder = "" if "folder" in keys else f",set=folder={os.path.join(machine.models, 'llama')}"
        refused(machine, "m,actor=llm/decoder" + folder + keys, words)
    refused(machine, "m,actor=llm/decoder", "set=folder=FOLDER")
    refused(machine, f"m,actor=llm/decoder,gpus=1,set=folder={os.path.join(machine.models, 'llama')}",
            "give it more memory, or less with set=context=N", devices="host:1x300KiB")


if __name__ == "__main__":
    sys.exit(case.run(Machine, 4))
