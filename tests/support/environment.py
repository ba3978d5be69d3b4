"""Virtual environments for tests with the real packages of others, made on first use and kept in the build folder."""

import os
import subprocess
import sys

SKIPPED = 77


def run_quietly(*command):
    """None, or the last line of what it complains about."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = done.stdout.decode(errors="replace").strip().splitlines() or ["no reason given"]
    return None if done.returncode == 0 else lines[-1]


def enter_environment(folder, *packages):
    """Goes on in the virtual environment with these packages; does not return unless this is it. Exits with 77, and the
    reason, where they cannot be installed."""
    python = os.path.join(folder, "bin", "python")
    finished = os.path.join(folder, "installed")
    if os.path.realpath(sys.prefix) == os.path.realpath(folder):
        return
    if not os.path.exists(finished):
        why = run_quietly(sys.executable, "-m", "venv", "--clear", folder) or \
            run_quietly(python, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-compile", "--retries",
                        "1", "--timeout", "20", *packages)
        if why:
            print(f"skipped: {', '.join(packages)} cannot be installed: {why}")
            sys.exit(SKIPPED)
        with open(finished, "w", encoding="ascii"):
            pass
    os.execv(python, [python, "-B", *sys.argv])
