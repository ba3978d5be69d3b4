"""Spans of programs and their workers, at a collector: programs_test.py PROGRAM GPUACTORS FOLDER

The collector is a server of this test, which reads the requests with OpenTelemetry's own messages. FOLDER is where a
virtual environment with these is kept; it is made on first use. Exits with 77, and the reason, where that is not
possible.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "system")]
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[3], "opentelemetry-proto")

# pylint: disable=wrong-import-position
import contextlib  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: E402

from collector import Collector, attributes  # noqa: E402
from running_cluster import DEADLINE, Cluster, until  # noqa: E402

PROGRAM, GPUACTORS = (os.path.abspath(file) for file in sys.argv[1:3])
del sys.argv[1:4]
SERVER, CLIENT, INTERNAL = (trace_pb2.Span.SPAN_KIND_SERVER, trace_pb2.Span.SPAN_KIND_CLIENT,
                            trace_pb2.Span.SPAN_KIND_INTERNAL)

# A trace that somebody else has begun, but for its flags.
FOREIGN = "00-" + "ab" * 16 + "-" + "cd" * 8


@contextlib.contextmanager
def cluster(environment):
    """`gpuactors up` whose programs are the test's, with these variables for its processes."""
    with tempfile.TemporaryDirectory() as folder:
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            running = Cluster(GPUACTORS, folder, "--program", PROGRAM)
        finally:
            os.environ.clear()
            os.environ.update(before)
        try:
            yield running
        finally:
            running.end()


def certificates_of(running):
    """The variable that says where the cluster's certificates are."""
    return {"XDG_STATE_HOME": running.folder}


def run(environment, *arguments):
    """What the program prints, and says on standard error."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "GPUACTORS_"))}
    done = subprocess.run([PROGRAM, *arguments], env={**env, **environment}, capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    assert done.returncode == 0, done
    return done.stdout.split("\n"), done.stderr


class Spans(unittest.TestCase):
    """The program calls an actor, which runs a task."""

    def check_family(self, collector, trace, by_process):
        """All spans of the trace are there, and are each other's parts as they should be."""
        # Those of workers come on their own.
        until(lambda: len(collector.spans()) >= 21, "all spans have come")
        spans = collector.spans()
        self.assertEqual(len(spans), 21, sorted(span.name for span, _ in spans.values()))
        self.assertEqual({span.trace_id.hex() for span, _ in spans.values()}, {trace})
        for span, _ in spans.values():
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano, span.name)

        def family(span):
            parent = spans.get(span.parent_span_id)
            kind = {SERVER: "server", CLIENT: "client", INTERNAL: "internal"}[span.kind]
            return (*family(parent[0]), f"{kind} {span.name}") if parent else (f"{kind} {span.name}",)

        root = ("server request",)
        called = {name: (*root, f"client ranker/{name}") for name in ("rank", "refuse", "later", "watch", "look")}
        served = {name: (*way, f"server ranker/{name}") for name, way in called.items()}
        summed = (*root, "client peer/sum")
        # What members send each other is no span of its own.
        self.assertEqual(sorted(family(span) for span, _ in spans.values()), sorted([
            root, *called.values(), *served.values(), (*served["rank"], "internal tokenize"),
            (*served["rank"], "client length"), (*served["rank"], "client length", "server length"),
            (*served["later"], "internal on another thread"),
            *2 * [summed, (*summed, "server peer/sum"), (*summed, "server peer/sum", "internal all_reduce")]]))
        by_name = {(span.kind, span.name): (span, of) for span, of in spans.values()}
        self.assertEqual({of["service.name"] for _, of in spans.values()}, {"search"})
        processes = {of["process.pid"] for _, of in spans.values()}
        self.assertEqual(len(processes) > 1, by_process)
        rank = attributes(by_name[SERVER, "ranker/rank"][0])
        self.assertEqual((rank["rpc.service"], rank["rpc.method"]), ("ranker", "rank"))
        self.assertIn("gpuactors.node", rank)
        self.assertGreaterEqual(rank["gpuactors.waited_seconds"], 0)
        tokenize = by_name[INTERNAL, "tokenize"][0]
        self.assertEqual(attributes(tokenize), {"tokens": 3, "text": "gpu actors"})
        self.assertEqual(len(tokenize.attributes), 2)
        for kind in (CLIENT, SERVER):
            refused = by_name[kind, "ranker/refuse"][0]
            self.assertEqual(refused.status.code, trace_pb2.Status.STATUS_CODE_ERROR)
            self.assertIn("not today", refused.status.message)
            self.assertEqual(attributes(refused)["error.type"], "task_failed")
        good = [span for span, _ in spans.values() if span.name != "ranker/refuse"]
        self.assertEqual({span.status.code for span in good}, {trace_pb2.Status.STATUS_CODE_UNSET})

    def test_in_one_process(self):
        with Collector() as collector:
            (trace, traced, _), said = run({**collector.environment, "OTEL_SERVICE_NAME": "search",
                                            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x"}, "--devices", "host:1")
            self.assertEqual((traced, said), ("traced", ""))
            self.check_family(collector, trace, False)
            for path, fields, _ in collector.requests:
                self.assertEqual((path, fields["Content-Type"], fields["Authorization"]),
                                 ("/v1/traces", "application/x-protobuf", "Bearer x"))

    def test_in_a_cluster(self):
        with Collector() as collector:
            environment = {**collector.environment, "OTEL_SERVICE_NAME": "search"}
            with cluster(environment) as running:
                (trace, traced, _), said = run({**environment, **certificates_of(running)}, "--broker", running.broker)
                self.assertEqual((traced, said), ("traced", ""))
                self.check_family(collector, trace, True)

    def test_a_trace_that_began_elsewhere_goes_on(self):
        with Collector() as collector, cluster(collector.environment) as running:
            # The program itself records nothing, and passes on what it belongs to.
            (_, traced, _), _ = run(certificates_of(running), FOREIGN + "-01", "--broker", running.broker)
            self.assertEqual(traced, "traced")
            until(lambda: len(collector.spans()) >= 13, "all spans of workers have come")
            spans = [span for span, _ in collector.spans().values()]
            self.assertEqual({span.trace_id.hex() for span in spans}, {"ab" * 16})
            self.assertEqual(sorted(span.name for span in spans if span.parent_span_id.hex() == "cd" * 8),
                             ["peer/sum"] * 2 + [f"ranker/{name}" for name in ("later", "look", "rank", "refuse", "watch")])

    def test_where_the_caller_records_nothing_traces_begin_in_workers(self):
        with Collector() as collector, cluster(collector.environment) as running:
            (_, traced, _), _ = run(certificates_of(running), "--broker", running.broker)
            self.assertEqual(traced, "traced")
            until(lambda: len(collector.spans()) >= 13, "all spans of workers have come")
            spans = [span for span, _ in collector.spans().values()]
            self.assertEqual(sorted(span.name for span in spans if not span.parent_span_id),
                             ["peer/sum"] * 2 + [f"ranker/{name}" for name in ("later", "look", "rank", "refuse", "watch")])

    def test_a_process_that_ends_with_its_task_sends_its_spans_before(self):
        # Long before they would be due.
        with Collector() as collector, cluster({**collector.environment, "OTEL_BSP_SCHEDULE_DELAY": "3600000"}) as running:
            running.run("submit", "length", "--isolation", "process", "--cpus", "0", stdin='"four"')
            until(lambda: len(collector.spans()) >= 2, "the task's span has come beside that of its caller")
            self.assertEqual(sorted((span.name, span.kind) for span, _ in collector.spans().values()),
                             [("length", SERVER), ("length", CLIENT)])

    def test_a_trace_that_is_not_sampled_is_not_recorded(self):
        with Collector() as collector:
            (_, traced, _), _ = run(collector.environment, FOREIGN + "-00", "--devices", "host:1")
            self.assertEqual(traced, "traced")
            (_, traced, _), _ = run({**collector.environment, "OTEL_TRACES_SAMPLER": "always_off"}, "--devices", "host:1")
            self.assertEqual(traced, "traced")
            self.assertEqual(collector.requests, [])

    def test_without_a_collector_nothing_is_traced_and_with_one_that_is_away_nothing_waits_for_it(self):
        (_, traced, _), said = run({}, "--devices", "host:1")
        self.assertEqual((traced, said), ("not traced", ""))
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            port = nobody.getsockname()[1]
        _, said = run({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}, "--devices", "host:1")
        self.assertRegex(said, r"^gpuactors: traces: \d+ spans were lost, .*: http://127\.0\.0\.1:\d+/v1/traces: .+\n$")
        with Collector(status=400) as refusing:
            _, said = run(refusing.environment, "--devices", "host:1")
            self.assertRegex(said, r"^gpuactors: traces: \d+ spans were lost, .*answers with status 400\n$")

    def test_variables_that_are_wrong_are_said(self):
        (_, traced, _), said = run({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost"}, "--devices", "host:1")
        self.assertEqual(traced, "not traced")
        self.assertRegex(said, "^gpuactors: traces: nothing is recorded: OTEL_EXPORTER_OTLP_ENDPOINT is a URL .*\n$")


if __name__ == "__main__":
    unittest.main()
