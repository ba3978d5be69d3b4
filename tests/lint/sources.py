"""The files of the project, for all lint tests."""

import os
import subprocess

CODE = (".hpp", ".cpp", ".cu", ".cuh", ".h")


def files(root):
    """Paths of all files that are or would be under version control, relative to root, sorted."""
    try:
        listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
        inside = os.path.exists(os.path.join(root, ".git"))
    except (OSError, subprocess.CalledProcessError):
        inside = False
    if inside:
        return sorted(path for path in set(listing.split("\0")) if os.path.isfile(os.path.join(root, path)))
    result = []
    for folder, folders, names in os.walk(root): # an unpacked archive: all but what builds leave
        folders[:] = [name for name in folders if not (name == ".git" or name == "build" or name.startswith("build-"))]
        result += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(result)


def code_files(root):
    """The C++ and CUDA sources among them."""
    return [path for path in files(root) if path.endswith(CODE)]


def read(root, path):
    """The text of a file, or None if it is not text."""
    try:
        with open(os.path.join(root, path), encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        return None


def report(findings):
    """Prints findings and returns the exit status."""
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings" if findings else "clean")
    return 1 if findings else 0
