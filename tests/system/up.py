"""A cluster of processes for tests of whole programs: `gpuactors up` and its clients."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile

DEADLINE = 50


@contextlib.contextmanager
def up(gpuactors, *arguments, **variables):
    """Runs `gpuactors up ARGUMENTS`, with certificates of its own and these variables; gives a function that runs a
    client of it. Its end must be a clean one."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("GPUACTORS_BROKER", "GPUACTORS_CERTS", "CUDA_VISIBLE_DEVICES")}
    with contextlib.ExitStack() as stack:
        env["XDG_STATE_HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        process = stack.enter_context(subprocess.Popen([gpuactors, "up", "--listen", "127.0.0.1:0", *arguments],
                                                       stdout=subprocess.PIPE, env={**env, **variables}, text=True))
        stack.callback(process.kill)
        ready = process.stdout.readline()
        assert re.fullmatch(r"broker listens at 127\.0\.0\.1:\d+\n", ready), ready

        def client(*command, stdin="", deadline=DEADLINE):
            return subprocess.run([*command, "--broker", ready.split()[-1]], input=stdin, env=env, capture_output=True,
                                  text=True, timeout=deadline, check=False)

        client.broker = ready.split()[-1]
        yield client
        process.send_signal(signal.SIGTERM)
        code = process.wait(DEADLINE)
        assert code == 0, f"up ended with {code}"
