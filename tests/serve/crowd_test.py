"""Many idle connections, slow readers and bodies that never end: crowd_test.py SERVER [CONNECTIONS]

The server must answer others as if they were not there, and keep its memory within bounds.
"""

import contextlib
import gzip
import json
import resource
import socket
import struct
import sys
import time
import unittest

from serving import Answer, Server, ask, eventually, infer_body, request_of

PROGRAM = sys.argv.pop(1)
CONNECTIONS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 2_000
LINE = "/v2/models/line/infer"
MIB = 1 << 20


def allow_files(count):
    """Lets this process, and those it starts, open so many files; false if it may not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return True


def big_request(elements):
    """Asks the model "big" for so many floats."""
    text = json.dumps({"inputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [elements]}],
                       "parameters": {"binary_data_output": True}}).encode()
    return request_of("POST", "/v2/models/big/infer", text)


class Crowd(unittest.TestCase):
    def serves(self, server):
        """Others are served, and soon."""
        began = time.monotonic()
        answer = ask(server, "POST", LINE, infer_body([1, 2, 3, 4]))
        self.assertEqual(answer.json["outputs"][0]["data"], [3, 5, 7, 9])
        self.assertLess(time.monotonic() - began, 15)  # who is held up waits for the server to give up: 30 s

    def test_idle_connections_cost_little(self):
        if not allow_files(CONNECTIONS + 200):
            self.skipTest(f"this process may not open {CONNECTIONS} connections")
        with Server(PROGRAM) as server:
            self.serves(server)
            before = server.resident()
            idle = []
            try:
                for i in range(CONNECTIONS):
                    idle.append(server.connect())
                    if i % 3 == 1:
                        idle[-1].sendall(b"POST /v2/mod")  # begins to speak
                eventually(lambda: server.metric("gpuactors_serve_http_connections") > CONNECTIONS)
                self.serves(server)
                grown = server.resident() - before
                print(f"{CONNECTIONS} idle connections: {grown / CONNECTIONS:.0f} bytes each")
                self.assertLess(grown, CONNECTIONS * 8 * 1024 + 8 * MIB)
            finally:
                for connection in idle:
                    connection.close()
            eventually(lambda: server.metric("gpuactors_serve_http_connections") == 1)

    def test_slow_readers_hold_what_is_allowed_and_no_more(self):
        held = 64 * MIB
        with Server(PROGRAM, "--held-bytes", str(held), "--transfer-ms", "5000") as server:
            self.serves(server)
            before = server.resident()
            slow = []
            try:
                for _ in range(24):  # of 8 MiB each
                    connection = socket.socket()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.settimeout(30)
                    connection.connect(("127.0.0.1", server.http))
                    connection.sendall(big_request(2 * MIB))
                    slow.append(connection)
                statuses = []
                for connection in slow:
                    statuses.append(int(connection.recv(12, socket.MSG_WAITALL).split()[1]))
                self.assertIn(200, statuses)
                self.assertIn(503, statuses)
                self.serves(server)
                self.assertLess(server.resident() - before, held + 64 * MIB)
                # Those that do not read are cut off, and what they held is given back.
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") < 8 * MIB)
            finally:
                for connection in slow:
                    connection.close()
            self.serves(server)

    def test_bodies_that_stop_are_cut_off_and_held_within_bounds(self):
        held = 32 * MIB
        with Server(PROGRAM, "--held-bytes", str(held), "--transfer-ms", "400") as server:
            self.serves(server)
            before = server.resident()
            stuck = []
            try:
                # Announced only: nothing is held for them.
                for _ in range(50):
                    stuck.append(server.connect())
                    stuck[-1].sendall(request_of("POST", LINE, b"{", [f"Content-Length: {60 * MIB}"]))
                self.serves(server)
                self.assertLess(server.resident() - before, 20 * MIB)
                # Sent for the most part: as many as may be, then no more.
                refused = 0
                for _ in range(8):
                    connection = server.connect()
                    stuck.append(connection)
                    try:
                        connection.sendall(request_of("POST", LINE, b"1" * 6 * MIB, [f"Content-Length: {6 * MIB + 1}"]))
                    except OSError:
                        refused += 1
                self.serves(server)
                self.assertLess(server.resident() - before, held + 48 * MIB)
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") == 0)
            finally:
                for connection in stuck:
                    connection.close()
            self.serves(server)

    def test_bodies_that_are_announced_take_no_room_from_others(self):
        with Server(PROGRAM, "--held-bytes", str(8 * MIB)) as server, contextlib.ExitStack() as stack:
            self.serves(server)
            for _ in range(200):
                connection = stack.enter_context(server.connect())
                connection.sendall(request_of("POST", LINE, b"{", [f"Content-Length: {7 * MIB}"]))
                self.serves(server)
            self.assertLess(server.metric("gpuactors_serve_held_bytes"), 2 * MIB)

    def test_small_bodies_that_unpack_to_large_ones_hold_up_nobody(self):
        count = 7_900_000
        body = gzip.compress(b'{"inputs":[{"name":"v","datatype":"FP32","shape":[%d],"data":[0' % count
                             + b",0" * (count - 2) + b"]}]}")
        self.assertLess(len(body), 16 << 10)
        packed = request_of("POST", "/v2/models/echo/infer", body, ["Content-Encoding: gzip"])
        with Server(PROGRAM) as server, contextlib.ExitStack() as stack:
            self.serves(server)
            crowd = [stack.enter_context(server.connect()) for _ in range(60)]
            for connection in crowd:
                connection.sendall(packed)
            for _ in range(10):
                self.serves(server)
            for connection in crowd:
                with connection.makefile("rb") as stream:
                    self.assertIn(Answer(stream).status, (400, 503))  # one element is missing; or too many wait

    def test_connections_that_break_off_leave_nothing_behind(self):
        with Server(PROGRAM) as server:
            whole = request_of("POST", LINE, infer_body([1, 2, 3, 4] * 16, [16, 4]))
            for end in range(1, len(whole), 7):
                connection = server.connect()
                if end % 2:  # with a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(whole[:end])
                connection.close()
            eventually(lambda: server.metric("gpuactors_serve_http_connections") == 1)
            self.assertEqual(server.metric("gpuactors_serve_held_bytes"), 0)
            with server.connect() as connection, connection.makefile("rb") as stream:
                connection.sendall(whole)
                self.assertEqual(Answer(stream).status, 200)


if __name__ == "__main__":
    unittest.main()
