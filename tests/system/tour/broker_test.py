"""The tour on a cluster that runs already, whose nodes start the tour's own program as worker: broker_test.py GPUACTORS
TOUR"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from up import up  # noqa: E402

# All but those that only compute for long.
PROGRAMS = [f"T{n}" for n in range(2, 18) if n != 12]


def main():
    gpuactors, tour = sys.argv[1:]
    with up(gpuactors, "--devices", "host:2x4GiB", "--program", tour) as client:
        done = client(tour, "--only", ",".join(PROGRAMS), "--json", deadline=280)
        print(done.stdout, done.stderr, sep="\n")
        rows = json.loads(done.stdout)
        failed = [row for row in rows if not row.get("ok")]
        assert done.returncode == 0 and not failed, f"exit code {done.returncode}, failed: {failed}"
        assert [program for program in PROGRAMS if program not in {row["program"] for row in rows}] == []


if __name__ == "__main__":
    main()
