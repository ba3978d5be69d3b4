"""HTTP/2 spoken by hand, for what no client of gRPC does: messages that stop on their way, and such as nobody wants."""

import re
import select
import socket
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4
CANCEL = 8
HEADER_TABLE_SIZE, INITIAL_WINDOW = 1, 4
OWN_WINDOW = 2**31 - 1
FRAME = 16_384


def header(name, value):
    """A header field without compression."""
    name, value = name.encode(), value.encode()
    return b"\x00" + length_of(name) + name + length_of(value) + value


def length_of(text):
    if len(text) < 127:
        return bytes([len(text)])
    rest, more = len(text) - 127, b"\x7f"
    while rest >= 128:
        more += bytes([rest % 128 | 128])
        rest //= 128
    return more + bytes([rest])


class Call:
    """One stream: what may still be sent, and how it ended."""

    def __init__(self, number, window):
        self.number = number
        self.window = window
        self.unsent = memoryview(b"")
        self.received = b""
        self.status = None
        self.ended = False


class Connection:
    """A connection to the gRPC front at `port`. Everything happens in `pump`."""

    def __init__(self, port, seconds=30, own_window=OWN_WINDOW):
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.socket.setblocking(False)
        self.seconds = seconds
        self.input = b""
        self.output = bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        # No table of headers on the way back: a status is then always there in plain text.
        self.frame(SETTINGS, 0, 0, struct.pack(">HIHI", HEADER_TABLE_SIZE, 0, INITIAL_WINDOW, own_window))
        self.initial_window = self.window = 65_535
        self.calls = {}
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frame(self, kind, flags, stream, payload=b""):
        self.output += struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def call(self, method, *messages, token=None, whole=True, announced=None, timeout=None):
        """Begins a call. `announced` bytes are told for each message, which may be fewer than come."""
        call = Call(2 * len(self.calls) + 1, self.initial_window)
        self.calls[call.number] = call
        fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
                  ("te", "trailers"), ("content-type", "application/grpc")]
        if token:
            fields.append(("authorization", f"Bearer {token}"))
        if timeout:
            fields.append(("grpc-timeout", timeout))
        self.frame(HEADERS, END_HEADERS, call.number, b"".join(header(*field) for field in fields))
        call.unsent = memoryview(b"".join(b"\0" + struct.pack(">I", announced or len(message)) + message
                                          for message in messages))
        call.whole = whole
        if whole and not call.unsent:
            self.frame(DATA, END_STREAM, call.number)
        return call

    def give_up(self, call):
        """Cancels a call."""
        self.frame(RST_STREAM, 0, call.number, struct.pack(">I", CANCEL))
        call.ended = True

    def send_data(self):
        for call in self.calls.values():
            while call.unsent and not call.ended and min(call.window, self.window) > 0 and len(self.output) < 1 << 20:
                size = min(FRAME, call.window, self.window, len(call.unsent))
                piece, call.unsent = bytes(call.unsent[:size]), call.unsent[size:]
                call.window -= size
                self.window -= size
                self.frame(DATA, END_STREAM if call.whole and not call.unsent else 0, call.number, piece)

    def pump(self):
        """Sends what may be sent and reads what is there. Returns whether anything happened."""
        self.send_data()
        happened = False
        try:
            if self.output:
                sent = self.socket.send(self.output)
                del self.output[:sent]
                happened = sent > 0
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        try:
            received = self.socket.recv(1 << 16)
            self.closed = self.closed or not received
            self.input += received
            happened = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        while len(self.input) >= 9:
            length = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + length:
                break
            kind, flags = self.input[3], self.input[4]
            stream = int.from_bytes(self.input[5:9], "big")
            payload, self.input = self.input[9:9 + length], self.input[9 + length:]
            self.on_frame(kind, flags, stream, payload)
        return happened and not self.closed

    def on_frame(self, kind, flags, stream, payload):
        call = self.calls.get(stream)
        if kind == SETTINGS and not flags & ACK:
            for number, value in struct.iter_unpack(">HI", payload):
                if number == INITIAL_WINDOW:
                    for other in self.calls.values():
                        other.window += value - self.initial_window
                    self.initial_window = value
            self.frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.frame(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            self.closed = True
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if call:
                call.window += more
            elif stream == 0:
                self.window += more
        elif kind == DATA and call:
            call.received += payload
        elif kind == HEADERS and call:
            found = re.search(rb"grpc-status[\x01-\x02](\d+)", payload)
            if found:
                call.status = int(found[1])
        if call and (kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)):
            call.ended = True

    def until(self, condition):
        """Pumps until it holds, or the connection ends."""
        end = time.monotonic() + self.seconds
        while not condition() and not self.closed:
            if not self.pump():
                select.select([self.socket], [self.socket] if self.output else [], [], 0.1)
            if time.monotonic() > end:
                raise AssertionError("it did not come true in time")

    def answer(self, call):
        """The status that a call ends with; none if it was cut off without one."""
        self.until(lambda: call.ended)
        return call.status
