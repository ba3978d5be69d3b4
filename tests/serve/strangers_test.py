"""Clients without a token, and such as send too much or not enough: strangers_test.py SERVER [TEST...]"""

import contextlib
import re
import socket
import sys
import tempfile
import time
import unittest

from http2 import Connection
from serving import Answer, Server, ask, eventually, infer_body, request_of, write_tokens

PROGRAM = sys.argv.pop(1)
TOKEN = "0123456789abcdef"
AUTHORIZED = [f"Authorization: Bearer {TOKEN}"]
MIB = 1 << 20
SERVICE = "/inference.GRPCInferenceService/"
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
SMALL = ("ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex",
         "RepositoryModelLoad", "RepositoryModelUnload")
OPEN = (SERVICE + "ServerLive", SERVICE + "ServerReady", CHECK, WATCH)
# Codes of gRPC.
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = (
    0, 1, 3, 4, 8, 14, 16)


class WithTokens(unittest.TestCase):
    """A server for each test, which wants a token."""

    def serve(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = Server(PROGRAM, "--token-file", write_tokens(folder.name, TOKEN), *options)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def serves(self, server):
        self.assertEqual(ask(server, "POST", "/v2/models/line/infer", infer_body([1, 2, 3, 4]), AUTHORIZED).status, 200)
        with Connection(server.grpc) as connection:
            self.assertEqual(connection.answer(connection.call(CHECK, b"")), OK)


class Grpc(WithTokens):
    def test_large_messages_to_small_methods_are_refused_and_not_parsed(self):
        server = self.serve()
        before = server.resident()
        empty_fields = b"\x7a\x00" * (16 * MIB)  # unknown ones, each of which takes 32 times its bytes when parsed
        for method, token in [(method, None) for method in OPEN] + [(SERVICE + "ModelReady", TOKEN)]:
            with Connection(server.grpc) as connection:
                call = connection.call(method, empty_fields, token=token)
                self.assertEqual(connection.answer(call), RESOURCE_EXHAUSTED, method)
            self.assertLess(server.resident() - before, 400 * MIB, method)
        with Connection(server.grpc) as connection:
            for method in SMALL:
                call = connection.call(SERVICE + method, bytes(2) * 32_769, token=TOKEN)
                self.assertEqual(connection.answer(call), RESOURCE_EXHAUSTED, method)
        self.serves(server)

    def test_without_a_token_messages_are_not_even_read(self):
        server = self.serve()
        for method in [SERVICE + method for method in (*SMALL, "ModelInfer", "ModelStreamInfer", "Nothing")]:
            with Connection(server.grpc) as connection:
                call = connection.call(method, bytes(32 * MIB))
                self.assertEqual(connection.answer(call), UNAUTHENTICATED, method)
                self.assertGreater(len(call.unsent), 31 * MIB, method)

    def test_messages_that_stop_on_their_way_are_given_up(self):
        server = self.serve("--message-ms", "300")
        with Connection(server.grpc) as connection:
            for method in ("ModelInfer", "ModelReady"):
                call = connection.call(SERVICE + method, bytes(2 * MIB), token=TOKEN, announced=3 * MIB, whole=False)
                self.assertEqual(connection.answer(call), DEADLINE_EXCEEDED, method)
        self.serves(server)

    def test_calls_that_end_before_their_message_are_counted_as_what_they_are(self):
        server = self.serve()
        method = SERVICE + "ModelInfer"
        with Connection(server.grpc) as connection:
            given_up = connection.call(method, b"\x0a\x00", token=TOKEN, announced=1_000, whole=False)
            late = connection.call(method, b"\x0a\x00", token=TOKEN, announced=1_000, whole=False, timeout="1S")
            empty = connection.call(method, token=TOKEN)
            self.assertEqual(connection.answer(empty), INVALID_ARGUMENT)
            connection.give_up(given_up)
            connection.until(lambda: late.ended)
            counted = {}
            def all_are_counted():
                text = ask(server, "GET", "/metrics", headers=AUTHORIZED).text
                counted.update(re.findall(r'^gpuactors_serve_grpc_answers_total{status="(\d+)"} (\d+)$', text, re.M))
                return sum(map(int, counted.values())) == 3
            eventually(all_are_counted)
            self.assertEqual(counted, {str(code): "1" for code in (CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED)})

    def test_messages_of_strangers_that_stop_make_room_for_others(self):
        server = self.serve()
        with Connection(server.grpc) as connection:
            stuck = [connection.call(CHECK, b"\x0a\x00", announced=1_000, whole=False) for _ in range(40)]
            # The first ones have gone for those that came later.
            for call in stuck[:24]:
                self.assertEqual(connection.answer(call), DEADLINE_EXCEEDED)
            self.assertEqual(connection.answer(connection.call(CHECK, b"")), OK)
            self.assertEqual(connection.answer(connection.call(SERVICE + "ServerLive", b"")), OK)
            for call in stuck[24:]:
                self.assertEqual(connection.answer(call), DEADLINE_EXCEEDED)
        self.serves(server)

    def test_watches_of_strangers_make_room_for_others(self):
        server = self.serve()
        with Connection(server.grpc) as connection:
            watches = []
            for _ in range(66):
                watches.append(connection.call(WATCH, b""))
                connection.until(lambda: watches[-1].received)
            for watch in watches[:2]:
                self.assertEqual(connection.answer(watch), RESOURCE_EXHAUSTED)
            with_token = connection.call(WATCH, b"", token=TOKEN)
            connection.until(lambda: with_token.received)
            self.assertEqual([watch.ended for watch in watches[2:]], [False] * 64)

    def test_watches_whose_clients_read_nothing_make_room_too(self):
        server = self.serve("--grace-ms", "20000")
        with Connection(server.grpc, own_window=0) as connection:
            watches = []
            for _ in range(70):
                watches.append(connection.call(WATCH, b""))
                # Once there and back, so that their messages do not make room for each other.
                self.assertEqual(connection.answer(connection.call(SERVICE + "ModelReady", b"")), UNAUTHENTICATED)
            connection.until(lambda: sum(watch.ended for watch in watches) >= 6)
            self.assertEqual(sum(watch.ended for watch in watches), 6)
            # Nor is the end of the server waited for them.
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 10)

    def test_what_nobody_reads_does_not_come_in(self):
        server = self.serve()
        before = server.resident()
        with Connection(server.grpc) as connection:
            watches = []
            for _ in range(64):
                watches.append(connection.call(WATCH, b"", bytes(2 * MIB), whole=False))
                connection.until(lambda: watches[-1].received)
            self.assertEqual(connection.answer(connection.call(CHECK, b"")), OK)
            self.assertGreater(sum(len(watch.unsent) for watch in watches), 100 * MIB)
            self.assertLess(server.resident() - before, 32 * MIB)

    def test_connections_that_never_begin_to_speak_end(self):
        server = self.serve("--greeting-ms", "500")
        for said in (b"", b"PRI * HTTP/2.0\r\n"):
            with socket.create_connection(("127.0.0.1", server.grpc), 30) as silent:
                silent.sendall(said)
                while silent.recv(4_096):
                    continue
        self.serves(server)

    def test_a_stream_on_which_nothing_comes_ends(self):
        server = self.serve("--idle-ms", "300")
        with Connection(server.grpc) as connection:
            silent = connection.call(SERVICE + "ModelStreamInfer", token=TOKEN, whole=False)
            stuck = connection.call(SERVICE + "ModelStreamInfer", b"\x0a", token=TOKEN, announced=1_000, whole=False)
            self.assertEqual(connection.answer(silent), UNAVAILABLE)
            self.assertEqual(connection.answer(stuck), UNAVAILABLE)


class Http(WithTokens):
    def ask_on(self, connection, path, headers=()):
        connection.sendall(request_of("GET", path, headers=headers))
        with connection.makefile("rb") as stream:
            return Answer(stream).status

    def test_silent_strangers_do_not_keep_others_out(self):
        server = self.serve("--connections", "20")
        with contextlib.ExitStack() as stack:
            known = stack.enter_context(server.connect())
            self.assertEqual(self.ask_on(known, "/v2", AUTHORIZED), 200)
            strangers = [stack.enter_context(server.connect()) for _ in range(19)]
            for stranger in strangers:  # asked, so that each has been accepted before the next
                self.assertEqual(self.ask_on(stranger, "/v2/health/live"), 200)
            self.assertEqual(self.ask_on(strangers[0], "/v2"), 401)
            for _ in range(3):
                newcomer = stack.enter_context(server.connect())
                self.assertEqual(self.ask_on(newcomer, "/v2", AUTHORIZED), 200)
            # The oldest strangers have gone; those that came later, and whoever has a token, have not.
            for stranger in strangers[:3]:
                self.assertEqual(stranger.recv(1), b"")
            for stranger in strangers[3:]:
                self.assertEqual(self.ask_on(stranger, "/v2/health/live"), 200)
            self.assertEqual(self.ask_on(known, "/v2", AUTHORIZED), 200)

    def test_strangers_send_no_bodies(self):
        server = self.serve()
        for path in ("/v2/health/live", "/v2/health/ready"):
            for headers in (["Content-Length: 1"], ["Transfer-Encoding: chunked"]):
                with server.connect() as connection:
                    self.assertEqual(self.ask_on(connection, path, headers), 413)
                    self.assertEqual(connection.recv(1), b"")
            self.assertEqual(ask(server, "GET", path, b"").status, 200)
            self.assertEqual(ask(server, "GET", path, b"{}", AUTHORIZED).status, 200)

    def test_the_end_of_the_server_does_not_wait_for_strangers(self):
        server = self.serve("--grace-ms", "20000", "--greeting-ms", "30000")
        with contextlib.ExitStack() as stack:
            known, *strangers = (stack.enter_context(server.connect()) for _ in range(4))
            self.assertEqual(self.ask_on(known, "/v2", AUTHORIZED), 200)
            for stranger in strangers:
                self.assertEqual(self.ask_on(stranger, "/v2/health/live"), 200)
            for stranger, part in zip(strangers, (b"GET /v2 HT", b"GET /v2 HTTP/1.1\r\n", b"GET /v2 HTTP/1.1\r\nHo")):
                stranger.sendall(part)
            known.sendall(b"GET /v2 HTTP/1.1\r\n")
            for _ in range(4):  # both threads of the server have then seen what came before
                self.assertEqual(self.ask_on(stack.enter_context(server.connect()), "/v2/health/live"), 200)
            began = time.monotonic()
            server.process.stdin.close()
            for stranger in strangers:
                self.assertEqual(stranger.recv(1), b"")
            # Who is known, and has begun to ask, gets an answer.
            known.sendall(f"Host: localhost\r\n{AUTHORIZED[0]}\r\n\r\n".encode())
            with known.makefile("rb") as stream:
                self.assertEqual(Answer(stream).status, 200)
                self.assertEqual(stream.read(), b"")
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 10)

    def test_strangers_are_not_waited_for_as_long_as_others(self):
        server = self.serve("--greeting-ms", "5000")
        with contextlib.ExitStack() as stack:
            known, silent, slow, slower, refused = (stack.enter_context(server.connect()) for _ in range(5))
            self.assertEqual(self.ask_on(known, "/v2", AUTHORIZED), 200)
            slow.sendall(b"GET /v2 HT")
            slower.sendall(b"GET /v2 HTTP/1.1\r\n")
            self.assertEqual(self.ask_on(refused, "/v2"), 401)
            self.assertEqual(silent.recv(1), b"")
            for connection in (slow, slower):
                with connection.makefile("rb") as stream:
                    self.assertEqual(Answer(stream).status, 408)
            self.assertEqual(refused.recv(1), b"")
            self.assertEqual(self.ask_on(known, "/v2", AUTHORIZED), 200)


if __name__ == "__main__":
    unittest.main()
