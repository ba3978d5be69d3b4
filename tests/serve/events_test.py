#!/usr/bin/env python3
"""The generate extension over HTTP, answered by the model "talk" of the test server: events_test.py SERVER"""

import http.client
import json
import socket
import subprocess
import sys
import unittest

from serving import DEADLINE, Answer, Server, ask, eventually, infer_body, read_chunk, request_of

PROGRAM = sys.argv.pop(1)
STREAM = "/v2/models/talk/generate_stream"


def body_of(text="abc", **more):
    return json.dumps({"text": text, **more}).encode()


def read_head(stream):
    """The status and the fields of an answer whose length is not known."""
    status = int(stream.readline().split()[1])
    headers = {}
    while (field := stream.readline().decode().rstrip("\r\n")):
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


def event(chunk):
    assert chunk.startswith(b"data: ") and chunk.endswith(b"\n\n"), chunk
    return json.loads(chunk[6:])


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with {status}"

    def test_each_reply_is_an_event_and_the_connection_goes_on(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            for text in ("abc", "x"):
                connection.sendall(request_of("POST", STREAM, body_of(text, id="7")))
                status, headers = read_head(stream)
                self.assertEqual(status, 200)
                self.assertEqual(headers["content-type"], "text/event-stream; charset=utf-8")
                self.assertEqual(headers["transfer-encoding"], "chunked")
                self.assertNotIn("content-length", headers)
                for i, character in enumerate(text):
                    self.assertEqual(event(read_chunk(stream)), {"id": "7", "model_name": "talk", "model_version": "1",
                                                                 "text": character, "numbers": i})
                self.assertEqual(read_chunk(stream), b"")

    def test_the_whole_answer_is_one_object(self):
        answer = ask(self.server, "POST", "/v2/models/talk/versions/1/generate", body_of("Hello"))
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json, {"model_name": "talk", "model_version": "1", "text": "Hello",
                                       "numbers": [0, 1, 2, 3, 4]})
        # Without a reply, the answer still says whose it is.
        for version in ("", "/versions/1"):
            answer = ask(self.server, "POST", f"/v2/models/talk{version}/generate", body_of("", times=0, id="7"))
            self.assertEqual((answer.status, answer.json),
                             (200, {"id": "7", "model_name": "talk", "model_version": "1"}))
        answer = ask(self.server, "POST", "/v2/models/talk/generate", body_of("ab", score=True))
        self.assertEqual(answer.status, 501)
        self.assertIn("/generate_stream", answer.error)

    def test_ordinary_models_answer_too(self):
        wanted = {"model_name": "line", "model_version": "1", "y": [3, 5, 7, 9]}
        answer = ask(self.server, "POST", "/v2/models/line/generate", b'{"x":[[1,2,3,4]]}')
        self.assertEqual((answer.status, answer.json), (200, wanted))
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(request_of("POST", "/v2/models/line/generate_stream", b'{"x":[1,2,3,4]}'))
            self.assertEqual(read_head(stream)[0], 200)
            self.assertEqual(event(read_chunk(stream)), wanted)
            self.assertEqual(read_chunk(stream), b"")

    def test_an_error_before_the_first_reply_has_its_status(self):
        for path, body, status, words in (
                (STREAM, body_of(fail_after=0), 500, "the talk broke off"),
                ("/v2/models/talk/generate", body_of(fail_after=1), 500, "the talk broke off"),
                ("/v2/models/none/generate_stream", body_of(), 404, "none"),
                (STREAM, b'{"txt":["a"]}', 400, "its inputs (\"text\")"),
                (STREAM, b'{"text":["a","b"]}', 400, "text"),
                (STREAM, b'{"text":"a"', 400, "malformed"),
                (STREAM, b"", 400, "no body"),
                ("/v2/models/line/generate", b'{"x":[1,2,3,4],"seed":1}', 400, "has no input \"seed\""),
                ("/v2/models/talk/infer", b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}]}',
                 501, "stream")):
            answer = ask(self.server, "POST", path, body)
            self.assertEqual(answer.status, status, (path, body, answer.text))
            self.assertEqual(answer.headers["content-type"], "application/json")
            self.assertIn(words, answer.error)
        self.assertEqual(ask(self.server, "GET", STREAM).status, 405)
        packed = ask(self.server, "POST", STREAM, b"\x1f\x8b", ["Content-Encoding: gzip"])
        self.assertEqual(packed.status, 415)

    def test_an_error_after_the_first_reply_is_the_last_event(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(request_of("POST", STREAM, body_of(fail_after=1)))
            self.assertEqual(read_head(stream)[0], 200)
            self.assertEqual(event(read_chunk(stream))["text"], "a")
            self.assertEqual(event(read_chunk(stream)), {"error": "the talk broke off"})
            self.assertEqual(read_chunk(stream), b"")
            connection.sendall(request_of("GET", "/v2/health/live"))
            self.assertEqual(Answer(stream).status, 200)

    def test_an_old_client_reads_until_the_end_of_the_connection(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(request_of("POST", STREAM, body_of("ab"), ["Connection: keep-alive"], "1.0"))
            status, headers = read_head(stream)
            self.assertEqual(status, 200)
            self.assertNotIn("transfer-encoding", headers)
            events = stream.read().split(b"\n\n")
            self.assertEqual([event(one + b"\n\n")["text"] for one in events[:-1]], ["a", "b"])
            self.assertEqual(events[-1], b"")

    def test_python_and_curl_read_events(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=DEADLINE)
        connection.request("POST", STREAM, body_of("abc"))
        answer = connection.getresponse()
        texts = [json.loads(line[6:])["text"] for line in answer if line.startswith(b"data: ")]
        self.assertEqual(texts, ["a", "b", "c"])
        connection.close()
        done = subprocess.run(["curl", "-sN", "-d", body_of("abc"), f"http://127.0.0.1:{self.server.http}{STREAM}"],
                              capture_output=True, timeout=DEADLINE, check=True)
        self.assertEqual([event(one + b"\n\n")["text"] for one in done.stdout.split(b"\n\n")[:-1]], ["a", "b", "c"])

    def test_a_client_that_goes_ends_its_talk(self):
        before = self.server.metric("test_talks_cancelled")
        # One that has had an event, one that still waits for the first, and one for the whole answer.
        for path, hold_after in ((STREAM, 1), (STREAM, 0), ("/v2/models/talk/generate", 1)):
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(request_of("POST", path, body_of(hold_after=hold_after)))
                if path == STREAM and hold_after:
                    self.assertEqual(read_head(stream)[0], 200)
                    read_chunk(stream)
                eventually(lambda: self.server.metric("test_talks_held") == 1)
            eventually(lambda: self.server.metric("test_talks_held") == 0)
        eventually(lambda: self.server.metric("test_talks_cancelled") == before + 3)
        eventually(lambda: self.server.metric("gpuactors_serve_held_bytes") == 0)

    def test_who_does_not_read_holds_up_only_its_own_talk(self):
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(DEADLINE)
            connection.connect(("127.0.0.1", self.server.http))
            before = self.server.metric("test_talk_replies")
            connection.sendall(request_of("POST", STREAM, body_of(bytes=1 << 20, times=1_000)))
            eventually(lambda: self.server.metric("test_talk_replies") > before)

            # It stops to ask for more: what fits into the buffers of the system is far less than all.
            def stands_still():
                asked = self.server.metric("test_talk_replies")
                for _ in range(50):
                    self.assertEqual(ask(self.server, "POST", "/v2/models/line/infer", infer_body([1, 2, 3, 4])).status, 200)
                return self.server.metric("test_talk_replies") == asked

            eventually(stands_still)
            self.assertLess(self.server.metric("test_talk_replies") - before, 500)
            self.assertLess(self.server.metric("gpuactors_serve_held_bytes"), 8 << 20)
        eventually(lambda: self.server.metric("gpuactors_serve_held_bytes") == 0)


class FullServer(unittest.TestCase):
    def test_small_events_go_on_where_large_ones_are_refused(self):
        with Server(PROGRAM, "--held-bytes", "6000") as server, \
                server.connect() as connection, connection.makefile("rb") as stream:
            # More than the buffers of the system hold: the talk goes on when the server is full.
            connection.sendall(request_of("POST", STREAM, body_of(bytes=2_500, times=10_000)))
            self.assertEqual(read_head(stream)[0], 200)
            with server.connect() as other:
                other.sendall(request_of("POST", "/v2/models/line/infer", b"{", ["Content-Length: 5000"]))
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") > 4_000)
                for _ in range(10_000):
                    self.assertEqual(len(event(read_chunk(stream))["text"]), 2_500)
                self.assertEqual(read_chunk(stream), b"")
        with Server(PROGRAM, "--held-bytes", "6000") as server:
            for path in (STREAM, "/v2/models/talk/generate"):
                answer = ask(server, "POST", path, body_of(bytes=8_000, times=1))
                self.assertEqual(answer.status, 503, answer.text)
                self.assertIn("holds as many bytes", answer.error)


class SlowReaders(unittest.TestCase):
    def test_a_client_that_does_not_read_is_cut_off(self):
        with Server(PROGRAM, "--transfer-ms", "500") as server:
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(DEADLINE)
                connection.connect(("127.0.0.1", server.http))
                connection.sendall(request_of("POST", STREAM, body_of(bytes=1 << 20, times=1_000)))
                eventually(lambda: server.metric("test_talks_cancelled") == 1)
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") == 0)

    def test_a_talk_comes_to_its_end_when_the_server_does(self):
        with Server(PROGRAM, "--grace-ms", "20000") as server:
            with server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(request_of("POST", STREAM, body_of(times=2_000, bytes=10)))
                self.assertEqual(read_head(stream)[0], 200)
                server.process.stdin.close()
                count = 0
                while read_chunk(stream):
                    count += 1
                self.assertEqual(count, 2_000)

    def test_a_talk_that_does_not_end_is_given_up_when_the_server_ends(self):
        with Server(PROGRAM, "--grace-ms", "100") as server:
            with server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(request_of("POST", STREAM, body_of(hold_after=1)))
                self.assertEqual(read_head(stream)[0], 200)
                read_chunk(stream)
                server.process.stdin.close()
                self.assertEqual(event(read_chunk(stream)), {"error": "the client has gone"})


if __name__ == "__main__":
    unittest.main()
