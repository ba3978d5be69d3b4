#!/usr/bin/env python3
"""The example of a generative model, asked by tritonclient: writer_client_test.py GPUACTORS-SERVE GPUACTORS PLUGIN FOLDER

FOLDER is where a virtual environment with tritonclient is kept; it is made on first use. Exits with 77, and the reason,
where that is not possible.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[4], "tritonclient[http,grpc]", "numpy", "ml_dtypes")

# pylint: disable=wrong-import-position
import queue  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402

import numpy as np  # noqa: E402
import tritonclient.grpc as grpcclient  # noqa: E402
import tritonclient.http as httpclient  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

from program_support import DEADLINE, environment, serving, until  # noqa: E402

SERVE, _, PLUGIN, _ = sys.argv[1:5]
del sys.argv[1:5]
TEXT = "the cat sat on the mat and the dog sat on the log. " * 20


def prompt(text, module=grpcclient):
    tensor = module.InferInput("text", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode()], dtype=np.object_))
    return [tensor]


class Writer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        path = os.path.join(cls.folder, "text.txt")
        with open(path, "w", encoding="ascii") as out:
            out.write(TEXT)
        cls.server = cls.enterClassContext(
            serving(SERVE, "--model", f"writer={path},actor=examples/writer", "--plugin", PLUGIN, "--devices",
                    "host:1x256MiB", "--grpc", "127.0.0.1:0", env=environment(cls.folder)))
        address = next(line.split()[-1] for line in cls.server.lines if line.startswith("gRPC at "))
        cls.address = address
        cls.client = grpcclient.InferenceServerClient(address)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_the_model_says_that_it_streams(self):
        config = self.client.get_model_config("writer").config
        self.assertTrue(config.model_transaction_policy.decoupled)
        self.assertEqual(config.max_batch_size, 0)
        metadata = self.client.get_model_metadata("writer")
        self.assertEqual(metadata.inputs[0].datatype, "BYTES")
        self.assertEqual(list(metadata.outputs[0].shape), [1])
        with httpclient.InferenceServerClient(self.server.address) as client:
            self.assertEqual(client.get_model_config("writer")["model_transaction_policy"], {"decoupled": True})

    def test_one_answer_cannot_be_asked_for(self):
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("writer", prompt("the "))
        self.assertIn("UNIMPLEMENTED", caught.exception.status())
        self.assertIn("ModelStreamInfer", caught.exception.message())
        with httpclient.InferenceServerClient(self.server.address) as client:
            with self.assertRaises(InferenceServerException) as caught:
                client.infer("writer", prompt("the ", httpclient))
            self.assertIn("generate_stream", str(caught.exception))

    def test_requests_of_a_sequence_go_on_where_the_one_before_has_ended(self):
        answers = queue.Queue()
        client = grpcclient.InferenceServerClient(self.address)
        client.start_stream(lambda result, error: answers.put((result, error)))
        # All of both at once: the server keeps the order.
        for step in range(3):
            for sequence in (2**63 - 1, "a text"):
                client.async_stream_infer("writer", prompt("the c" if step == 0 else ""), sequence_id=sequence,
                                          sequence_start=step == 0, sequence_end=step == 2, request_id=str(sequence),
                                          parameters={"max_tokens": 4, "temperature": 0})
        texts = {}
        for _ in range(3 * 2 * 4):
            result, error = answers.get(timeout=DEADLINE)
            self.assertIsNone(error)
            name = result.get_response().id
            texts[name] = texts.get(name, "") + result.as_numpy("text")[0].decode()
        self.assertEqual(texts, {str(2**63 - 1): "at sat on th", "a text": "at sat on th"})
        client.async_stream_infer("writer", prompt("a"), sequence_id=5)
        self.assertIn('there is no sequence "5"', str(answers.get(timeout=DEADLINE)[1]))
        client.stop_stream()
        client.close()

    def test_requests_of_one_stream_are_answered_together(self):
        answers = queue.Queue()
        client = grpcclient.InferenceServerClient(self.address)
        client.start_stream(lambda result, error: answers.put((result, error)))
        count = 8
        for i in range(count):
            client.async_stream_infer("writer", prompt("the c"), request_id=str(i), enable_empty_final_response=True,
                                      parameters={"max_tokens": 300, "temperature": 0 if i == 0 else 1.0, "seed": i})
        texts = {str(i): "" for i in range(count)}
        order = []
        ended = set()
        while len(ended) < count:
            result, error = answers.get(timeout=DEADLINE)
            self.assertIsNone(error)
            response = result.get_response()
            if response.parameters["triton_final_response"].bool_param:
                self.assertEqual(len(response.outputs), 0)
                ended.add(response.id)
                continue
            self.assertNotIn(response.id, ended)
            texts[response.id] += result.as_numpy("text")[0].decode()
            order.append(response.id)
        self.assertEqual({len(text) for text in texts.values()}, {300})
        self.assertTrue(texts["0"].startswith("at sat on the"))
        # As they come: not one request after the other.
        changes = sum(a != b for a, b in zip(order, order[1:]))
        self.assertGreater(changes, 3 * count)
        client.async_stream_infer("writer", prompt("the c"), request_id="bad", parameters={"top_k": 1})
        _, error = answers.get(timeout=DEADLINE)
        self.assertIn("top_k", error.message())
        client.stop_stream()
        client.close()

    def test_a_stream_that_is_given_up_ends_its_texts(self):
        answers = queue.Queue()
        client = grpcclient.InferenceServerClient(self.address)
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(3):
            client.async_stream_infer("writer", prompt("the "), request_id=str(i), parameters={"max_tokens": 10**9})
        until(lambda: answers.qsize() > 10, "texts come")
        self.assertEqual(self.server.metric("gpuactors_serve_running"), 3)
        client.stop_stream(cancel_requests=True)
        until(lambda: self.server.metric("gpuactors_serve_running") == 0, "nothing runs")
        client.close()

    def test_a_timeout_ends_a_text(self):
        answers = queue.Queue()
        client = grpcclient.InferenceServerClient(self.address)
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("writer", prompt("the "), request_id="7", timeout=200_000,
                                  parameters={"max_tokens": 10**9})
        for result, error in iter(lambda: answers.get(timeout=DEADLINE), None):
            if error is not None:
                break
            self.assertEqual(result.get_response().id, "7")
        self.assertIn("did not answer within the timeout of 200.000 ms", error.message())
        client.stop_stream()
        client.close()


if __name__ == "__main__":
    unittest.main()
