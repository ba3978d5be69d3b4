#!/usr/bin/env python3
"""Texts that a language model writes through gpuactors-serve and by transformers, in turns: versus.py --bin BUILD

A model of the Llama family with random weights (8 layers of 512, 32 million parameters, f32) writes 128 tokens behind
32, always the likeliest: one text alone, and several at once. Ours comes through HTTP, with a request for each text;
transformers' generate has them as one batch, in its own process. Both have all processors.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import transformers

GIVEN, WRITTEN, VOCABULARY = 32, 128, 8000


def make_model(folder):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1408,
                                      num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
                                      max_position_embeddings=1024, eos_token_id=None, bos_token_id=None)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder, safe_serialization=True)
    return model


class Server:
    """gpuactors-serve with the model on one host device, all of it."""

    def __init__(self, programs, folder, most):
        self.process = subprocess.Popen(
            [os.path.join(programs, "bin", "gpuactors-serve"), "--model",
             f"m,actor=llm/decoder,gpus=1,max-running={most},set=folder={folder},set=context=512", "--plugin",
             os.path.join(programs, "lib", "gpuactors_llm.so"), "--devices", "host:1x4GiB", "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stdout:
            if line.startswith("HTTP at "):
                self.address = line.split()[2].split("//")[-1].rstrip(",")
            if line.startswith("ready"):
                return
        raise SystemExit("gpuactors-serve did not start")

    def write(self, tokens):
        connection = http.client.HTTPConnection(self.address)
        connection.request("POST", "/v2/models/m/generate", json.dumps({"tokens": tokens, "max_tokens": WRITTEN}))
        answer = json.loads(connection.getresponse().read())
        assert len(answer["tokens"]) == WRITTEN, answer
        return answer["tokens"]

    def end(self):
        self.process.terminate()
        self.process.wait()


def ours(server, texts):
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        begin = time.perf_counter()
        written = list(pool.map(server.write, texts))
        return written, len(texts) * WRITTEN / (time.perf_counter() - begin)


def theirs(model, texts):
    x = torch.tensor(texts)
    begin = time.perf_counter()
    with torch.no_grad():
        all_tokens = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=WRITTEN, do_sample=False,
                                    pad_token_id=0)
    rate = len(texts) * WRITTEN / (time.perf_counter() - begin)
    return all_tokens[:, GIVEN:].tolist(), rate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="the build folder, with bin and lib")
    parser.add_argument("--turns", type=int, default=3, help="so often each (3)")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 8], help="so many at once (1 8)")
    arguments = parser.parse_args()
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {os.cpu_count()} processors, "
          f"{arguments.turns} turns; tokens a second")
    print(f"{'texts at once':<14}{'gpuactors':>12}{'transformers':>14}{'ratio':>8}   least..most   the same tokens")
    lowest = []
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(folder)
        server = Server(arguments.bin, folder, max(arguments.texts))
        try:
            for count in arguments.texts:
                texts = torch.randint(0, VOCABULARY, (count, GIVEN)).tolist()
                ours(server, texts)
                theirs(model, texts)
                rates, same = [], 0
                for _ in range(arguments.turns):
                    written, mine = ours(server, texts)
                    expected, other = theirs(model, texts)
                    rates.append((mine, other, mine / other))
                    same = sum(a == b for a, b in zip(written, expected))
                mine, other, ratio = (statistics.median(column) for column in zip(*rates))
                ratios = [one[2] for one in rates]
                print(f"{count:<14}{mine:>12.1f}{other:>14.1f}{ratio:>8.2f}   {min(ratios):.2f}..{max(ratios):.2f}"
                      f"     {same} of {count}", flush=True)
                lowest.append(ratio)
        finally:
            server.end()
    return 0 if min(lowest) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
