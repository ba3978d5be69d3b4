#!/usr/bin/env python3
"""Serves the example that takes texts in batches: texts_test.py GPUACTORS-SERVE PLUGIN [CASE]

PLUGIN is apps/examples/served_texts.cpp as a library."""

import json
import math
import os
import struct
import sys
import threading

from program_support import Cases, DEADLINE, environment, has, serving

PATH = "/v2/models/language/infer"
LANGUAGES = """english the quick brown fox jumps over the lazy dog and then it sleeps all day in the warm sun
german der schnelle braune Fuchs springt über den faulen Hund und schläft dann den ganzen Tag in der warmen Sonne
french le rapide renard brun saute par dessus le chien paresseux et puis il dort toute la journée au soleil
"""
case = Cases()


class Machine:
    """The program, and a folder with the file."""

    def __init__(self, serve, plugin, folder):
        self.serve = serve
        self.plugin = plugin
        self.env = environment(folder)
        self.path = os.path.join(folder, "languages.txt")
        with open(self.path, "w", encoding="utf-8") as out:
            out.write(LANGUAGES)

    def serving(self, keys=""):
        return serving(self.serve, "--model", f"language={self.path},actor=examples/language{keys}", "--plugin",
                       self.plugin, "--devices", "host:1x64MiB", env=self.env)


def triples(text):
    """The row of a text, computed in another way than the example does it."""
    padded = b" " + bytes(c + 32 if 65 <= c <= 90 else c for c in text.encode()) + b" "
    row = {}
    for i in range(len(padded) - 2):
        code = padded[i] << 16 | padded[i + 1] << 8 | padded[i + 2]
        column = (code * 2654435761 % 2**32 >> 16) % 1024
        row[column] = row.get(column, 0) + 1
    return row


def expected(text):
    """The language that the example must name, and its score."""
    own = triples(text)

    def likeness(other):
        dot = sum(count * other.get(column, 0) for column, count in own.items())
        return dot / math.sqrt(sum(c * c for c in own.values()) * sum(c * c for c in other.values())) if own else 0

    scores = {line.split(" ", 1)[0]: likeness(triples(line.split(" ", 1)[1])) for line in LANGUAGES.splitlines()}
    best = max(scores, key=scores.get)
    return (best, scores[best]) if scores[best] > 0 else ("", 0)


def check(reply, texts):
    outputs = {output["name"]: output for output in reply["outputs"]}
    assert [(output["datatype"], output["shape"]) for output in reply["outputs"]] == [("BYTES", [len(texts)]),
                                                                                     ("FP32", [len(texts)])], reply
    for text, language, score in zip(texts, outputs["language"]["data"], outputs["score"]["data"]):
        wanted = expected(text)
        assert language == wanted[0] and abs(score - wanted[1]) < 1e-5, (text, language, score, wanted)


def ask(server, texts, connection=None):
    return server.ask("POST", PATH, {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(texts)],
                                                 "data": texts}]}, connection)


def elements(texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def ask_raw(server, shape, data, outputs=None):
    """A request in the form of the binary data extension: the status, the JSON and what is behind it."""
    head = json.dumps({"inputs": [{"name": "text", "datatype": "BYTES", "shape": shape,
                                   "parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}, **(outputs or {})}).encode()
    connection = server.connect()
    connection.request("POST", PATH, head + data, {"Inference-Header-Content-Length": str(len(head))})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    size = int(answer.headers.get("Inference-Header-Content-Length", len(body)))
    return answer.status, json.loads(body[:size]), body[size:]


TEXTS = ["the dog sleeps", "der Hund schläft", "le chien dort", "", "Ω", "THE FOX AND THE DOG"]


@case
def serves(machine):
    """texts come as strings of JSON and as binary data, in requests of several rows, and answers go back likewise"""
    with machine.serving() as server:
        has("\n".join(server.lines), "model language, version 1: text BYTES [-1] to language BYTES [-1] and score FP32 "
            "[-1]; 1 replica of 0.25; batches of up to 32 rows")
        assert server.ask("GET", "/v2/models/language")[1]["inputs"] == [
            {"name": "text", "datatype": "BYTES", "shape": [-1]}]
        status, reply = ask(server, TEXTS)
        assert status == 200, reply
        check(reply, TEXTS)
        assert [expected(text)[0] for text in TEXTS] == ["english", "german", "french", "", "", "english"]
        status, reply, raw = ask_raw(server, [2], elements([b"the dog", b"le chien"]))
        assert status == 200, reply
        sizes = [output["parameters"]["binary_data_size"] for output in reply["outputs"]]
        assert raw[:sizes[0]] == elements([b"english", b"french"]), (reply, raw)
        assert sizes[1] == 8 == len(raw) - sizes[0], (reply, raw)
        for score, text in zip(struct.unpack("<2f", raw[sizes[0]:]), ("the dog", "le chien")):
            assert abs(score - expected(text)[1]) < 1e-5, (score, text)
        # Texts in need not be text: they are bytes.
        assert ask_raw(server, [1], elements([b"\xff\x00\xfe"]))[0] == 200
        # The body as one text, without JSON.
        connection = server.connect()
        connection.request("POST", PATH, "der Hund".encode(), {"Inference-Header-Content-Length": "0"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200 and elements([b"german"]) in body, body
        connection.close()
        status, reply = server.ask("POST", "/v2/models/language/generate", {"text": "the dog"})
        assert (status, reply["language"]) == (200, "english"), reply


@case
def refuses(machine):
    """lengths that do not fit, and texts that no batch could have, are refused with the numbers"""
    with machine.serving() as server:
        for shape, data, words in (([1], b"\x05\0\0\0abcd", "has 8 bytes, which end within element 0 of 1"),
                                   ([1], b"\xff\xff\xff\xffabcd", "has 8 bytes, which end within element 0 of 1"),
                                   ([2], elements([b"ab"]), "has 6 bytes, which end within element 1 of 2"),
                                   ([1], elements([b"a", b""]), "has 4 bytes behind its 1 elements"),
                                   ([1], b"abc", "has 3 bytes, which end within element 0 of 1"),
                                   ([1, 1], elements([b"ab"]), "in the shape [rows], not [1,1]"),
                                   ([33], elements([b""] * 33), "takes 1 to 32 rows in a request, not 33"),
                                   ([0], b"", "takes 1 to 32 rows in a request, not 0"),
                                   ([2], elements([bytes(2 << 20)] * 2), "takes inputs of up to 4194048 bytes in a "
                                    "request, not of 4194312")):
            status, reply, _ = ask_raw(server, shape, data)
            assert status == 400, reply
            has(reply["error"], words)
        status, reply = ask(server, [1])
        assert status == 400, reply
        has(reply["error"], "is not a string")
        status, reply = ask(server, ["x" * 100_001])
        assert status == 400, reply
        has(reply["error"], "a text has 100001 bytes: it may have 100000")
        assert ask(server, ["the dog"])[0] == 200


@case
def batches(machine):
    """requests of several clients share a batch, and one with a text that is too long fails alone"""
    # A batch waits for an hour unless it is full, so the six rows go together.
    with machine.serving(",set=longest=100,max-batch=6,max-delay=3600000") as server:
        for last, status in (("der Hund", 200), ("x" * 101, 400)):
            requests = [TEXTS[:2], TEXTS[2:5], [last]]
            before = server.metric("nv_inference_exec_count")
            answers = {}
            threads = [threading.Thread(target=lambda i=i: answers.update({i: ask(server, requests[i])}))
                       for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            for i in range(3):
                assert answers[i][0] == (status if i == 2 else 200), answers
                if answers[i][0] == 200:
                    check(answers[i][1], requests[i])
            ran = server.metric("nv_inference_exec_count") - before
            assert ran == (1 if status == 200 else 2), ran
        has(answers[2][1]["error"], "a text has 101 bytes: it may have 100")
        stats = server.ask("GET", "/v2/models/language/stats")[1]["model_stats"][0]["batch_stats"]
        assert {one["batch_size"]: one["compute_infer"]["count"] for one in stats} == {2: 1, 3: 1, 6: 1}, stats


if __name__ == "__main__":
    sys.exit(case.run(Machine, 2))
