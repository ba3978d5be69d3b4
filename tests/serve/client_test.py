"""The fronts asked by the clients that people use, tritonclient over HTTP and gRPC: client_test.py SERVER FOLDER

FOLDER is where a virtual environment with tritonclient is kept; it is made on first use. Exits with 77, and the reason,
where that is not possible.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[2], "tritonclient[http,grpc]", "numpy", "ml_dtypes")

# pylint: disable=wrong-import-position
import queue  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import unittest  # noqa: E402

import grpc  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.grpc as grpcclient  # noqa: E402
import tritonclient.http as httpclient  # noqa: E402
from tritonclient.grpc import service_pb2  # noqa: E402
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402

from serving import Server, eventually, make_certificate, write_tokens  # noqa: E402

del sys.argv[2]
PROGRAM = sys.argv.pop(1)
BYTES = 64 << 20


class Clients:
    """What holds over both protocols; `module` is the client's."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, *cls.OPTIONS)
        port = cls.server.http if cls.module is httpclient else cls.server.grpc
        cls.client = cls.module.InferenceServerClient(f"127.0.0.1:{port}")

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        assert status == 0, f"the server ended with {status}"

    def input(self, name, values, **how):
        tensor = self.module.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values, **how)
        return tensor

    def refused(self, status, words, call, *arguments, **named):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **named)
        self.assertIn(status, str(caught.exception.status()))
        self.assertIn(words, caught.exception.message())

    def test_batches_of_1_to_64(self):
        random = np.random.default_rng(1)
        for rows in range(1, 65):
            x = random.standard_normal((rows, 4), dtype=np.float32)
            result = self.client.infer("line", [self.input("x", x)], request_id=str(rows))
            np.testing.assert_array_equal(result.as_numpy("y"), 2 * x + 1)

    def test_wrong_requests(self):
        x = np.ones((1, 4), np.float32)
        infer = self.client.infer
        bad, missing = self.codes
        self.refused(missing, "none", infer, "none", [self.input("x", x)])
        self.refused(missing, "line", infer, "line", [self.input("x", x)], model_version="9")
        self.refused(bad, "\"x\"", infer, "line", [self.input("z", x)])
        self.refused(bad, "FP32", infer, "line", [self.input("x", x.astype(np.int32))])
        self.refused(bad, "[-1,4]", infer, "line", [self.input("x", np.ones((4, 1), np.float32))])
        self.refused(bad, "1 to 64", infer, "line", [self.input("x", np.ones((65, 4), np.float32))])
        self.refused(bad, "output", infer, "line", [self.input("x", x)],
                     outputs=[self.module.InferRequestedOutput("z")])
        lying = self.input("x", x)
        lying.set_shape([2, 4])
        self.refused(bad, "16 bytes", infer, "line", [lying])
        lying.set_shape([-1, 4])
        self.refused(bad, "negative", infer, "line", [lying])
        self.refused(bad, "sequence", infer, "line", [self.input("x", x)], sequence_id=5, sequence_start=True)
        shared = self.module.InferInput("x", [1, 4], "FP32")
        shared.set_shared_memory("region", 16)
        self.refused(bad, "shared memory", infer, "line", [shared])

    def test_every_type_comes_back_as_it_was(self):
        for dtype in (bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
                      np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
            values = np.array([[0, 1], [1, 0]]).astype(dtype)
            result = self.client.infer("echo", [self.input("v", values)])
            np.testing.assert_array_equal(result.as_numpy("v"), values)
            self.assertEqual(result.as_numpy("v").dtype, values.dtype)
        text = np.array([b"ab", b"", b"\xff\x00", "é".encode()], dtype=np.object_)
        np.testing.assert_array_equal(self.client.infer("echo", [self.input("t", text)]).as_numpy("t"), text)

    def test_large_tensors(self):
        values = np.arange(4 << 20, dtype=np.float32)
        result = self.client.infer("echo", [self.input("v", values)])
        np.testing.assert_array_equal(result.as_numpy("v"), values)

    def test_health_and_repository(self):
        client = self.client
        self.assertTrue(client.is_server_live())
        self.assertTrue(client.is_server_ready())
        self.assertTrue(client.is_model_ready("line", "1"))
        self.assertFalse(client.is_model_ready("none"))
        client.unload_model("line")
        self.assertFalse(client.is_model_ready("line"))
        self.refused(self.unavailable, "not loaded", client.infer, "line", [self.input("x", np.ones((1, 4), np.float32))])
        client.load_model("line", config='{"max_batch_size": 8}')
        self.assertTrue(client.is_model_ready("line"))
        with self.assertRaises(InferenceServerException):
            client.load_model("none")

    def test_timeout(self):
        x = self.input("x", np.ones((1, 4), np.float32))
        self.refused(self.late, "timeout", self.client.infer, "wait", [x], timeout=20_000)


class HttpClients(Clients, unittest.TestCase):
    module = httpclient
    codes = ("400", "404")
    unavailable = "503"
    late = "504"

    def test_descriptions(self):
        client = self.client
        self.assertIn("binary_tensor_data", client.get_server_metadata()["extensions"])
        self.assertEqual(client.get_model_metadata("line")["outputs"],
                         [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertEqual(client.get_model_config("line")["max_batch_size"], 64)
        self.assertIn("success", client.get_inference_statistics("line")["model_stats"][0]["inference_stats"])
        self.assertEqual(len(client.get_inference_statistics()["model_stats"]), 5)
        self.assertEqual(len(client.get_model_repository_index()), 5)

    def test_json_in_and_out(self):
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        for binary_in in (True, False):
            for binary_out in (True, False):
                result = self.client.infer("line", [self.input("x", x, binary_data=binary_in)],
                                           outputs=[httpclient.InferRequestedOutput("y", binary_data=binary_out)])
                np.testing.assert_array_equal(result.as_numpy("y"), 2 * x + 1)
                self.assertEqual("data" in result.get_output("y"), not binary_out)
        half = self.input("v", np.ones(2, np.float16))
        self.refused("400", "FP16", self.client.infer, "echo", [half],
                     outputs=[httpclient.InferRequestedOutput("v", binary_data=False)])

    def test_packed_requests(self):
        x = np.ones((64, 4), np.float32)
        for algorithm in ("gzip", "deflate"):
            result = self.client.infer("line", [self.input("x", x)], request_compression_algorithm=algorithm,
                                       response_compression_algorithm=algorithm)
            np.testing.assert_array_equal(result.as_numpy("y"), 2 * x + 1)

    def test_many_at_once(self):
        with httpclient.InferenceServerClient(f"127.0.0.1:{self.server.http}", concurrency=8) as client:
            inputs = [np.full((1, 4), i, np.float32) for i in range(100)]
            pending = [client.async_infer("line", [self.input("x", x)]) for x in inputs]
            for x, one in zip(inputs, pending):
                np.testing.assert_array_equal(one.get_result().as_numpy("y"), 2 * x + 1)


class GrpcClients(Clients, unittest.TestCase):
    module = grpcclient
    codes = ("INVALID_ARGUMENT", "NOT_FOUND")
    unavailable = "UNAVAILABLE"
    late = "DEADLINE_EXCEEDED"

    def channel(self):
        return grpc.insecure_channel(f"127.0.0.1:{self.server.grpc}", [("grpc.max_send_message_length", -1)])

    def send(self, payload, **options):
        """ModelInfer with bytes of our own."""
        with self.channel() as channel:
            return channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(payload, timeout=30, **options)

    def test_descriptions(self):
        client = self.client
        self.assertIn("statistics", client.get_server_metadata().extensions)
        self.assertEqual(list(client.get_model_metadata("line").outputs[0].shape), [-1, 4])
        self.assertEqual(client.get_model_config("line").config.max_batch_size, 64)
        self.assertEqual(len(client.get_inference_statistics().model_stats), 5)
        self.assertEqual(len(client.get_model_repository_index().models), 5)
        self.refused("UNIMPLEMENTED", "tracing", client.get_trace_settings)
        self.refused("UNIMPLEMENTED", "shared memory", client.get_system_shared_memory_status)

    def test_contents_by_type(self):
        request = service_pb2.ModelInferRequest(model_name="line")
        x = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        x.contents.fp32_contents.extend([1, 2, 3, 4])
        answer = service_pb2.ModelInferResponse.FromString(self.send(request.SerializeToString()))
        np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), [3, 5, 7, 9])

    def test_streams_are_read_by_one_thread_at_a_time(self):
        good = service_pb2.ModelInferRequest(model_name="line")
        good.inputs.add(name="x", datatype="FP32", shape=[64, 4])
        good.raw_input_contents.append(bytes(1024))
        late = service_pb2.ModelInferRequest()
        late.CopyFrom(good)
        late.model_name = "wait"
        late.parameters["timeout"].int64_param = 1  # answered by another thread, and soon
        messages = [good.SerializeToString(), late.SerializeToString()] * 2_000
        with self.channel() as channel:
            stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
            answers = [service_pb2.ModelStreamInferResponse.FromString(answer)
                       for answer in stream(iter(messages), timeout=60)]
        self.assertEqual(len(answers), len(messages))
        for i, answer in enumerate(answers):
            self.assertEqual("timeout" in answer.error_message, i % 2 == 1, answer.error_message)

    def test_streams_answer_in_order_and_go_on_after_errors(self):
        answers = queue.Queue()
        client = grpcclient.InferenceServerClient(f"127.0.0.1:{self.server.grpc}")
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(200):
            model = "none" if i % 10 == 3 else "line"
            client.async_stream_infer(model, [self.input("x", np.full((1, 4), i, np.float32))], request_id=str(i))
        for i in range(200):
            result, error = answers.get(timeout=30)
            if i % 10 == 3:
                self.assertIn("none", error.message())
            else:
                self.assertEqual(result.get_response().id, str(i))
                self.assertEqual(result.as_numpy("y")[0, 0], 2 * i + 1)
        client.stop_stream()
        client.close()

    def test_a_stream_that_is_given_up_ends_its_requests(self):
        before = self.server.metric("test_cancelled")
        client = grpcclient.InferenceServerClient(f"127.0.0.1:{self.server.grpc}")
        client.start_stream(lambda result, error: None)
        for _ in range(50):
            client.async_stream_infer("wait", [self.input("x", np.ones((1, 4), np.float32))])
        # Not all: those beyond are not even read.
        eventually(lambda: self.server.metric("test_waiting") == 32)
        client.stop_stream(cancel_requests=True)
        eventually(lambda: self.server.metric("test_waiting") == 0)
        self.assertGreaterEqual(self.server.metric("test_cancelled"), before + 32)
        client.close()

    def test_a_call_that_is_given_up_or_late_ends_its_request(self):
        before = self.server.metric("test_cancelled")
        answers = queue.Queue()
        call = self.client.async_infer("wait", [self.input("x", np.ones((1, 4), np.float32))],
                                       lambda result, error: answers.put(error))
        eventually(lambda: self.server.metric("test_waiting") == 1)
        call.cancel()
        self.assertIn("CANCELLED", str(answers.get(timeout=30).status()))
        eventually(lambda: self.server.metric("test_cancelled") == before + 1)
        # It may reach the server after the client has turned away: the tests after this one cannot count on when.
        self.refused("DEADLINE_EXCEEDED", "", self.client.infer, "wait",
                     [self.input("x", np.ones((1, 4), np.float32))], client_timeout=0.05)
        eventually(lambda: self.server.metric("test_waiting") == 0)

    def test_a_stream_that_is_given_up_under_an_answer_ends_its_requests(self):
        big = service_pb2.ModelInferRequest(model_name="big")
        big.inputs.add(name="n", datatype="INT32", shape=[1]).contents.int_contents.append(1 << 20)
        wait = service_pb2.ModelInferRequest(model_name="wait")
        wait.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([1, 1, 1, 1])
        for _ in range(30):
            with grpc.insecure_channel(f"127.0.0.1:{self.server.grpc}") as channel:
                stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                               request_serializer=lambda request: request.SerializeToString())
                release = threading.Event()

                def requests():
                    yield big
                    yield wait
                    release.wait(30)

                call = stream(requests())
                # The large answer is on its way by then, and stuck: nobody takes it.
                eventually(lambda: self.server.metric("test_waiting") == 1)
                call.cancel()
                release.set()
            eventually(lambda: self.server.metric("test_waiting") == 0)

    def test_bytes_that_are_no_message(self):
        good = service_pb2.ModelInferRequest(model_name="line")
        good.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        good.raw_input_contents.append(b"0123456789abcdef")
        good = good.SerializeToString()
        for payload in (b"\xff" * 100, good[:-3], b"\x2a\xff\xff\xff\xff\x0f", good + b"\x0b", b""):
            with self.assertRaises(grpc.RpcError) as caught:
                self.send(payload)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertTrue(self.send(good))

    def test_messages_that_would_grow_are_bounded(self):
        before = self.server.resident()
        limits = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)
        # Empty inputs take 2 bytes each on the wire, and many more in memory.
        for payload in (b"\x2a\x00" * (24 << 20), b"\x3a\x80\x80\x80\x20" + bytes(BYTES)):
            with self.assertRaises(grpc.RpcError) as caught:
                self.send(payload)
            self.assertIn(caught.exception.code(), limits, caught.exception.details())
            self.assertLess(self.server.resident() - before, 300 << 20)
        # What is packed could become anything.
        with self.assertRaises(grpc.RpcError) as caught:
            self.send(b"\x3a\x80\x80\x80\x80\x01" + bytes(256 << 20), compression=grpc.Compression.Gzip)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertIn("disabled", caught.exception.details())
        self.assertLess(self.server.resident() - before, 300 << 20)
        eventually(lambda: self.server.metric("gpuactors_serve_held_bytes") == 0)


class GrpcAccess(unittest.TestCase):
    def test_tokens_over_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            made = make_certificate(folder)
            if not made:
                self.skipTest("there is no openssl")
            token = "0123456789abcdef"
            with Server(PROGRAM, "--token-file", write_tokens(folder, token), "--certificate", made[0],
                        "--key", made[1]) as server:
                client = grpcclient.InferenceServerClient(f"localhost:{server.grpc}", ssl=True,
                                                          root_certificates=made[0])
                self.assertTrue(client.is_server_live())
                self.assertTrue(client.is_server_ready())
                x = grpcclient.InferInput("x", [1, 4], "FP32")
                x.set_data_from_numpy(np.ones((1, 4), np.float32))
                for call in (client.get_server_metadata, lambda **named: client.infer("line", [x], **named)):
                    for headers in ({}, {"authorization": "Bearer 0123456789abcdeX"}):
                        with self.assertRaises(InferenceServerException) as caught:
                            call(headers=headers)
                        self.assertIn("UNAUTHENTICATED", caught.exception.status())
                        self.assertIn("token", caught.exception.message())
                    self.assertTrue(call(headers={"authorization": f"Bearer {token}"}))
                answers = queue.Queue()
                client.start_stream(lambda result, error: answers.put(error))
                self.assertIn("UNAUTHENTICATED", answers.get(timeout=30).status())
                client.stop_stream(cancel_requests=True)
                client.close()


class GrpcSlowReaders(unittest.TestCase):
    def test_a_client_that_does_not_read_is_cut_off(self):
        with Server(PROGRAM, "--transfer-ms", "3000") as server:
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
                request = service_pb2.ModelInferRequest(model_name="big")
                request.inputs.add(name="n", datatype="INT32", shape=[1]).contents.int_contents.append(1 << 20)
                stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
                held = queue.Queue()
                call = stream(iter(lambda: held.get() if held.qsize() else request.SerializeToString(), None))
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") > 0)
                eventually(lambda: server.metric("gpuactors_serve_held_bytes") == 0)
                call.cancel()


if __name__ == "__main__":
    unittest.main()
