"""A test server as a process, and HTTP spoken to it by hand."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time

DEADLINE = 30.0


def make_certificate(folder):
    """A certificate for localhost and its key, as paths in `folder`; None where there is no openssl."""
    if not shutil.which("openssl"):
        return None
    certificate, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    return certificate, key


def write_tokens(folder, *tokens):
    """A token file in `folder`."""
    file = os.path.join(folder, "tokens")
    with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as out:
        out.write("".join(token + "\n" for token in tokens))
    return file


class Server:
    """serve_test_server with `options`; ends with the block."""

    def __init__(self, program, *options):
        self.process = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            raise RuntimeError(f"the server did not start: {self.process.communicate()[1]}")
        self.http, self.grpc = (int(port) for port in line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends it as its user would, and returns its exit status."""
        if self.process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.http), DEADLINE)
        connection.settimeout(DEADLINE)
        return connection

    def metric(self, name):
        """The value of a metric without labels."""
        text = ask(self, "GET", "/metrics").text
        return int(re.search(rf"^{name} (\d+)$", text, re.M)[1])

    def resident(self):
        """Bytes of memory that the process has now."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024


def eventually(condition):
    """Asks until it holds; each question goes to the server and back."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come true in time")


class Answer:
    """One answer, read from a file object over a connection."""

    def __init__(self, stream, has_body=True):
        line = stream.readline().decode("ascii")
        if not line:
            raise EOFError("the connection ended without an answer")
        self.status = int(line.split()[1])
        self.headers = {}
        while (field := stream.readline().decode("latin-1").rstrip("\r\n")):
            name, _, value = field.partition(":")
            self.headers[name.lower()] = value.strip()
        length = int(self.headers.get("content-length", 0))
        self.body = stream.read(length) if has_body else b""
        if has_body and len(self.body) != length:
            raise EOFError("the connection ended within an answer")

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


def request_of(method, path, body=None, headers=(), version="1.1"):
    """The bytes of a request; the body's length is told unless a header says otherwise."""
    fields = [*headers]
    if not any(field.lower().startswith("host:") for field in headers):
        fields.insert(0, "Host: localhost")
    if body is not None and not any(field.lower().startswith(("content-length", "transfer-enc")) for field in headers):
        fields.append(f"Content-Length: {len(body)}")
    head = f"{method} {path} HTTP/{version}\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n"
    return head.encode("latin-1") + (body or b"")


def read_chunk(stream):
    """One chunk, as it was sent; empty at the end."""
    size = int(stream.readline(), 16)
    data = stream.read(size)
    assert stream.read(2) == b"\r\n"
    return data


def ask(server, method, path, body=None, headers=()):
    """Asks once, on a connection of its own."""
    with server.connect() as connection, connection.makefile("rb") as stream:
        connection.sendall(request_of(method, path, body, headers))
        return Answer(stream, method != "HEAD")


def infer_body(values, shape=None, **fields):
    """The JSON of a request to the model "line"."""
    shape = shape or [len(values) // 4, 4]
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": values}],
                       **fields}).encode()
