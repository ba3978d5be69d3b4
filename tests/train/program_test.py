#!/usr/bin/env python3
"""Runs gpuactors-train as a user would, on data that are made here: program_test.py GPUACTORS_TRAIN GPUACTORS"""

import contextlib
import gzip
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = os.path.abspath(sys.argv[1])
CLI = os.path.abspath(sys.argv[2])
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS")}


def train(folder, *arguments):
    return subprocess.run([PROGRAM, "--devices", "host:1x256MiB", *arguments], cwd=folder, env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60, check=False)


def write_data(path, rows=300):
    """Points around three centres, in seven numbers."""
    draw = random.Random(1)
    centres = [[draw.uniform(0, 8) for _ in range(7)] for _ in range(3)]
    with gzip.open(path, "wt") as file:
        for row in range(rows):
            numbers = [f"{centre + draw.uniform(-1, 1):.3f}" for centre in centres[row % 3]]
            file.write(",".join(numbers) + f",{row % 3}\n")


@contextlib.contextmanager
def cluster(folder):
    """The address of a broker with one device, and the environment for its clients."""
    environment = ENVIRONMENT | {"XDG_STATE_HOME": folder}
    with subprocess.Popen([CLI, "up", "--listen", "127.0.0.1:0", "--devices", "host:1x256MiB", "--program", PROGRAM],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process.stdout.readline().split()[-1], environment
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write_data(self.path("data.csv.gz"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def train(self, *arguments, data="data.csv.gz"):
        done = train(self.folder, "--data", data, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refusal(self, *arguments, code=2):
        done = train(self.folder, *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        # On a busy machine a worker may take longer to start than is said nothing about.
        error = re.sub(r"^(gpuactors-train: )?waiting for .*\n", "", done.stderr)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertTrue(error.startswith("gpuactors-train: "), error)
        return error

    def await_line(self, process, pattern):
        line = process.stderr.readline()
        while line and not re.search(pattern, line):
            line = process.stderr.readline()
        self.assertRegex(line, pattern)

    def test_it_trains_shows_progress_and_writes_what_was_asked_for(self):
        done = self.train("--layers", "7,16,3", "--epochs", "20", "--gpus", "0.5", "--checkpoint", "net", "--plot")
        self.assertRegex(done.stdout, r"data.csv.gz: 300 rows of 7 numbers, 3 classes")
        accuracy = re.search(r"test accuracy: ([\d.]+) \(mean of 5 splits: ([\d. ]+)\), 60 rows", done.stdout)
        self.assertGreater(float(accuracy[1]), 0.95)
        self.assertEqual(len(accuracy[2].split()), 5)
        self.assertRegex(done.stderr, r"epoch 20/20  loss [\d.]+  [\d,]+ rows/s\n$")
        lines = self.read("net.csv").decode().splitlines()
        self.assertEqual(lines[0], "step,epoch,loss")
        self.assertEqual(len(lines), 1 + 20 * 4)
        self.assertTrue(lines[-1].startswith("80,20,"))
        self.assertLess(float(lines[-1].split(",")[2]), float(lines[1].split(",")[2]))
        picture = xml.etree.ElementTree.fromstring(self.read("net.svg"))
        self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}polyline")), 2)

    def test_a_resumed_training_is_the_uninterrupted_one(self):
        self.train("--splits", "1", "--epochs", "9", "--checkpoint", "whole")
        self.train("--splits", "1", "--epochs", "4", "--checkpoint", "part")
        self.assertNotEqual(self.read("part"), self.read("whole"))
        part = self.read("part")
        done = self.train("--splits", "1", "--epochs", "9", "--checkpoint", "part", "--resume", "--plot")
        self.assertEqual(self.read("part"), self.read("whole"))
        self.assertIn("20 steps", done.stdout)
        self.assertEqual(self.read("part.csv"), self.read("whole.csv"))
        self.assertIn("0.0,", xml.etree.ElementTree.fromstring(self.read("part.svg")).find(
            "{http://www.w3.org/2000/svg}polyline").get("points"))
        # From an earlier checkpoint, what was learnt after it is learnt again; what is not there begins there.
        self.write("part", part)
        self.write("part.csv", self.read("part.csv") + b"37,10,0.1")
        done = self.train("--splits", "1", "--epochs", "9", "--checkpoint", "part", "--resume")
        self.assertIn("part.csv: its last line was cut off and is left out", done.stdout)
        self.assertEqual(self.read("part.csv"), self.read("whole.csv"))
        self.write("part", part)
        self.train("--splits", "1", "--epochs", "9", "--checkpoint", "part", "--resume", "--curve", "rest.csv")
        self.assertEqual(self.read("rest.csv").splitlines()[1:], self.read("whole.csv").splitlines()[1 + 4 * 4:])

    def test_a_resumed_training_that_has_nothing_left_to_do_tells_the_loss_that_it_ended_with(self):
        for more in ((), ("--workers", "2", "--gpus", "0.25", "--batch", "32")):
            self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net", "--overwrite", *more)
            last = float(self.read("net.csv").decode().splitlines()[-1].split(",")[2])
            done = self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net", "--resume", *more)
            self.assertIn("0 steps on ", done.stdout)
            self.assertIn(f", loss of the last step {last:.6f}\n", done.stdout)

    def test_a_checkpoint_is_replaced_only_when_that_is_said(self):
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net")
        good = self.read("net"), self.read("net.csv")
        again = ("--data", "data.csv.gz", "--splits", "1", "--epochs", "2", "--checkpoint", "net", "--seed", "2")
        self.assertIn("net is there already: --resume goes on from it, --overwrite begins anew",
                      self.refusal(*again, code=1))
        self.assertEqual((self.read("net"), self.read("net.csv")), good)
        self.assertIn("without --resume", self.refusal(*again, "--resume", "--overwrite"))
        done = train(self.folder, *again, "--overwrite")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.read("net"), good[0])

    def test_a_curve_that_is_not_of_this_training_is_refused_and_stays(self):
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "one")
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "two", "--seed", "2")
        self.write("other.csv", b"1,2,0\n")
        go_on = ("--data", "data.csv.gz", "--splits", "1", "--epochs", "3", "--checkpoint", "one", "--resume", "--curve")
        for name, words in (("two.csv", "two.csv is the curve of another training: the loss of step 8 is"),
                            ("other.csv", "other.csv is no loss curve")):
            before = self.read("one"), self.read(name)
            self.assertIn(words, self.refusal(*go_on, name, code=1))
            self.assertEqual((self.read("one"), self.read(name)), before)

    def test_no_file_that_it_writes_takes_the_place_of_another_one_or_of_the_data(self):
        os.symlink("data.csv.gz", self.path("link"))
        os.rename(self.path("data.csv.gz"), self.path("data.svg"))
        os.symlink("data.svg", self.path("data.csv.gz"))
        before = self.read("data.svg")
        for arguments, words in (
                (("--checkpoint", "net", "--curve", "net"), "the checkpoint and the loss curve would be one file, net"),
                (("--checkpoint", "net", "--curve", self.path("sub/../net")), "the checkpoint and the loss curve"),
                (("--curve", "data.svg"), "--data and the loss curve would be one file, data.svg"),
                (("--curve", "link"), "--data and the loss curve would be one file, link"),
                (("--checkpoint", "link", "--overwrite"), "--data and the checkpoint would be one file, link"),
                (("--curve", "data.csv", "--plot"), "--data and the picture of the loss curve"),
                (("--checkpoint", "net.svg", "--curve", "net.csv", "--plot"),
                 "the checkpoint and the picture of the loss curve would be one file, net.svg")):
            self.assertIn(words, self.refusal("--data", "data.csv.gz", "--splits", "1", "--epochs", "1", *arguments,
                                              code=1))
        self.assertEqual(self.read("data.svg"), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["data.csv.gz", "data.svg", "link"])

    def test_the_curve_of_a_group_is_held_against_its_checkpoint_too(self):
        workers = ("--workers", "2", "--gpus", "0.25", "--batch", "32")
        self.train(*workers, "--epochs", "2", "--checkpoint", "one")
        self.train(*workers, "--epochs", "2", "--checkpoint", "two", "--seed", "2")
        go_on = ("--data", "data.csv.gz", *workers, "--epochs", "3", "--checkpoint", "one", "--resume", "--curve")
        self.assertIn("two.csv is the curve of another training", self.refusal(*go_on, "two.csv", code=1))
        self.write("short.csv", b"".join(self.read("one.csv").splitlines(True)[:3]))
        done = train(self.folder, *go_on, "short.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("short.csv: it ends at step 2, before the checkpoint's step 8", done.stdout)

    def test_what_is_no_file_is_not_written_to_and_nothing_is_learnt_before_that_is_said(self):
        os.mkdir(self.path("folder"))
        os.mkdir(self.path("drawn.svg"))
        os.symlink("folder", self.path("link"))
        os.mkfifo(self.path("pipe"))
        os.symlink("circle", self.path("circle"))
        os.symlink("none/net", self.path("lost"))
        for arguments, words in (
                (("--checkpoint", "folder", "--curve", "c.csv"), "the checkpoint would replace folder, which is there"),
                (("--checkpoint", "link", "--curve", "c.csv"), "the checkpoint would replace link, which is there"),
                (("--checkpoint", "circle"), "circle cannot be written: Too many levels of symbolic links"),
                (("--checkpoint", "lost"), "lost cannot be written: there is no folder"),
                (("--curve", "pipe"), "the loss curve would replace pipe, which is there and is no file"),
                (("--curve", "drawn.csv", "--plot"), "the picture of the loss curve would replace drawn.svg")):
            self.assertIn(words, self.refusal("--data", "data.csv.gz", "--splits", "1", "--epochs", "1", *arguments,
                                              code=1))
        self.assertEqual(sorted(os.listdir(self.folder)), ["circle", "data.csv.gz", "drawn.svg", "folder", "link", "lost", "pipe"])

    def test_a_checkpoint_and_a_curve_that_are_links_stay_links(self):
        os.mkdir(self.path("disk"))
        os.symlink("disk/net", self.path("net"))
        os.symlink("disk/net.csv", self.path("net.csv"))
        self.train("--splits", "1", "--epochs", "1", "--checkpoint", "net")
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net", "--resume")
        for name in ("net", "net.csv"):
            self.assertTrue(os.path.islink(self.path(name)))
            self.assertFalse(os.path.islink(self.path("disk/" + name)))
        self.assertEqual(len(self.read("disk/net.csv").decode().splitlines()), 1 + 2 * 4)
        # What a link leads to is one file with it, also before that is there.
        os.symlink("new.csv", self.path("new"))
        self.assertIn("the checkpoint and the loss curve would be one file",
                      self.refusal("--data", "data.csv.gz", "--epochs", "1", "--checkpoint", "new", code=1))

    def test_the_curve_of_a_training_that_fails_is_written(self):
        os.mkdir(self.path("net.part"))  # where the checkpoint is written first
        for more in ((), ("--workers", "2", "--gpus", "0.25", "--batch", "32")):
            done = train(self.folder, "--data", "data.csv.gz", "--splits", "1", "--epochs", "9", "--checkpoint", "net",
                         "--checkpoint-epochs", "5", *more)
            self.assertEqual(done.returncode, 1, done.stdout)
            lines = self.read("net.csv").decode().splitlines()
            self.assertEqual(len(lines), 1 + 5 * 4)
            os.remove(self.path("net.csv"))

    def test_a_training_that_diverges_fails_and_its_checkpoint_stays(self):
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net", "--activation", "identity")
        good = self.read("net")
        for more in ((), ("--workers", "2", "--gpus", "0.25", "--batch", "32")):
            done = train(self.folder, "--data", "data.csv.gz", "--splits", "1", "--epochs", "100", "--checkpoint", "net",
                         "--overwrite", "--checkpoint-epochs", "100", "--activation", "identity", "--rate", "9e5", *more)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("no finite number any more, and is not saved", done.stderr)
            self.assertEqual(self.read("net"), good)
        done = train(self.folder, "--data", "data.csv.gz", "--splits", "1", "--epochs", "100", "--activation", "identity",
                     "--rate", "9e5")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the loss is no number any more", done.stdout)

    def test_a_damaged_checkpoint_is_refused(self):
        self.train("--splits", "1", "--epochs", "2", "--checkpoint", "net", "--activation", "identity")
        good = self.read("net")
        for bad in (good[:-1], good[:-1] + bytes([good[-1] ^ 1])):
            self.write("net", bad)
            self.assertRegex(self.refusal("--data", "data.csv.gz", "--checkpoint", "net", "--resume", code=1),
                             "truncated|altered or damaged")

    def test_it_ends_early_when_asked_and_goes_on_later(self):
        command = [PROGRAM, "--devices", "host:1x256MiB", "--data", "data.csv.gz", "--batch", "1", "--epochs", "1000000",
                   "--checkpoint", "net", "--splits", "1"]
        with subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            self.await_line(process, r"epoch \d+/1000000 ")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        step = int(re.search(r"stopped after step (\d+); --resume goes on from there", output)[1])
        self.assertEqual(self.read("net.csv").decode().count("\n"), 1 + step)
        self.assertTrue(self.read("net.csv").decode().splitlines()[-1].startswith(f"{step},"))
        epochs = step // 240 + 1
        done = self.train("--batch", "1", "--epochs", str(epochs), "--checkpoint", "net", "--resume", "--splits", "1")
        self.assertIn(f"{epochs * 240 - step} steps", done.stdout)

    def test_it_ends_at_once_when_asked_while_it_waits_for_a_device(self):
        with cluster(self.folder) as (broker, environment):
            command = [PROGRAM, "--broker", broker, "--data", "data.csv.gz", "--batch", "1", "--epochs", "1000000"]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with subprocess.Popen(command, cwd=self.folder, env=environment, **pipes) as first:
                self.await_line(first, r"epoch \d+/1000000 ")
                for more in ((), ("--workers", "2", "--gpus", "0.5")):
                    with subprocess.Popen([*command, *more], cwd=self.folder, env=environment, **pipes) as second:
                        self.assertRegex(second.stderr.readline(), "waiting for (a device|devices for 2 workers)")
                        second.send_signal(signal.SIGINT)
                        output, error = second.communicate(timeout=30)
                    self.assertEqual(second.returncode, 130, output + error)
                    self.assertIn("stopped", output)
                    self.assertIsNone(first.poll())
                first.send_signal(signal.SIGINT)
                first.communicate(timeout=30)
            self.assertEqual(first.returncode, 130)

    def test_a_sweep_prints_a_table(self):
        done = self.train("--gpus", "0.25", "--epochs", "10", "--sweep", "rate=0.1,0.01,0.0001")
        lines = done.stdout.splitlines()[1:]
        self.assertEqual(lines[0].split(), ["rate", "loss", "test", "loss", "accuracy", "seconds", "where"])
        self.assertEqual([line.split()[0] for line in lines[1:]], ["0.1", "0.01", "0.0001"])
        losses = [float(line.split()[1]) for line in lines[1:]]
        self.assertEqual(losses, sorted(losses))
        self.assertTrue(any(line.endswith("best") for line in lines))
        self.assertIn("3 of 3 trainings done", done.stderr)

    def test_what_has_diverged_or_was_not_tested_is_not_the_best_of_a_sweep(self):
        done = self.train("--gpus", "0.25", "--epochs", "100", "--activation", "identity", "--sweep", "rate=9e5,0.01")
        diverged, good = done.stdout.splitlines()[2:]
        self.assertFalse(diverged.endswith("best"), diverged)
        self.assertTrue(good.endswith("best"), good)
        done = self.train("--gpus", "0.25", "--epochs", "3", "--test-part", "0", "--sweep", "rate=0.1,0.01")
        for line in done.stdout.splitlines()[2:]:
            self.assertEqual(line.split()[2:4], ["-", "-"])
            self.assertFalse(line.endswith("best"), line)

    def test_several_workers_learn_the_same(self):
        one = self.train("--double", "--batch", "32", "--epochs", "5", "--splits", "1", "--curve", "one.csv")
        two = self.train("--double", "--batch", "16", "--epochs", "5", "--gpus", "0.25", "--workers", "2", "--curve",
                         "two.csv", "--nccl")  # which has nothing to do here
        self.assertIn("40 steps", one.stdout)
        self.assertIn("40 steps", two.stdout)
        curves = [self.read(name).decode().splitlines()[1:] for name in ("one.csv", "two.csv")]
        for a, b in zip(*curves):
            self.assertAlmostEqual(float(a.split(",")[2]), float(b.split(",")[2]), places=9)

    def test_data_that_are_wrong_are_refused_with_their_line(self):
        for text, words in (("1,2,0\n1,0\n", "line 2 has 2 columns; the rows before it have 3"),
                            ("1,2,0\n1,x,0\n", "line 2 has \"x\" in column 2"),
                            ("1,2,0\n1,nan,0\n", "line 2 has nan in column 2"),
                            ("", "it ends before line 1")):
            with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn(words, self.refusal("--data", "bad.csv", code=1))
        self.assertIn("No such file", self.refusal("--data", "none.csv", code=1))

    def test_options_that_are_wrong_are_refused_in_one_line(self):
        data = ("--data", "data.csv.gz")
        for arguments, words, code in (
                ((), "--data is required", 2),
                ((*data, "--layers", "7"), "at least inputs and outputs", 2),
                ((*data, "--layers", "8,3"), "--layers begins with 8, but the rows of data.csv.gz have 7", 1),
                ((*data, "--layers", "7,2"), "labels up to 2: at least 3 outputs are due", 1),
                ((*data, "--rate", "0"), "the rate of learning is above 0", 2),
                ((*data, "--resume"), "name it by --checkpoint FILE", 2),
                ((*data, "--plot"), "name that by --curve FILE", 2),
                ((*data, "--sweep", "speed=1"), "--sweep takes rate, momentum", 2),
                ((*data, "--sweep", "rate=1", "--checkpoint", "x"), "without --workers, --checkpoint", 2),
                ((*data, "--sweep", "momentum=0,0.9", "--optimizer", "adam"), "momentum is one of sgd: adam has", 2),
                ((*data, "--on-loss", "cry"), "--on-loss", 2),
                ((*data, "--fast"), "--fast", 2),
                ((*data, "--gpus", "0"), "a trainer needs a device", 1),
                ((*data, "--gpus", "1.5"), "--gpus is 1 at most", 2),
                ((*data, "--gpus", "2"), "--workers N has N of them train one network together", 2),
                ((*data, "--gpus", "0.25", "--workers", "2", "--splits", "5"), "--workers above 1 has one split", 2),
                ((*data, "--sweep", "rate=0.1,0.2", "--splits", "2"), "a sweep has one split: leave --splits out", 2),
                *(((*data, "--seed", seed), f"in decimal digits, from 0 to 18446744073709551615, not {seed}", 2)
                  for seed in ("-1", "010", "0x10", "1e3", "18446744073709551616"))):
            self.assertIn(words, self.refusal(*arguments, code=code))

    def test_the_help_teaches(self):
        done = train(self.folder, "--help")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(train(self.folder, "--version").stdout, r"^gpuactors-train \d+\.\d+\.\d+\n$")
        for words in ("--data FILE", "--on-loss", "examples:", "fetch_digits.sh", "--sweep rate=0.1,0.01,0.001"):
            self.assertIn(words, done.stdout)
        # Headings and kinds of values, and not what the parser calls them.
        for words in ("\nLearning:\n", "--epochs N=30", "--optimizer sgd|adam=sgd"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("Option Group", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
