#!/usr/bin/env python3
"""The example that takes texts in batches, asked by tritonclient: texts_client_test.py GPUACTORS-SERVE PLUGIN FOLDER

FOLDER is where a virtual environment with tritonclient is kept; it is made on first use. Exits with 77, and the reason,
where that is not possible.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[3], "tritonclient[http,grpc]", "numpy", "ml_dtypes")

# pylint: disable=wrong-import-position
import tempfile  # noqa: E402
import threading  # noqa: E402
import unittest  # noqa: E402

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tritonclient.grpc as grpcclient  # noqa: E402
import tritonclient.http as httpclient  # noqa: E402
from tritonclient.grpc import service_pb2  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

from program_support import DEADLINE, environment, serving  # noqa: E402
from texts_test import LANGUAGES, TEXTS, elements, expected  # noqa: E402

SERVE, PLUGIN, _ = sys.argv[1:4]
del sys.argv[1:4]


def strings(module, texts, **options):
    tensor = module.InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=np.object_), **options)
    return [tensor]


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        path = os.path.join(cls.folder, "languages.txt")
        with open(path, "w", encoding="utf-8") as out:
            out.write(LANGUAGES)
        model = f"{path},actor=examples/language,set=longest=1000"
        # A batch of the second one waits for an hour unless it is full.
        cls.server = cls.enterClassContext(
            serving(SERVE, "--model", f"language={model}", "--model", f"full={model},max-batch=8,max-delay=3600000",
                    "--plugin", PLUGIN, "--devices", "host:1x64MiB", "--grpc", "127.0.0.1:0",
                    env=environment(cls.folder)))
        cls.address = next(line.split()[-1] for line in cls.server.lines if line.startswith("gRPC at "))
        cls.grpc = cls.enterClassContext(grpcclient.InferenceServerClient(cls.address))
        cls.http = cls.enterClassContext(httpclient.InferenceServerClient(cls.server.address))

    def check(self, result, texts):
        # What came as JSON is a str already.
        languages = [text if isinstance(text, str) else text.decode() for text in result.as_numpy("language")]
        self.assertEqual(languages, [expected(text)[0] for text in texts])
        np.testing.assert_allclose(result.as_numpy("score"), [expected(text)[1] for text in texts], atol=1e-5)

    def send(self, request):
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            return service_pb2.ModelInferResponse.FromString(call(request.SerializeToString(), timeout=DEADLINE))

    def test_both_clients_send_and_read_texts(self):
        self.check(self.grpc.infer("language", strings(grpcclient, TEXTS)), TEXTS)
        for binary in (True, False):
            outputs = [httpclient.InferRequestedOutput(name, binary_data=not binary) for name in ("language", "score")]
            inputs = strings(httpclient, TEXTS, binary_data=binary)
            self.check(self.http.infer("language", inputs, outputs=outputs), TEXTS)

    def test_typed_contents_and_raw_ones_say_the_same(self):
        typed = service_pb2.ModelInferRequest(model_name="language")
        typed.inputs.add(name="text", datatype="BYTES", shape=[3]).contents.bytes_contents.extend(
            [b"the dog", b"", b"le chien"])
        raw = service_pb2.ModelInferRequest(model_name="language", raw_input_contents=[
            elements([b"the dog", b"", b"le chien"])])
        raw.inputs.add(name="text", datatype="BYTES", shape=[3])
        for request in (typed, raw):
            answer = self.send(request)
            self.assertEqual(answer.raw_output_contents[0], elements([b"english", b"", b"french"]))
            self.assertEqual([(output.datatype, list(output.shape)) for output in answer.outputs],
                             [("BYTES", [3]), ("FP32", [3])])

    def test_lengths_that_do_not_fit_are_refused(self):
        for shape, data in (([1], b"\x05\0\0\0abcd"), ([2], elements([b"ab"])), ([1], elements([b"a", b"b"])),
                            ([1], b"\xff\xff\xff\xff"), ([1], b"a")):
            request = service_pb2.ModelInferRequest(model_name="language", raw_input_contents=[data])
            request.inputs.add(name="text", datatype="BYTES", shape=shape)
            with self.assertRaises(grpc.RpcError) as caught:
                self.send(request)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("element", caught.exception.details())
        request = service_pb2.ModelInferRequest(model_name="language")
        request.inputs.add(name="text", datatype="BYTES", shape=[2]).contents.bytes_contents.append(b"one")
        with self.assertRaises(grpc.RpcError) as caught:
            self.send(request)
        self.assertIn("within element 1 of 2", caught.exception.details())
        large = "x" * (5 << 20)
        for client, module in ((self.grpc, grpcclient), (self.http, httpclient)):
            with self.assertRaises(InferenceServerException) as caught:
                client.infer("language", strings(module, [large]))
            self.assertIn("takes inputs of up to 4194048 bytes", caught.exception.message())

    def test_requests_over_both_protocols_share_a_batch_and_a_bad_one_fails_alone(self):
        answers = {}

        def ask(i, client, module, texts):
            try:
                answers[i] = client.infer("full", strings(module, texts))
            except InferenceServerException as error:
                answers[i] = error

        requests = [TEXTS[:3], ["x" * 1001], TEXTS[3:5], TEXTS[4:]]
        # The HTTP client is not for several threads at once.
        others = [httpclient.InferenceServerClient(self.server.address) for _ in range(2)]
        clients = [(self.grpc, grpcclient), (self.grpc, grpcclient), *((other, httpclient) for other in others)]
        threads = [threading.Thread(target=ask, args=(i, *clients[i], requests[i])) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        for other in others:
            other.close()
        self.assertIn("a text has 1001 bytes: it may have 1000", answers.pop(1).message())
        for i, result in answers.items():
            self.check(result, requests[i])
        stats = self.grpc.get_inference_statistics("full").model_stats[0]
        # All in one batch, which failed, and then one by one.
        self.assertEqual({one.batch_size: one.compute_infer.count for one in stats.batch_stats}, {2: 2, 3: 1})
        self.assertEqual(stats.inference_stats.fail.count, 1)
        texts = [["the dog"], ["der Hund", "le chien"], TEXTS[:5]]
        threads = [threading.Thread(target=ask, args=(i, self.grpc, grpcclient, texts[i])) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        for i in range(3):
            self.check(answers[i], texts[i])
        stats = self.grpc.get_inference_statistics("full").model_stats[0]
        self.assertEqual({one.batch_size: one.compute_infer.count for one in stats.batch_stats}, {2: 2, 3: 1, 8: 1})


if __name__ == "__main__":
    unittest.main()
