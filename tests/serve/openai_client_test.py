"""OpenAI's paths asked by OpenAI's own client: openai_client_test.py SERVER FOLDER

FOLDER is where a virtual environment with it is kept; it is made on first use. Exits with 77, and the reason, where
that is not possible.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from environment import enter_environment  # noqa: E402

enter_environment(sys.argv[2], "openai")

# pylint: disable=wrong-import-position
import tempfile  # noqa: E402
import unittest  # noqa: E402

import openai  # noqa: E402

from serving import Server, eventually, write_tokens  # noqa: E402

del sys.argv[2]
PROGRAM = sys.argv.pop(1)


def client_of(server, key="none"):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.http}/v1", api_key=key, max_retries=0)


class Paths(unittest.TestCase):
    """The model "talk" answers the characters of its text, one by one."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        status = cls.server.stop()
        assert status == 0, f"the server ended with {status}"

    def test_lists_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["talk"])

    def test_completes(self):
        answer = self.client.completions.create(model="talk", prompt="hällo", max_tokens=5)
        self.assertEqual((answer.choices[0].text, answer.choices[0].finish_reason), ("hällo", "stop"))
        self.assertEqual((answer.model, answer.object, answer.usage), ("talk", "text_completion", None))

    def test_completes_in_a_stream(self):
        chunks = list(self.client.completions.create(model="talk", prompt="abc", stream=True))
        self.assertEqual([chunk.choices[0].text for chunk in chunks], ["a", "b", "c", ""])
        self.assertEqual([chunk.choices[0].finish_reason for chunk in chunks], [None] * 3 + ["stop"])
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_chats(self):
        # It answers what it is asked: the document of a chat.
        messages = [{"role": "system", "content": "be"}, {"role": "user", "content": "brief"}]
        answer = self.client.chat.completions.create(model="talk", messages=messages)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIn('"brief"', answer.choices[0].message.content)
        text = ""
        for chunk in self.client.chat.completions.create(model="talk", messages=messages, stream=True):
            text += chunk.choices[0].delta.content or ""
        self.assertEqual(text, answer.choices[0].message.content)

    def test_says_what_is_wrong(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="none", prompt="a")
        self.assertIn("none", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="talk", prompt="a", n=2)
        self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="line", prompt="a")
        self.assertIn("does not write texts", caught.exception.message)

    def test_fails_in_a_stream(self):
        stream = self.client.completions.create(model="talk", prompt="abc", stream=True, extra_body={"fail_after": 1})
        with self.assertRaises(openai.APIError):
            list(stream)

    def test_gives_up(self):
        stream = self.client.completions.create(model="talk", prompt="abc", stream=True, extra_body={"hold_after": 1})
        self.assertEqual(next(iter(stream)).choices[0].text, "a")
        before = self.server.metric("test_talks_cancelled")
        stream.close()
        eventually(lambda: self.server.metric("test_talks_cancelled") == before + 1)


class Keys(unittest.TestCase):
    """A token is OpenAI's key."""

    def test_key(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(PROGRAM, "--token-file", write_tokens(folder, "0123456789abcdef0123456789abcdef"))
            try:
                with self.assertRaises(openai.AuthenticationError):
                    client_of(server, "wrong").models.list()
                client = client_of(server, "0123456789abcdef0123456789abcdef")
                self.assertEqual(client.completions.create(model="talk", prompt="a").choices[0].text, "a")
            finally:
                server.stop()


if __name__ == "__main__":
    unittest.main()
