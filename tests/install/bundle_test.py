#!/usr/bin/env python3
"""Bundles a program, unpacks it elsewhere and runs it there: bundle_test.py MAKE_BUNDLE PROGRAM ARGUMENT...

What it loads must lie in the bundle or belong to the machine (glibc), and two archives of the same files must be equal.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile

OF_THE_MACHINE = re.compile(r"/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread)\.so[^/]*$")


def main():
    make_bundle, program, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        archives = [os.path.join(folder, where, "bundle.tar.gz") for where in ("one", "two")]
        for archive in archives:
            os.mkdir(os.path.dirname(archive))
            subprocess.run([sys.executable, make_bundle, "--output", archive, "--program", program, "--strip", "strip"],
                           check=True)
        contents = [open(archive, "rb").read() for archive in archives]
        assert contents[0] == contents[1], "two archives of the same files differ"
        place = os.path.join(folder, "moved")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(place)
        unpacked = os.path.join(place, "bundle", "bin", os.path.basename(program))
        # With nothing of this environment that could help it to find its libraries.
        ran = subprocess.run([unpacked, *arguments], env={"LD_DEBUG": "libs"}, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        loaded = set(re.findall(r"calling init: (\S+)", ran.stderr))
        strange = [path for path in loaded if not path.startswith(place) and not OF_THE_MACHINE.search(path)]
        assert any(path.startswith(place) for path in loaded), f"nothing of the bundle was loaded: {loaded}"
        assert not strange, f"loaded from outside of the bundle: {strange}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
