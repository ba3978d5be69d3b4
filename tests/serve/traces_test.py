#!/usr/bin/env python3
"""The traces of requests: traces_test.py GPUACTORS-SERVE GPUACTORS SERVE_MAKE_CHECKPOINT PLUGIN FOLDER

PLUGIN is the example of a generative model. FOLDER is where a virtual environment with OpenTelemetry's messages and a
client of gRPC is kept; it is made on first use. Exits with 77, and the reason, where that is not possible.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "trace")]
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[5], "opentelemetry-proto", "tritonclient[grpc]")

# pylint: disable=wrong-import-position
import json  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402

import grpc  # noqa: E402
from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: E402
from tritonclient.grpc import service_pb2  # noqa: E402

from collector import Collector, attributes  # noqa: E402
from program_support import DEADLINE, INPUTS, OUTPUTS, Cluster, Server, environment, serving, until  # noqa: E402

SERVE, GPUACTORS, MAKE_CHECKPOINT, PLUGIN = sys.argv[1:5]
del sys.argv[1:6]
KINDS = {trace_pb2.Span.SPAN_KIND_SERVER: "server", trace_pb2.Span.SPAN_KIND_CLIENT: "client",
         trace_pb2.Span.SPAN_KIND_INTERNAL: "internal"}
ERROR = trace_pb2.Status.STATUS_CODE_ERROR
# Replicas that are stopped are not taken for lost before they are killed.
PATIENT = ("--link-timeout", "60")
CALLER = "cd" * 8  # the span of whoever asks
INFER = "server POST /v2/models/{model}/infer"
# What becomes of a request that is a batch of its own, beside its own span.
ALONE = [("internal batch",), ("internal batch", "client serve/replica/infer"),
         ("internal batch", "client serve/replica/infer", "server serve/replica/infer"), ("internal queue",)]


def parent_of(trace, sampled=True):
    return f"00-{trace}-{CALLER}-{'01' if sampled else '00'}"


def below(root, ways):
    """The ways from a root to all its spans."""
    return sorted([(root,), *((root, *way) for way in ways)])


class Traces(unittest.TestCase):
    """A server and a node with a collector, for a few models: "digits", "full", which waits for three requests, and
    "writer", a generative one."""

    @classmethod
    def setUpClass(cls):
        cls.collector = cls.enterClassContext(Collector())
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.log = os.path.join(cls.folder, "requests.log")
        cls.network = os.path.join(cls.folder, "digits.safetensors")
        subprocess.run([MAKE_CHECKPOINT, cls.network, "1", str(INPUTS), "32", str(OUTPUTS)], check=True)
        text = os.path.join(cls.folder, "text.txt")
        with open(text, "w", encoding="ascii") as out:
            out.write("the quick brown fox jumps over the lazy dog. " * 20)
        cls.env = {key: value for key, value in environment(cls.folder).items() if not key.startswith("OTEL_")}
        recording = {**cls.env, **cls.collector.environment}
        cls.cluster = Cluster(GPUACTORS, SERVE, recording, "host:2x256MiB", "--plugin", PLUGIN, *PATIENT)
        cls.addClassCleanup(cls.cluster.end)
        cls.server = cls.enterClassContext(
            serving(SERVE, "--broker", cls.cluster.broker, *PATIENT, "--gpus", "0.25", "--request-log", cls.log,
                    "--grpc", "127.0.0.1:0", "--model", f"digits={cls.network}",
                    "--model", f"full={cls.network},max-batch=3,max-delay=3600000",
                    "--model", f"writer={text},actor=examples/writer", env=recording, notices=None))
        address = next(line.split()[-1] for line in cls.server.lines if line.startswith("gRPC at "))
        cls.channel = cls.enterClassContext(grpc.insecure_channel(address))

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, path, body=None, server=None, method="POST", **fields):
        """The status of an answer, all of which is read."""
        connection = (server or self.server).connect()
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=fields)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def infer(self, model="digits", server=None, **fields):
        return self.ask(f"/v2/models/{model}/infer", Server.body([[1.0] * INPUTS]), server, **fields)

    @staticmethod
    def row_for(model):
        request = service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype="FP32", shape=[1, INPUTS]).contents.fp32_contents.extend([1.0] * INPUTS)
        return request.SerializeToString()

    def model_infer(self, model, **metadata):
        """A call of gRPC that has begun."""
        return self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future(
            self.row_for(model), timeout=DEADLINE, metadata=list(metadata.items()))

    def lines(self, fits):
        """Those of the log that fit, once there are some: they are written beside the answers."""
        def found():
            with open(self.log, encoding="utf-8") as log:
                return [line for line in map(json.loads, log.read().splitlines()) if fits(line)]
        return until(found, "the log has the line")

    def waits(self, model, count):
        text = f'nv_inference_pending_request_count{{model="{model}",version="1"}} {count}'
        until(lambda: text in self.server.ask("GET", "/metrics")[1], f"{count} requests wait")

    # -- what the collector has got ----------------------------------------------------------------

    def spans(self, trace):
        return {span.span_id: span for span, _ in self.collector.spans().values() if span.trace_id.hex() == trace}

    @staticmethod
    def family(spans):
        """The ways to all spans, from those whose parents are elsewhere."""
        def way(span):
            own = f"{KINDS[span.kind]} {span.name}"
            return (*way(spans[span.parent_span_id]), own) if span.parent_span_id in spans else (own,)
        return sorted(way(span) for span in spans.values())

    def trace(self, trace, family):
        """The spans of a trace by name, once they are these."""
        def arrived():
            return len(self.spans(trace)) >= len(family)
        until(arrived, f"{len(family)} spans of {trace}")
        spans = self.spans(trace)
        self.assertEqual(self.family(spans), family)
        return {f"{KINDS[span.kind]} {span.name}": span for span in spans.values()}

    def trace_of(self, request_id):
        """The trace of the request with that id."""
        def found():
            return [span.trace_id.hex() for span, _ in self.collector.spans().values()
                    if attributes(span).get("gpuactors.request_id") == request_id]
        return until(found, f"the span of {request_id}")[0]

    # -- tests -------------------------------------------------------------------------------------

    def test_a_request_over_http_goes_on_with_its_clients_trace(self):
        trace = "a1" * 16
        self.assertEqual(self.infer(traceparent=parent_of(trace), **{"X-Request-Id": "mine-1"}), 200)
        spans = self.trace(trace, below(INFER, ALONE))
        own = spans[INFER]
        self.assertEqual(own.parent_span_id.hex(), CALLER)
        said = attributes(own)
        self.assertRegex(str(said.pop("client.port")), r"^\d+$")
        times = [said.pop(f"gpuactors.{name}_seconds") for name in ("queue", "infer")]
        self.assertLess(sum(times), (own.end_time_unix_nano - own.start_time_unix_nano) / 1e9)
        self.assertEqual(said, {
            "http.request.method": "POST", "http.route": "/v2/models/{model}/infer", "http.response.status_code": 200,
            "url.path": "/v2/models/digits/infer", "url.scheme": "http", "client.address": "127.0.0.1",
            "gpuactors.request_id": "mine-1", "gpuactors.model": "digits", "gpuactors.version": "1",
            "gpuactors.batch_rows": 1})
        said = attributes(spans["internal batch"])
        self.assertGreaterEqual(said.pop("gpuactors.infer_seconds"), 0)
        self.assertEqual(said, {"gpuactors.model": "digits", "gpuactors.version": "1", "gpuactors.batch_rows": 1,
                                "gpuactors.batch_requests": 1})
        self.assertEqual([span.name for span in spans.values() if span.links or span.status.code], [])
        pids = {of["process.pid"] for span, of in self.collector.spans().values() if span.trace_id.hex() == trace}
        self.assertEqual(len(pids), 2)
        self.assertEqual([line["trace"] for line in self.lines(lambda line: line["id"] == "mine-1")], [trace])

    def test_a_request_without_a_trace_begins_one(self):
        self.assertEqual(self.infer(**{"X-Request-Id": "first-1"}), 200)
        spans = self.trace(self.trace_of("first-1"), below(INFER, ALONE))
        self.assertEqual(spans[INFER].parent_span_id, b"")
        versioned = "/v2/models/digits/versions/1/infer"
        self.assertEqual(self.ask(versioned, Server.body([[1.0] * INPUTS]), **{"X-Request-Id": "first-2"}), 200)
        self.trace(self.trace_of("first-2"), below("server POST /v2/models/{model}/versions/{version}/infer", ALONE))

    def test_a_request_over_grpc_goes_on_with_its_clients_trace_or_begins_one(self):
        root = "server inference.GRPCInferenceService/ModelInfer"
        trace = "b1" * 16
        self.model_infer("digits", traceparent=parent_of(trace), **{"x-request-id": "call-1"}).result()
        own = self.trace(trace, below(root, ALONE))[root]
        self.assertEqual(own.parent_span_id.hex(), CALLER)
        said = attributes(own)
        for key in ("client.port", "gpuactors.queue_seconds", "gpuactors.infer_seconds"):
            said.pop(key)
        self.assertEqual(said, {
            "rpc.system": "grpc", "rpc.service": "inference.GRPCInferenceService", "rpc.method": "ModelInfer",
            "rpc.grpc.status_code": 0, "client.address": "127.0.0.1", "gpuactors.request_id": "call-1",
            "gpuactors.model": "digits", "gpuactors.version": "1", "gpuactors.batch_rows": 1})
        self.model_infer("digits", **{"x-request-id": "call-2"}).result()
        self.assertEqual(self.trace(self.trace_of("call-2"), below(root, ALONE))[root].parent_span_id, b"")

    def test_a_batch_is_a_part_of_the_first_request_that_is_sampled_and_has_links_to_the_others(self):
        unseen, first, second = "c0" * 16, "c1" * 16, "c2" * 16
        threads = []
        for number, trace in enumerate((unseen, first, second), 1):
            fields = {"traceparent": parent_of(trace, trace != unseen)}
            threads.append(threading.Thread(target=self.infer, args=("full",), kwargs=fields))
            threads[-1].start()
            if number < 3:
                self.waits("full", number)
        for thread in threads:
            thread.join(DEADLINE)
        one = self.trace(first, below(INFER, ALONE))
        other = self.trace(second, below(INFER, [("internal queue",)]))
        self.assertEqual(self.spans(unseen), {})
        batch = one["internal batch"]
        self.assertEqual((attributes(batch)["gpuactors.batch_rows"], attributes(batch)["gpuactors.batch_requests"]), (3, 3))

        def links(span):
            return [(link.trace_id, link.span_id) for link in span.links]

        self.assertEqual(links(batch), [(other[INFER].trace_id, other[INFER].span_id)])
        for span in (other[INFER], other["internal queue"]):
            self.assertEqual(links(span), [(batch.trace_id, batch.span_id)])
        self.assertEqual(links(one[INFER]) + links(one["internal queue"]), [])
        self.assertEqual(attributes(other[INFER])["gpuactors.batch_rows"], 3)

    def test_the_stream_of_a_generative_model_is_a_part_of_its_request(self):
        streamed = [("client examples/writer/generate",),
                    ("client examples/writer/generate", "server examples/writer/generate"), ("internal queue",)]
        trace, root = "d1" * 16, "server POST /v2/models/{model}/generate_stream"
        body = {"text": "the ", "max_tokens": 3}
        self.assertEqual(self.ask("/v2/models/writer/generate_stream", body, traceparent=parent_of(trace)), 200)
        own = self.trace(trace, below(root, streamed))[root]
        first = attributes(own)["gpuactors.first_seconds"]
        self.assertLessEqual(first, (own.end_time_unix_nano - own.start_time_unix_nano) / 1e9)
        self.assertNotIn("gpuactors.batch_rows", attributes(own))
        trace, root = "d2" * 16, "server inference.GRPCInferenceService/ModelStreamInfer"
        request = service_pb2.ModelInferRequest(model_name="writer")
        request.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"the ")
        request.parameters["max_tokens"].int64_param = 3
        answers = self.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(
            iter([request.SerializeToString()] * 2), timeout=DEADLINE, metadata=[("traceparent", parent_of(trace))])
        self.assertEqual(len(list(answers)), 6)
        # Each request of the stream of gRPC is one of its own.
        own = self.trace(trace, sorted(below(root, streamed) * 2))[root]
        self.assertIn("gpuactors.first_seconds", attributes(own))
        self.assertEqual((own.parent_span_id.hex(), attributes(own)["gpuactors.model"]), (CALLER, "writer"))

    def test_what_is_refused_is_no_error_of_the_server_and_what_it_cannot_do_is_one(self):
        trace = "e1" * 16
        self.assertEqual(self.infer("none", traceparent=parent_of(trace)), 404)
        own = self.trace(trace, below(INFER, []))[INFER]
        self.assertEqual((attributes(own)["http.response.status_code"], own.status.code), (404, 0))
        self.assertEqual(self.ask("/nothing", method="GET", traceparent=parent_of("e2" * 16)), 404)
        self.assertNotIn("http.route", attributes(self.trace("e2" * 16, below("server GET", []))["server GET"]))
        self.assertEqual(self.ask("/nothing", method="BREW", traceparent=parent_of("e3" * 16)), 404)
        said = attributes(self.trace("e3" * 16, below("server HTTP", []))["server HTTP"])
        self.assertEqual((said["http.request.method"], said["http.request.method_original"]), ("_OTHER", "BREW"))
        call = self.model_infer("none", traceparent=parent_of("e4" * 16))
        self.assertEqual(call.code(), grpc.StatusCode.NOT_FOUND)
        root = "server inference.GRPCInferenceService/ModelInfer"
        self.assertEqual(self.trace("e4" * 16, below(root, []))[root].status.code, 0)
        self.assertEqual(self.ask("/v2/repository/models/gone/load", {"parameters": {}}), 404)
        self.assertEqual(self.ask("/v2/repository/models/writer/unload", {}, traceparent=parent_of("e5" * 16)), 200)
        self.trace("e5" * 16, below("server POST /v2/repository/models/{model}/unload", []))
        self.assertEqual(self.ask("/v2/models/writer/generate", {"text": "a"}, traceparent=parent_of("e6" * 16)), 503)
        own = next(iter(self.trace("e6" * 16, below("server POST /v2/models/{model}/generate", [])).values()))
        self.assertEqual((own.status.code, attributes(own)["error.type"]), (ERROR, "503"))
        self.assertEqual(self.ask("/v2/repository/models/writer/load", {}), 200)

    def test_a_request_that_its_client_gives_up_while_it_waits_says_so(self):
        call = self.model_infer("full", traceparent=parent_of("f1" * 16))
        self.waits("full", 1)
        call.cancel()
        root = "server inference.GRPCInferenceService/ModelInfer"
        spans = self.trace("f1" * 16, below(root, [("internal queue",)]))
        self.assertEqual((attributes(spans[root])["rpc.grpc.status_code"], spans[root].status.code), (1, 0))
        wait = spans["internal queue"]
        self.assertEqual((wait.status.code, attributes(wait)["error.type"]), (ERROR, "cancelled"))

    def lose_replicas(self, trace, stopped, lost):
        """Kills these, which answer nothing, when a batch of the trace is at one of them. `lost` is how many were lost
        before."""
        until(lambda: any(span.name == "queue" for span in self.spans(trace).values()), "its batch has been sent")
        lost += len(stopped)
        for pid in set(stopped):
            os.kill(pid, signal.SIGKILL)
        until(lambda: self.server.metric("gpuactors_serve_replicas_lost") >= lost, "all losses are noticed")

    def stop_replicas(self):
        """The processes of all replicas, which do nothing from now on."""
        pids = [replica["pid"] for kind in ("serve/replica", "examples/writer")
                for replica in self.cluster.replicas(kind)]
        for pid in set(pids):
            os.kill(pid, signal.SIGSTOP)
        return pids

    def test_a_batch_that_is_lost_has_failed_and_its_requests_wait_again_unless_they_were_given_up(self):
        trace = "a7" * 16
        lost = self.server.metric("gpuactors_serve_replicas_lost")
        stopped = self.stop_replicas()
        thread = threading.Thread(target=self.infer, kwargs={"traceparent": parent_of(trace)})
        thread.start()
        self.lose_replicas(trace, stopped, lost)
        thread.join(DEADLINE)
        ways = [("internal batch",), ("internal batch", "client serve/replica/infer"), ("internal queue",)]
        self.trace(trace, below(INFER, ALONE + ways))
        errors = {KINDS[span.kind] + " " + span.name: attributes(span)["error.type"]
                  for span in self.spans(trace).values() if span.status.code == ERROR}
        self.assertEqual(set(errors), {"internal batch", "client serve/replica/infer"}, errors)
        until(lambda: self.server.metric("gpuactors_serve_replicas") == 3, "all replicas serve again")
        trace = "a8" * 16
        lost = self.server.metric("gpuactors_serve_replicas_lost")
        stopped = self.stop_replicas()
        call = self.model_infer("digits", traceparent=parent_of(trace))
        until(lambda: self.spans(trace), "its batch has been sent")
        call.cancel()
        root = "server inference.GRPCInferenceService/ModelInfer"
        until(lambda: len(self.spans(trace)) == 2, "it has been given up")
        self.lose_replicas(trace, stopped, lost)
        self.trace(trace, below(root, ways))
        until(lambda: self.server.metric("gpuactors_serve_replicas") == 3, "all replicas serve again")
        self.assertEqual(self.infer(traceparent=parent_of("a9" * 16)), 200)
        self.trace("a9" * 16, below(INFER, ALONE))
        self.trace(trace, below(root, ways))

    def test_what_is_not_sampled_is_not_recorded_and_neither_are_probes(self):
        unseen, seen = "71" * 16, "72" * 16
        self.assertEqual(self.infer(traceparent=parent_of(unseen, False)), 200)
        for path in ("/v2/health/ready", "/metrics"):
            self.assertEqual(self.ask(path, method="GET", traceparent=parent_of(unseen)), 200)
        self.assertEqual(self.infer(traceparent=parent_of(seen)), 200)
        self.trace(seen, below(INFER, ALONE))
        self.assertEqual(self.spans(unseen), {})
        self.assertEqual([line["status"] for line in self.lines(lambda line: line.get("trace") == unseen)], [200])

    def test_a_server_that_records_nothing_passes_on_what_a_request_belongs_to(self):
        trace = "81" * 16
        with serving(SERVE, "--broker", self.cluster.broker, "--gpus", "0.25", "--model", f"other={self.network}",
                     env=self.env) as server:
            self.assertEqual(self.infer("other", server, traceparent=parent_of(trace)), 200)
        spans = self.trace(trace, [("server serve/replica/infer",)])
        self.assertEqual(spans["server serve/replica/infer"].parent_span_id.hex(), CALLER)

    def test_questions_that_the_server_asks_of_its_own_begin_no_traces(self):
        def asked():
            return sum(int(call["ran"]) for call in json.loads(self.cluster.run("calls", "--json"))
                       if call.get("method") == "describe" and call["name"].startswith("writer/"))

        # Those of the starts of replicas are before that.
        begun, questions = time.time_ns(), asked()
        until(lambda: asked() >= questions + 5, "it has asked more")
        self.assertEqual(self.infer(traceparent=parent_of("91" * 16)), 200)
        self.trace("91" * 16, below(INFER, ALONE))
        self.assertFalse([span for span, _ in self.collector.spans().values()
                          if span.name.endswith("/describe") and span.start_time_unix_nano > begun])


if __name__ == "__main__":
    unittest.main()
