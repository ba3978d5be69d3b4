"""A collector of OpenTelemetry for tests, which reads what it gets with OpenTelemetry's own messages."""

import http.server
import threading

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2


class Collector:
    """Takes spans by HTTP. `status` is what it answers."""

    def __init__(self, status=200):
        self.status = status
        self.requests = []  # (path, fields, parsed body)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Parses each request: one that OpenTelemetry's messages do not fit ends the test."""

            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                parsed = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
                collector.requests.append((self.path, dict(self.headers), parsed))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def environment(self):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
                "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def spans(self):
        """(span, attributes of its process) of all requests, by the span's id."""
        return {span.span_id: (span, attributes(part.resource))
                for _, _, request in list(self.requests) for part in request.resource_spans
                for scope in part.scope_spans for span in scope.spans}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def attributes(thing):
    return {entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in thing.attributes}
