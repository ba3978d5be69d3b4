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
        self.folder = folder
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


# -- texts ------------------------------------------------------------------------------------------------------------

START, END = "<|im_start|>", "<|im_end|>"
MERGES = ["t h", "h e", "i n", "e r", "a n", "r e", "o n", "a t", "e n", "n d"]
TEMPLATE = ("{% for m in messages %}" + START + "{{ m.role }}\n{{ m.content }}" + END + "\n{% endfor %}"
            "{% if add_generation_prompt %}" + START + "assistant\n{% endif %}")


def symbols():
    """How the tokens of the small models are written, by their numbers; 7 ends texts."""
    plain = list("abcdefghijklmnopqrstuvwxyz.,!?0123456789") + ["\u0120", "\u010a"]
    plain += [merge.replace(" ", "") for merge in MERGES]
    plain += list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")[: 59 - len(plain)]
    return [*plain[:7], END, *plain[7:], START]


def speaking(machine, folder, template=TEMPLATE):
    """The model with a tokenizer in `folder`."""
    written = symbols()
    special = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [dict(id=written.index(text), content=text, **special) for text in (END, START)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {text: i for i, text in enumerate(written)}, "merges": MERGES}}
    os.makedirs(folder)
    for name in ("config.json", "model.safetensors"):
        os.symlink(os.path.realpath(os.path.join(machine.models, "llama", name)), os.path.join(folder, name))
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"eos_token": END, "chat_template": template}, file)
    return folder


def text_of(tokens):
    return "".join(symbols()[token] for token in tokens if token not in (7, 60)).replace("\u0120", " ").replace("\u010a", "\n")


def numbers_of(*written):
    return [symbols().index(text) for text in written]


def events(server, path, body):
    """The events of a stream, with the last one as it is."""
    connection = server.connect()
    connection.request("POST", path, body=json.dumps(body))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    lines = [line[6:] for line in answer.read().decode().split("\n\n") if line]
    connection.close()
    return [json.loads(line) for line in lines[:-1]], lines[-1]


@case
def speaks(machine):
    """with a tokenizer it goes on with texts and answers conversations, over OpenAI's paths too"""
    folder = speaking(machine, os.path.join(machine.folder, "speaking"))
    with machine.serving("--model", f"t,actor=llm/decoder,set=folder={folder},set=texts=true") as server:
        has("\n".join(server.lines), "model t, version 1: text BYTES [1] to a stream of text BYTES [1]")
        said = {}
        for name, tokens in (("text", numbers_of("th", "e", "\u0120", "c", "at")),
                             ("chat", numbers_of(START, "u", "s", "er", "\u010a", "h", "i", END, "\u010a", START, *"assist",
                                                 "an", "t", "\u010a"))):
            status, answer = write(server, tokens=tokens, max_tokens=30, ignore_end=True)
            assert status == 200, answer
            said[name] = (len(tokens), text_of(answer["tokens"]))
        settings = {"max_tokens": 30, "ignore_end": True, "temperature": 0}
        status, answer = server.ask("POST", "/v2/models/t/generate", {"text": "the cat", **settings})
        assert (status, answer["text"], answer["finish_reason"]) == (200, said["text"][1], "length"), (answer, said)
        assert (answer["prompt_tokens"], answer["completion_tokens"]) == (said["text"][0], 30), answer

        body = {"model": "t", "prompt": "the cat", **settings}
        status, answer = server.ask("POST", "/v1/completions", body)
        assert (status, answer["choices"][0]["text"]) == (200, said["text"][1]), answer
        stop = said["text"][1][5:8]
        status, answer = server.ask("POST", "/v1/completions", {**body, "stop": ["never!!", stop]})
        choice = answer["choices"][0]
        before = said["text"][1][:said["text"][1].index(stop)]
        assert (choice["text"], choice["finish_reason"]) == (before, "stop"), (answer, said)

        messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
        body = {"model": "t", "messages": messages, **settings}
        status, answer = server.ask("POST", "/v1/chat/completions", body)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, said["chat"][1]), (answer, said)
        assert answer["usage"] == {"prompt_tokens": said["chat"][0], "completion_tokens": 30,
                                   "total_tokens": said["chat"][0] + 30}, answer
        parts, last = events(server, "/v1/chat/completions",
                             {**body, "stream": True, "stream_options": {"include_usage": True}})
        assert "".join(part["choices"][0]["delta"]["content"] for part in parts[:-1]) == said["chat"][1], parts
        assert parts[-2]["choices"][0]["finish_reason"] == "length" and parts[-1]["usage"] == answer["usage"], parts
        assert last == "[DONE]", last
        # Without a number of tokens, a conversation goes on to its end, or as long as there is room.
        status, answer = server.ask("POST", "/v1/chat/completions", {"model": "t", "messages": messages, "temperature": 0})
        assert answer["choices"][0]["finish_reason"] == "stop" or answer["usage"]["total_tokens"] == 2048, answer

        for path, wrong, words in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "no text"),
            ("/v1/chat/completions", {"messages": []}, 'no "messages"'),
            ("/v1/completions", {"prompt": "a", "stop": ""}, 'the parameter "stop" must be a text of 1 to 1024 bytes'),
            ("/v1/completions", {"prompt": ""}, "no tokens were given"),
        ):
            status, answer = server.ask("POST", path, {"model": "t", **wrong})
            assert status >= 400, (wrong, answer)
            has(answer["error"]["message"], words)


@case
def cannot_speak(machine):
    """a folder without a tokenizer says so, and one without a template it can render answers no conversations"""
    refused(machine, f"m,actor=llm/decoder,set=texts=true,set=folder={os.path.join(machine.models, 'llama')}",
            "tokenizer.json cannot be read")
    folder = speaking(machine, os.path.join(machine.folder, "mute"), template="{% import 'other' as other %}")
    with machine.serving("--model", f"t,actor=llm/decoder,set=folder={folder},set=texts=true") as server:
        status, answer = server.ask("POST", "/v1/chat/completions",
                                    {"model": "t", "messages": [{"role": "user", "content": "hi"}]})
        assert status == 400, answer
        has(answer["error"]["message"], "the model's chat template cannot be rendered here")
        assert server.ask("POST", "/v1/completions", {"model": "t", "prompt": "hi", "max_tokens": 1})[0] == 200


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
        (",set=other=1", 'the setting "other" is none of folder, context, step_tokens, share_beginnings and'),
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
