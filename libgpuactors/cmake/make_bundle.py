#!/usr/bin/env python3
"""Makes a relocatable archive: programs in bin/, libraries in lib/, licences of what is not ours in licenses/.

make_bundle.py --output FILE.tar.gz --program FILE... --library FILE... [--loads FILE...] [--file FILE...]
[--folder FOLDER...] [--strip PROGRAM]

What the programs and libraries need, as ldd says, comes along, and what they load by name (--loads), except glibc and
CUDA: those belong to the machine. Our own files get the search path $ORIGIN/../lib (or $ORIGIN) as DT_RPATH, which,
unlike DT_RUNPATH, also serves the libraries of others behind them. The archive depends on its contents alone: equal
files make equal archives.
"""

import argparse
import gzip
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

# The machine's own: glibc, whose parts must fit together and to the kernel, the CUDA driver and CUDA's libraries.
OF_THE_MACHINE = re.compile(
    r"^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl|libnss_.*|libmvec"
    r"|libcuda|libnvidia-.*|libcublas|libcublasLt|libcudart|libnvrtc.*|libcudnn.*|libnccl)\.so(\.|$)")

DT_SONAME, DT_RPATH, DT_RUNPATH = 14, 15, 29


def needed(path):
    """{name: file} of everything that `path` loads, and what was not found."""
    listed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    found, missing = {}, []
    for line in listed.splitlines():
        match = re.match(r"\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", line)
        if match is None:
            continue
        name, file = match.groups()
        if file == "not found":
            missing.append(name)
        else:
            found[name] = file
    return found, missing


def sections(data):
    """{name: (offset, size)} of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    text = headers[names][4]
    result = {}
    for name, _, _, _, offset, length in headers:
        end = data.index(b"\0", text + name)
        result[bytes(data[text + name:end]).decode()] = (offset, length)
    return result


def strings_of(data, tags):
    """(place of the entry, begin and end of the text) of the first entry of .dynamic with one of the tags."""
    parts = sections(data)
    dynamic, length = parts[".dynamic"]
    for at in range(dynamic, dynamic + length, 16):
        tag, offset = struct.unpack_from("<QQ", data, at)
        if tag in tags:
            begin = parts[".dynstr"][0] + offset
            return at, begin, data.index(b"\0", begin)
    return None


def name_of(path):
    """What programs that are linked with a library ask for."""
    with open(path, "rb") as file:
        data = file.read()
    found = strings_of(data, [DT_SONAME])
    return data[found[1]:found[2]].decode() if found else os.path.basename(path)


def set_search_path(path, value):
    """Makes `value` the DT_RPATH of an ELF file that has a search path already, at least as long."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    found = strings_of(data, [DT_RPATH, DT_RUNPATH])
    if found is None:
        raise ValueError("it has no search path: link it with one")
    at, begin, end = found
    new = value.encode()
    if len(new) > end - begin:
        raise ValueError(f"its search path is too short for {value}")
    # What is behind the new end stays: the linker lets other names ("read") end where this text ("...pthread") ends.
    data[begin:begin + len(new)] = new
    if len(new) < end - begin:
        data[begin + len(new)] = 0
    struct.pack_into("<Q", data, at, DT_RPATH)
    with open(path, "wb") as file:
        file.write(data)


def copy(source, folder, name=None):
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, name or os.path.basename(source))
    shutil.copyfile(os.path.realpath(source), target)
    shutil.copymode(os.path.realpath(source), target)
    return target


def licence_of(file):
    """The licence file of the package that a library is from, where there are packages."""
    for candidate in (file, os.path.realpath(file)):
        for path in (candidate, candidate.removeprefix("/usr")):
            try:
                owner = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=True).stdout
            except (OSError, subprocess.CalledProcessError):
                continue
            package = owner.split(":")[0]
            licence = f"/usr/share/doc/{package}/copyright"
            if os.path.exists(licence):
                return package, licence
    return None


def fill(folder, arguments):
    ours = [(path, "bin", "$ORIGIN/../lib") for path in arguments.program]
    ours += [(path, "lib", "$ORIGIN") for path in arguments.library]
    own_names = {name_of(path) for path in arguments.library}
    others = {}
    for path, _, _ in ours:
        found, missing = needed(path)
        if missing:
            raise ValueError(f"{path} needs {', '.join(missing)}, which is not here")
        others.update({name: file for name, file in found.items()
                       if name not in own_names and not OF_THE_MACHINE.match(name)})
    for path in arguments.loads:
        found, _ = needed(path)
        others.update({name: file for name, file in {**found, name_of(path): path}.items()
                       if not OF_THE_MACHINE.match(name)})
    for path, place, search in ours:
        target = copy(path, os.path.join(folder, place), name_of(path) if place == "lib" else None)
        if arguments.strip:
            subprocess.run([arguments.strip, "-g", target], check=True)
        try:
            set_search_path(target, search)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    for name, file in sorted(others.items()):
        copy(file, os.path.join(folder, "lib"), name)
        if (licence := licence_of(file)) is not None:
            copy(licence[1], os.path.join(folder, "licenses"), licence[0])
    for file in arguments.file:
        copy(file, folder)
    for tree in arguments.folder:
        shutil.copytree(tree, os.path.join(folder, os.path.basename(tree)))


def least_glibc(folder):
    """{(major, minor): [files]} of the versions of glibc that the files need at least, the youngest first."""
    least = {}
    for base, _, files in os.walk(folder):
        for file in files:
            with open(os.path.join(base, file), "rb") as content:
                versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\0])", content.read())
            if versions:
                least.setdefault(max((int(major), int(minor)) for major, minor in versions), []).append(file)
    return dict(sorted(least.items(), reverse=True))


def pack(folder, name, output):
    """The archive, without anything of when and by whom it was made."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for base, folders, files in os.walk(folder):
            folders.sort()
            for file in sorted(files):
                path = os.path.join(base, file)
                entry = archive.gettarinfo(path, os.path.join(name, os.path.relpath(path, folder)))
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                with open(path, "rb") as content:
                    archive.addfile(entry, content)
    with open(output, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(plain.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True)
    parser.add_argument("--strip", help="the program that takes debugging symbols out of our own files")
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--library", action="append", default=[])
    parser.add_argument("--loads", action="append", default=[], help="a library that ours load at run time, by name")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--folder", action="append", default=[])
    arguments = parser.parse_args()
    name = os.path.basename(arguments.output).removesuffix(".tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        try:
            fill(folder, arguments)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"make_bundle.py: {error}", file=sys.stderr)
            return 1
        for (major, minor), files in list(least_glibc(folder).items())[:2]:
            print(f"glibc {major}.{minor} is what {', '.join(sorted(files))} need")
        pack(folder, name, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
