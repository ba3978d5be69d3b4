"""What --request-log writes of HTTP, and the ids of requests: request_log_test.py SERVER [TEST...]"""

import json
import os
import socket
import sys
import tempfile
import unittest

from serving import Answer, Server, ask, eventually, infer_body, read_chunk, request_of

PROGRAM = sys.argv.pop(1)
LINE = "/v2/models/line/infer"
TALK = "/v2/models/talk"
WAIT = "/v2/models/wait/infer"


class RequestLog(unittest.TestCase):
    @staticmethod
    def lines(file):
        with open(file, encoding="utf-8") as log:
            return [json.loads(line) for line in log]

    def test_each_request_that_asks_a_model_has_a_line(self):
        with tempfile.TemporaryDirectory() as folder, Server(
                PROGRAM, "--request-log", folder + "/log") as server:
            body = infer_body([1, 2, 3, 4])
            answer = ask(server, "POST", LINE, body, ["X-Request-Id: mine-1"])
            self.assertEqual(answer.headers["x-request-id"], "mine-1")
            failed = ask(server, "POST", "/v2/models/none/infer", body, ["X-Request-Id: not a word"])
            self.assertRegex(failed.headers["x-request-id"], "^[0-9a-f]{16}$")
            ask(server, "GET", "/v2/health/ready")
            ask(server, "GET", "/metrics")
            self.assertEqual(ask(server, "GET", "/nothing").status, 404)
            with server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(request_of("POST", TALK + "/generate_stream", b'{"text":"a b"}'))
                self.assertEqual(Answer(stream).status, 200)
                while read_chunk(stream):
                    pass
            with server.connect() as gone:
                gone.sendall(request_of("POST", WAIT, body))
                eventually(lambda: server.metric("gpuactors_serve_http_requests_total") >= 6)
            eventually(lambda: len(self.lines(folder + "/log")) == 5)
            lines = self.lines(folder + "/log")
            self.assertEqual([(line["request"], line["status"]) for line in lines],
                             [("POST " + LINE, 200), ("POST /v2/models/none/infer", 404), ("GET /nothing", 404),
                              ("POST " + TALK + "/generate_stream", 200), ("POST " + WAIT, 499)])
            first = lines[0]
            self.assertEqual((first["front"], first["id"], first["model"], first["version"], first["in_bytes"]),
                             ("http", "mine-1", "line", "1", len(body)))
            self.assertEqual(first["out_bytes"], len(answer.body))
            self.assertRegex(first["client"], r"^127\.0\.0\.1:\d+$")
            self.assertGreaterEqual(lines[3]["seconds"], lines[3]["first_seconds"])
            self.assertEqual((lines[3]["model"], lines[1]["id"]), ("talk", failed.headers["x-request-id"]))
            self.assertEqual(server.metric("gpuactors_serve_request_log_lost_total"), 0)

    def test_a_stream_that_breaks_off_has_the_status_of_what_ended_it(self):
        with tempfile.TemporaryDirectory() as folder, Server(
                PROGRAM, "--request-log", folder + "/log") as server:
            # One whose model fails, one whose client goes and still reads, and one that comes to its end.
            for name, body in (("fails", b'{"text":"a","fail_after":1}'), ("goes", b'{"text":"a","hold_after":1}'),
                               ("ends", b'{"text":"a"}')):
                with server.connect() as connection, connection.makefile("rb") as stream:
                    connection.sendall(request_of("POST", TALK + "/generate_stream", body, ["X-Request-Id: " + name]))
                    self.assertEqual(Answer(stream, False).status, 200)
                    read_chunk(stream)
                    if name == "goes":
                        connection.shutdown(socket.SHUT_WR)
                    while read_chunk(stream):
                        pass
            eventually(lambda: len(self.lines(folder + "/log")) == 3)
            self.assertEqual({line["id"]: line["status"] for line in self.lines(folder + "/log")},
                             {"fails": 500, "goes": 499, "ends": 200})

    def test_a_line_has_the_trace_that_its_client_names_if_it_names_one(self):
        with tempfile.TemporaryDirectory() as folder, Server(
                PROGRAM, "--request-log", folder + "/log") as server:
            body, parent = infer_body([1, 2, 3, 4]), "00-" + "ab" * 16 + "-" + "cd" * 8 + "-00"
            said = {"one": ["traceparent: " + parent], "large": ["TraceParent: " + parent], "none": [],
                    "bad": ["traceparent: " + parent[:-1]], "two": ["traceparent: " + parent] * 2}
            for name, fields in said.items():
                self.assertEqual(ask(server, "POST", LINE, body, [*fields, "X-Request-Id: " + name]).status, 200)
            eventually(lambda: len(self.lines(folder + "/log")) == 5)
            self.assertEqual({line["id"]: line.get("trace") for line in self.lines(folder + "/log")},
                             {"one": "ab" * 16, "large": "ab" * 16, "none": None, "bad": None, "two": None})

    def test_a_log_that_was_renamed_is_made_anew(self):
        with tempfile.TemporaryDirectory() as folder, Server(
                PROGRAM, "--request-log", folder + "/log") as server:
            def asked():
                self.assertEqual(ask(server, "POST", LINE, infer_body([1, 2, 3, 4])).status, 200)
                return os.path.exists(folder + "/log")
            eventually(asked)
            os.rename(folder + "/log", folder + "/log.1")
            eventually(asked)
            eventually(lambda: self.lines(folder + "/log"))
            self.assertTrue(self.lines(folder + "/log.1"))

    def test_without_a_log_only_ids_that_clients_send_come_back(self):
        with Server(PROGRAM) as server:
            self.assertEqual(ask(server, "GET", "/v2", headers=["X-Request-Id: a"]).headers["x-request-id"], "a")
            self.assertNotIn("x-request-id", ask(server, "GET", "/v2").headers)
            self.assertNotIn("request_log", ask(server, "GET", "/metrics").text)


if __name__ == "__main__":
    unittest.main()
