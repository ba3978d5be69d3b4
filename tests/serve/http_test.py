"""What HTTP clients see of the fronts, spoken by hand: http_test.py SERVER [TEST...]"""

import contextlib
import gzip
import itertools
import json
import os
import re
import select
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib

from serving import (Answer, Server, ask, eventually, infer_body, make_certificate, read_chunk, request_of,
                     write_tokens)

PROGRAM = sys.argv.pop(1)
LINE = "/v2/models/line/infer"
TALK = "/v2/models/talk"
WAIT = "/v2/models/wait/infer"
TOKEN = "0123456789abcdef"


def raw_infer(floats, **changed):
    """Headers and body of a binary request to the model "line"."""
    data = struct.pack(f"<{len(floats)}f", *floats)
    head = {"name": "x", "datatype": "FP32", "shape": [len(floats) // 4, 4],
            "parameters": {"binary_data_size": len(data)}, **changed}
    text = json.dumps({"inputs": [head], "parameters": {"binary_data_output": True}}).encode()
    return [f"Inference-Header-Content-Length: {len(text)}"], text + data


class WithServer(unittest.TestCase):
    """One server for all tests of a class."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, *cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with {status}"

    def ask(self, *arguments, **named):
        return ask(self.server, *arguments, **named)

    def refused(self, status, answer, words=""):
        self.assertEqual(answer.status, status, answer.body)
        self.assertIn(words, answer.error)
        self.assertGreater(len(answer.error), 10)


class Requests(WithServer):
    def test_health_and_metadata(self):
        self.assertEqual(self.ask("GET", "/v2/health/live").json, {"live": True})
        self.assertEqual(self.ask("GET", "/v2/health/ready").json, {"ready": True})
        self.assertIn("binary_tensor_data", self.ask("GET", "/v2").json["extensions"])
        self.assertEqual(self.ask("GET", "/v2/models/line").json["inputs"],
                         [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertEqual(self.ask("GET", "/v2/models/line/versions/1/ready").json, {"name": "line", "ready": True})
        self.assertEqual(self.ask("GET", "/v2/models/line/config").json["max_batch_size"], 64)
        self.assertEqual(len(self.ask("GET", "/v2/models/stats").json["model_stats"]), 5)
        self.assertIn("nv_inference_count", self.ask("GET", "/metrics").text)

    def test_answers_are_counted_by_status(self):
        def count(status):
            found = re.search(rf'^gpuactors_serve_http_answers_total{{status="{status}"}} (\d+)$',
                              self.ask("GET", "/metrics").text, re.M)
            return int(found[1]) if found else 0
        before = count(404)
        self.refused(404, self.ask("GET", "/nothing"))
        self.refused(404, self.ask("GET", "/v2/models/none"))
        self.assertEqual(count(404), before + 2)
        self.assertGreater(count(200), 0)

    def test_json_and_binary_answers(self):
        answer = self.ask("POST", LINE, infer_body([1, 2, 3, 4], id="7"))
        self.assertEqual(answer.json["outputs"][0]["data"], [3, 5, 7, 9])
        self.assertEqual(answer.json["id"], "7")
        headers, body = raw_infer([1, 2, 3, 4] * 64)
        answer = self.ask("POST", LINE, body, headers)
        size = int(answer.headers["inference-header-content-length"])
        self.assertEqual(json.loads(answer.body[:size])["outputs"][0]["shape"], [64, 4])
        self.assertEqual(struct.unpack("<256f", answer.body[size:]), (3, 5, 7, 9) * 64)

    def test_raw_request(self):
        answer = self.ask("POST", LINE, struct.pack("<4f", 1, 2, 3, 4), ["Inference-Header-Content-Length: 0"])
        size = int(answer.headers["inference-header-content-length"])
        self.assertEqual(struct.unpack("<4f", answer.body[size:]), (3, 5, 7, 9))
        self.refused(400, self.ask("POST", LINE, b"12345", ["Inference-Header-Content-Length: 0"]), "5 bytes")

    def test_bad_inferences_are_refused_with_a_sentence(self):
        good = infer_body([1, 2, 3, 4])
        self.refused(404, self.ask("POST", "/v2/models/none/infer", good), "none")
        self.refused(404, self.ask("POST", "/v2/models/line/versions/9/infer", good))
        self.refused(400, self.ask("POST", LINE, good[:-5]), "malformed")
        self.refused(400, self.ask("POST", LINE, b""), "no body")
        self.refused(400, self.ask("POST", LINE), "no body")
        self.refused(400, self.ask("POST", LINE, b"\x00\xff" * 500), "malformed")
        self.refused(400, self.ask("POST", LINE, infer_body([1, 2, 3], [1, 4])), "3 elements")
        self.refused(400, self.ask("POST", LINE, infer_body([1, 2, 3, 4], [-1, 4])), "negative")
        self.refused(400, self.ask("POST", LINE, infer_body([1, 2, 3, 4], [2**40, 2**40])), "more than")
        self.refused(400, self.ask("POST", LINE, infer_body([1, 2, 3, 4], [4])), "[-1,4]")
        for header in ("-1", "x", "1e3", "99999999999999999999", "5000"):
            headers, body = raw_infer([1, 2, 3, 4])
            self.refused(400, self.ask("POST", LINE, body, [f"Inference-Header-Content-Length: {header}"]))
        headers, body = raw_infer([1, 2, 3, 4], parameters={"binary_data_size": 2**63})
        self.refused(400, self.ask("POST", LINE, body, headers))
        headers, body = raw_infer([1, 2, 3, 4])
        self.refused(400, self.ask("POST", LINE, body + b"1", headers), "follow")

    def test_paths_and_methods(self):
        for path in ("/", "/v3", "/v2/models", "/v2/models/line/infer/more", "/%"):
            self.refused(404, self.ask("GET", path), "/v2")
        answer = self.ask("GET", LINE)
        self.refused(405, answer, "POST")
        self.assertEqual(answer.headers["allow"], "POST")
        self.refused(405, self.ask("DELETE", "/v2"), "GET")
        self.refused(415, self.ask("POST", LINE, b"{}", ["Content-Encoding: br"]), "gzip")
        answer = self.ask("HEAD", "/v2")
        self.assertEqual(answer.status, 200)
        self.assertEqual(int(answer.headers["content-length"]), len(self.ask("GET", "/v2").body))

    def test_repository(self):
        index = self.ask("POST", "/v2/repository/index", b"{}").json
        self.assertIn({"name": "line", "version": "1", "state": "READY", "reason": ""}, index)
        self.assertEqual(self.ask("POST", "/v2/repository/models/echo/unload").status, 200)
        answer = self.ask("GET", "/v2/models/echo/ready")
        self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))
        self.assertEqual(answer.json, {"name": "echo", "ready": False, "reason": "unloaded"})
        self.assertEqual(self.ask("GET", "/v2/health/ready").json,
                         {"ready": False, "reason": "not all models serve: POST v2/repository/index says why"})
        self.assertEqual(len(self.ask("POST", "/v2/repository/index", b'{"ready":true}').json), 4)
        self.assertEqual(self.ask("POST", "/v2/repository/models/echo/load",
                                  b'{"parameters":{"a":"b","n":3}}').status, 200)
        self.assertIn('test_load_parameter{name="n",value="3"}', self.ask("GET", "/metrics").text)
        self.assertEqual(self.ask("GET", "/v2/models/echo/ready").status, 200)
        self.refused(404, self.ask("POST", "/v2/repository/models/none/load"))
        self.refused(400, self.ask("POST", "/v2/repository/models/line/load", b"{"))

    def test_packed_bodies(self):
        body = infer_body([1, 2, 3, 4])
        for encoding, packed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
            answer = self.ask("POST", LINE, packed, [f"Content-Encoding: {encoding}"])
            self.assertEqual(answer.json["outputs"][0]["data"], [3, 5, 7, 9])
            self.refused(400, self.ask("POST", LINE, packed[:-6], [f"Content-Encoding: {encoding}"]), "too early")
            self.refused(400, self.ask("POST", LINE, packed + b"x", [f"Content-Encoding: {encoding}"]), "behind")
        self.refused(400, self.ask("POST", LINE, body, ["Content-Encoding: gzip"]), "unpacked")
        for encoding, sent in (("Identity", body), ("GZip", gzip.compress(body))):
            self.assertEqual(self.ask("POST", LINE, sent, [f"Content-Encoding: {encoding}"]).status, 200)

    def test_large_json_is_read_and_written(self):
        values = [float(i % 7) for i in range(200_000)]
        body = json.dumps({"inputs": [{"name": "v", "datatype": "FP64", "shape": [len(values)], "data": values}]})
        answer = self.ask("POST", "/v2/models/echo/infer", body.encode())
        self.assertEqual(answer.json["outputs"][0]["data"], values)

    def test_every_type_comes_back_as_it_was(self):
        for datatype, values in (("BOOL", [True, False]), ("UINT8", [0, 255]), ("INT8", [-128, 127]),
                                 ("UINT16", [65535]), ("INT16", [-32768]), ("UINT32", [2**32 - 1]),
                                 ("INT32", [-2**31]), ("UINT64", [2**64 - 1]), ("INT64", [-2**63]),
                                 ("FP32", [0.5, -3]), ("FP64", [1e300]), ("BYTES", ["a\"é\n", ""])):
            body = {"inputs": [{"name": "v", "datatype": datatype, "shape": [len(values)], "data": values}]}
            answer = self.ask("POST", "/v2/models/echo/infer", json.dumps(body).encode())
            self.assertEqual(answer.json["outputs"][0]["data"], values, datatype)

    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("there is no curl")
        url = f"http://127.0.0.1:{self.server.http}"
        body = infer_body([1, 2, 3, 4] * 60_000, [60_000, 4])  # large enough for curl to ask first: 100-continue
        shown = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "--data-binary", "@-", url + LINE], input=body,
                               stdout=subprocess.PIPE, check=True).stdout
        self.assertTrue(shown.endswith(b"400"), shown)
        shown = subprocess.run(["curl", "-sS", "-d", infer_body([1, 2, 3, 4]).decode(), url + LINE],
                               stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(json.loads(shown)["outputs"][0]["data"], [3, 5, 7, 9])


class Connections(WithServer):
    OPTIONS = ("--request-bytes", "100000", "--connections", "20")

    def test_requests_one_behind_the_other_are_answered_in_order(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            requests = [request_of("POST", LINE, infer_body([i, 0, 0, 0])) for i in range(50)]
            connection.sendall(b"".join(requests))
            for i in range(50):
                self.assertEqual(Answer(stream).json["outputs"][0]["data"][0], 2 * i + 1)
            # An error of the request itself does not end the connection.
            connection.sendall(request_of("POST", LINE, b"{") + request_of("GET", "/nothing"))
            self.assertEqual([Answer(stream).status, Answer(stream).status], [400, 404])
            connection.sendall(request_of("GET", "/v2", headers=["Connection: close"]))
            self.assertEqual(Answer(stream).headers["connection"], "close")
            self.assertEqual(stream.read(), b"")

    def test_large_requests_one_behind_the_other_keep_their_bodies(self):
        requests = []
        for i in range(40):
            body = infer_body([i, 0, 0, 0]).replace(b'"inputs"', b" " * (i * 2_000) + b'"inputs"')
            requests.append(request_of("POST", LINE, body, ["Expect: 100-continue"] if i % 7 == 3 else []))
        sent = b"".join(requests)
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            def send():
                for at in range(0, len(sent), 1_500):
                    connection.sendall(sent[at:at + 1_500])
            sender = threading.Thread(target=send)
            sender.start()
            for i in range(40):
                answer = Answer(stream)
                while answer.status == 100:
                    answer = Answer(stream)
                self.assertEqual(answer.json["outputs"][0]["data"][0], 2 * i + 1)
            sender.join()

    def test_bodies_in_chunks_and_in_pieces(self):
        body = infer_body([1, 2, 3, 4])
        chunked = b"".join(b"%x;a=b\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            for _ in range(2):
                sent = request_of("POST", LINE, chunked + b"0\r\n\r\n", ["Transfer-Encoding: chunked"])
                for i in range(0, len(sent), 50):
                    connection.sendall(sent[i:i + 50])
                self.assertEqual(Answer(stream).json["outputs"][0]["data"], [3, 5, 7, 9])
            connection.sendall(request_of("POST", LINE, b"xyz\r\n", ["Transfer-Encoding: chunked"]))
            self.refused(400, Answer(stream), "chunks")

    def test_a_client_that_asks_before_it_sends(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            body = infer_body([1, 2, 3, 4])
            whole = request_of("POST", LINE, body, ["Expect: 100-continue"])
            connection.sendall(whole[:-len(body)])
            self.assertEqual(Answer(stream).status, 100)
            connection.sendall(body)
            self.assertEqual(Answer(stream).status, 200)
            connection.sendall(request_of("POST", LINE, None, ["Expect: 100-continue", "Content-Length: 100001"]))
            self.refused(413, Answer(stream), "100000 bytes")
            self.assertEqual(stream.read(), b"")

    def test_old_clients(self):
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(request_of("GET", "/v2", version="1.0", headers=["Connection: keep-alive"]))
            self.assertEqual(Answer(stream).headers["connection"], "keep-alive")
            connection.sendall(request_of("GET", "/v2", version="1.0"))
            self.assertEqual(Answer(stream).status, 200)
            self.assertEqual(stream.read(), b"")

    def test_what_is_no_http_is_answered_and_closed(self):
        for sent, status in ((b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400), (b"GET\r\n\r\n", 400),
                             (b"GET /v2 HTTP/1.1\r\nbad field\r\n\r\n", 400),
                             (b"GET /v2 HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 431),
                             (request_of("POST", LINE, b"{}", ["Content-Length: 2", "Content-Length: 3"]), 400),
                             (request_of("POST", LINE, b"{}", ["Content-Length: -2"]), 400),
                             (request_of("POST", LINE, b"{}", ["Content-Length: 2", "Transfer-Encoding: chunked"]), 400),
                             # Where such a body ends, another server in front of it may see otherwise.
                             (request_of("POST", LINE, b"{}", ["Transfer-Encoding: gzip"]), 400),
                             (request_of("POST", LINE, b"0\r\n\r\n", ["Transfer-Encoding: chunked, gzip"]), 400),
                             (request_of("POST", LINE, b"0\r\n\r\n", ["Transfer-Encoding: gzip, chunked"]), 400),
                             (request_of("POST", LINE, b"0\r\n\r\n", ["Transfer-Encoding: chunked"] * 2), 400),
                             (request_of("POST", LINE, b"{}", ["Content-Length: 2", "Transfer-Encoding:"]), 400),
                             (request_of("GET", "/v2", headers=["Transfer-Encoding: identity"]), 400),
                             (request_of("GET", "/v2", b"0\r\n\r\n", ["Transfer-Encoding: chunked"], "1.0"), 400)):
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(sent)
                self.refused(status, Answer(stream))
                self.assertEqual(stream.read(), b"")

    def test_a_request_is_for_one_host(self):
        for sent, status in ((b"GET /v2 HTTP/1.1\r\n\r\n", 400), (b"GET /v2 HTTP/1.0\r\n\r\n", 200),
                             (b"GET /v2 HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 200),
                             (request_of("GET", "/v2", headers=["Host: localhost", "Host: localhost"]), 400),
                             (request_of("GET", "/v2", headers=["Host: localhost"] * 2, version="1.0"), 400)):
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(sent)
                answer = Answer(stream)
                self.assertEqual(answer.status, status, sent)
                self.assertEqual(stream.read(), b"")
                if status == 400:
                    self.refused(400, answer, "Host")

    def test_empty_lines_before_a_request_are_none_of_it(self):
        post = request_of("POST", LINE, infer_body([1, 2, 3, 4]))
        for sent in ([b"\r\n" + post], [post + b"\r\n" + post, b"\r\n" + post], [b"\r", b"\n" + post, b"\r\n\r\n" + post]):
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in sent:
                    connection.sendall(piece)
                    for _ in range(piece.count(b"POST")):
                        self.assertEqual(Answer(stream).status, 200)
        with self.server.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"\n" + post)
            self.refused(400, Answer(stream))

    def test_a_header_is_bounded_as_a_whole(self):
        for name in (b"X", b"Transfer-Encoding"):
            def field(size, name=name):
                return name + b": " + b"y" * (size - len(name) - 4) + b"\r\n"
            line = b"GET /v2 HTTP/1.1\r\n"
            # As the server reads them: each piece ends with the first byte of a field, and those before are complete.
            sent = line + field(2_047 - len(line)) + field(2_047) * 30 + b"\r\n"
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(OSError):
                    for begin, end in itertools.pairwise([0, *range(2_048, len(sent), 2_047), len(sent)]):
                        connection.sendall(sent[begin:end])
                        if select.select([connection], [], [], 0.01)[0]:
                            break  # it has answered
                self.refused(431, Answer(stream))
                self.assertEqual(stream.read(), b"")

    def test_fields_behind_a_body_do_not_count(self):
        body = infer_body([1, 2, 3, 4])
        chunks = b"%x\r\n%s\r\n0\r\nInference-Header-Content-Length: 0\r\n\r\n" % (len(body), body)
        answer = self.ask("POST", LINE, chunks, ["Transfer-Encoding: chunked"])
        self.assertEqual(answer.status, 200, answer.body)

    def test_requests_that_are_too_large(self):
        huge = b"1" * 100_001
        self.refused(413, self.ask("POST", LINE, huge), "100000 bytes")
        chunks = b"%x\r\n%s\r\n" % (60_000, huge[:60_000])
        self.refused(413, self.ask("POST", LINE, chunks * 2, ["Transfer-Encoding: chunked"]), "100000 bytes")
        self.refused(413, self.ask("POST", LINE, gzip.compress(b" " * 50_000_000), ["Content-Encoding: gzip"]))
        # What asks no model has a bound of its own.
        for method, path in (("POST", "/v2/repository/models/echo/load"), ("POST", "/v2/repository/models/echo/unload"),
                             ("POST", "/v2/repository/index"), ("GET", "/v2/health/live"), ("GET", "/v2")):
            self.refused(413, self.ask(method, path, b" " * 65_537), "65536 bytes")
            chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (65_537, b" " * 65_537)
            self.refused(413, self.ask(method, path, chunks, ["Transfer-Encoding: chunked"]), "65536 bytes")
        self.assertEqual(self.ask("POST", "/v2/repository/index", b" " * 65_536).status, 200)

    def test_loads_with_too_many_parameters(self):
        for count, status in ((64, 200), (65, 400)):
            body = json.dumps({"parameters": {f"p{i}": i for i in range(count)}}).encode()
            answer = self.ask("POST", "/v2/repository/models/echo/load", body)
            self.assertEqual(answer.status, status, answer.body)
        self.refused(400, answer, "more than 64 parameters")

    def test_slow_clients_are_told_so(self):
        with Server(PROGRAM, "--transfer-ms", "1000") as server:
            for sent, part in ((b"GET /v2 HT", "header"), (request_of("POST", LINE, b"{", ["Content-Length: 100"]), "body")):
                with server.connect() as connection, connection.makefile("rb") as stream:
                    connection.sendall(sent)
                    self.refused(408, Answer(stream), part)

    def test_an_inference_ends_with_its_timeout_or_its_client(self):
        body = infer_body([1, 2, 3, 4], parameters={"timeout": 20_000})
        self.refused(504, self.ask("POST", WAIT, body), "timeout")
        before = self.server.metric("test_cancelled")
        with self.server.connect() as connection:
            connection.sendall(request_of("POST", WAIT, infer_body([1, 2, 3, 4])))
            eventually(lambda: self.server.metric("test_waiting") == 1)
        eventually(lambda: self.server.metric("test_cancelled") == before + 1)

    def test_one_connection_too_many_is_told_so(self):
        def answer_on(connection, path):
            connection.sendall(request_of("GET", path))
            with connection.makefile("rb") as stream:
                return Answer(stream)

        kept = [self.server.connect()]
        # Those of other tests have gone. Asked over one of ours: another one would count for a moment longer.
        eventually(lambda: "\ngpuactors_serve_http_connections 1\n" in answer_on(kept[0], "/metrics").text)
        kept += [self.server.connect() for _ in range(19)]
        try:
            for connection in kept:  # a request makes each one somebody who may stay
                self.assertEqual(answer_on(connection, "/v2").status, 200)
            with self.server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(request_of("GET", "/v2"))
                answer = Answer(stream)
                self.refused(503, answer, "connections")
                self.assertEqual(answer.headers["retry-after"], "1")
            with kept[0].makefile("rb") as stream:
                kept[0].sendall(request_of("GET", "/v2"))
                self.assertEqual(Answer(stream).status, 200)
        finally:
            for connection in kept:
                connection.close()
        eventually(self.has_room)

    def has_room(self):
        try:
            return self.ask("GET", "/v2").status == 200
        except OSError:
            return False


class End(unittest.TestCase):
    def test_a_server_that_ends_gives_up_what_takes_too_long(self):
        server = Server(PROGRAM)
        with server, server.connect() as waiting, waiting.makefile("rb") as stream, server.connect():
            waiting.sendall(request_of("POST", WAIT, infer_body([1, 2, 3, 4])))
            eventually(lambda: server.metric("test_waiting") == 1)
            self.assertEqual(server.stop(), 0)
            self.assertEqual(Answer(stream).status, 499)


class Addresses(unittest.TestCase):
    def test_it_listens_at_all_addresses_of_a_name(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("this machine has no IPv6")
        with tempfile.TemporaryDirectory() as folder:
            # Names of our own, the first two for one address; 192.0.2.1 is nobody's.
            with open(folder + "/hosts", "w", encoding="ascii") as hosts:
                hosts.write("127.0.0.1 localhost\n::1 localhost\n127.0.0.1 localhost\n192.0.2.1 localhost\n")
            with open(folder + "/serve", "w", encoding="ascii") as script:
                script.write(f'#!/bin/sh\nexec unshare -rm sh -c \'mount --bind {folder}/hosts /etc/hosts && '
                             f'exec "$@"\' _ {PROGRAM} "$@"\n')
            os.chmod(folder + "/serve", 0o700)
            if subprocess.run([folder + "/serve", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode != 0:
                self.skipTest("this machine lends nobody names of his own")
            with Server(folder + "/serve", "--http-host", "localhost") as server:
                for address in ("127.0.0.1", "::1"):
                    with socket.create_connection((address, server.http), 30) as connection, \
                            connection.makefile("rb") as stream:
                        connection.sendall(request_of("GET", "/v2"))
                        self.assertEqual(Answer(stream).status, 200)


class Access(unittest.TestCase):
    def test_pages_of_other_sites_cannot_ask_a_server_without_tokens(self):
        with Server(PROGRAM) as server:
            own = f"127.0.0.1:{server.http}"
            load = "/v2/repository/models/line/unload"
            for headers in (["Origin: https://evil.example"], ["Origin: null"], ["Host: evil.example"],
                            [f"Host: evil.example:{server.http}", f"Origin: http://evil.example:{server.http}"],
                            [f"Host: {own}", "Origin: http://127.0.0.1:1"], [f"Host: {own}", f"Origin: https://{own}"],
                            ["Host: 127.evil.example"], ["Host: localhost.evil.example"]):
                for method, path in (("POST", load), ("POST", LINE), ("POST", f"{TALK}/generate"),
                                     ("POST", f"{TALK}/generate_stream"), ("GET", "/v2"), ("GET", "/metrics")):
                    answer = ask(server, method, path, b"{}" if method == "POST" else None, headers)
                    self.assertEqual(answer.status, 403, headers)
                    self.assertIn("Host must be its own address", answer.error)
                # Whoever starts and stops it may ask under any name.
                self.assertEqual(ask(server, "GET", "/v2/health/ready", headers=headers).status, 200)
            for headers in ([f"Host: {own}", f"Origin: http://{own}"], ["Host: LOCALHOST:80"], ["Host: [::1]:8000"],
                            ["Host: 127.0.0.2"], [f"Host: {own}"]):
                self.assertEqual(ask(server, "GET", "/v2", headers=headers).status, 200, headers)
        with tempfile.TemporaryDirectory() as folder:
            with Server(PROGRAM, "--token-file", write_tokens(folder, TOKEN)) as server:
                headers = [f"Authorization: Bearer {TOKEN}", "Origin: https://friend.example", "Host: friend.example"]
                self.assertEqual(ask(server, "GET", "/v2", headers=headers).status, 200)

    def test_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server(PROGRAM, "--token-file", write_tokens(folder, TOKEN)) as server:
                self.assertEqual(ask(server, "GET", "/v2/health/live").status, 200)
                self.assertEqual(ask(server, "GET", "/v2/health/ready").status, 200)
                for path in ("/v2", "/metrics", "/v2/models/line", "/nothing"):
                    answer = ask(server, "GET", path)
                    self.assertEqual(answer.status, 401)
                    self.assertIn("token", answer.error)
                    self.assertEqual(ask(server, "GET", path, headers=["Authorization: Bearer 0"]).status, 401)
                # A body is not even read.
                for path in (LINE, f"{TALK}/generate", f"{TALK}/generate_stream"):
                    self.assertEqual(ask(server, "POST", path, b"x", ["Content-Length: 1000"]).status, 401)
                headers = [f"Authorization: Bearer {TOKEN}"]
                self.assertEqual(ask(server, "GET", "/metrics", headers=headers).status, 200)
                self.assertEqual(ask(server, "POST", LINE, infer_body([1, 2, 3, 4]), headers).status, 200)

    def test_a_token_that_may_only_ask(self):
        with tempfile.TemporaryDirectory() as folder:
            asks = "asks-asks-asks-asks"
            with Server(PROGRAM, "--token-file", write_tokens(folder, f"{TOKEN}\nask {asks}")) as server:
                headers = [f"Authorization: Bearer {asks}"]
                self.assertEqual(ask(server, "POST", LINE, infer_body([1, 2, 3, 4]), headers).status, 200)
                for verb in ("load", "unload"):
                    answer = ask(server, "POST", f"/v2/repository/models/line/{verb}", b"", headers)
                    self.assertEqual(answer.status, 403)
                    self.assertIn("may ask models, and not load or unload them", answer.error)
                self.assertEqual(ask(server, "GET", "/v2/models/line/ready", headers=headers).status, 200)
                answer = ask(server, "POST", "/v2/repository/models/line/unload", b"", [f"Authorization: Bearer {TOKEN}"])
                self.assertEqual(answer.status, 200)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            made = make_certificate(folder)
            if not made:
                self.skipTest("there is no openssl")
            certificate, key = made
            with Server(PROGRAM, "--certificate", certificate, "--key", key) as server:
                context = ssl.create_default_context(cafile=certificate)
                with context.wrap_socket(server.connect(), server_hostname="localhost") as connection, \
                        connection.makefile("rb") as stream:
                    for _ in range(3):
                        headers, body = raw_infer([1, 2, 3, 4] * 64)
                        connection.sendall(request_of("POST", LINE, body, headers))
                        self.assertEqual(Answer(stream).status, 200)
                    connection.sendall(request_of("GET", "/v2", headers=["Connection: close"]))
                    self.assertEqual(Answer(stream).status, 200)
                    self.assertEqual(stream.read(), b"")
            failed = subprocess.run([PROGRAM, "--certificate", key, "--key", key], stdin=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, check=False)
            self.assertEqual(failed.returncode, 2)
            self.assertIn(b"certificate", failed.stderr)

    def test_tokens_are_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            file = write_tokens(folder, TOKEN)
            with Server(PROGRAM, "--token-file", file, "--renewal-ms", "10") as server:
                def status(token):
                    return ask(server, "GET", "/metrics", headers=[f"Authorization: Bearer {token}"]).status

                self.assertEqual((status(TOKEN), status("another-another-another")), (200, 401))
                # What is no file of tokens changes nothing.
                for wrong in ("", "short"):
                    with open(file, "w", encoding="ascii") as opened:
                        opened.write(wrong)
                    self.assertIn("what was read before stays in use", server.process.stderr.readline())
                    self.assertEqual(status(TOKEN), 200)
                with open(file, "w", encoding="ascii") as opened:
                    opened.write("another-another-another\n")
                eventually(lambda: (status(TOKEN), status("another-another-another")) == (401, 200))

    def test_certificates_are_read_again(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            made, renewed = make_certificate(folder), make_certificate(other)
            if not made or not renewed:
                self.skipTest("there is no openssl")
            with open(renewed[0], encoding="ascii") as opened:
                renewed_pem = opened.read()
            with Server(PROGRAM, "--certificate", made[0], "--key", made[1], "--renewal-ms", "10") as server:
                def shown(port):
                    # gRPC may have read the one file before, and the other one after they were replaced.
                    try:
                        return ssl.get_server_certificate(("127.0.0.1", port))
                    except OSError:
                        return ""

                before = shown(server.http), shown(server.grpc)
                # A certificate without its key is not used by HTTP.
                shutil.copy(renewed[0], made[0])
                self.assertIn("what was read before stays in use", server.process.stderr.readline())
                self.assertEqual(shown(server.http), before[0])
                shutil.copy(renewed[1], made[1])
                eventually(lambda: shown(server.http).split() == renewed_pem.split())
                eventually(lambda: shown(server.grpc).split() == renewed_pem.split())
                context = ssl.create_default_context(cafile=renewed[0])
                with context.wrap_socket(server.connect(), server_hostname="localhost") as connection, \
                        connection.makefile("rb") as stream:
                    connection.sendall(request_of("GET", "/v2"))
                    self.assertEqual(Answer(stream).status, 200)

    def test_refusals_over_tls_reach_clients_that_still_send(self):
        with tempfile.TemporaryDirectory() as folder:
            made = make_certificate(folder)
            if not made:
                self.skipTest("there is no openssl")
            certificate, key = made
            context = ssl.create_default_context(cafile=certificate)
            with Server(PROGRAM, "--certificate", certificate, "--key", key,
                        "--token-file", write_tokens(folder, TOKEN)) as server:
                for _ in range(10):
                    with context.wrap_socket(server.connect(), server_hostname="localhost") as connection, \
                            connection.makefile("rb") as stream:
                        connection.sendall(request_of("POST", LINE, b"x" * 2_000_000))
                        self.assertEqual(Answer(stream).status, 401)
                        self.assertEqual(stream.read(), b"")


if __name__ == "__main__":
    unittest.main()
