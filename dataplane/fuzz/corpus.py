#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inputs that every fuzzing run begins with: one archive a target, so that they do not hide the tree's other files.

  corpus.py unpack FOLDER          FOLDER/<target> gets exactly what corpus/<target>.tar.xz holds
  corpus.py add TARGET FILE...     put inputs into a target's archive; what it has under any name is not put twice
  corpus.py list [TARGET]          names and sizes

The same inputs make the same archive: names sorted, no times, no owners.
"""
import hashlib
import io
import lzma
import pathlib
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHIVES = HERE / "corpus"
ENDING = ".tar.xz"


def targets(archives=ARCHIVES):
    return sorted(f.name.removesuffix(ENDING) for f in archives.glob("*" + ENDING))


def read(target, archives=ARCHIVES):
    """{name: input} of a target; nothing where it has no archive yet."""
    path = archives / (target + ENDING)
    if not path.exists():
        return {}
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        odd = [m.name for m in members if not m.isfile() or m.name != pathlib.PurePath(m.name).name]
        if odd:
            raise SystemExit(f"corpus: {path}: {odd[0]} is not a file of the archive's top")
        return {m.name: archive.extractfile(m).read() for m in members}


def packed(inputs):
    """The bytes of an archive."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(inputs):
            member = tarfile.TarInfo(name)  # time, user and group are 0
            member.size = len(inputs[name])
            archive.addfile(member, io.BytesIO(inputs[name]))
    return lzma.compress(plain.getvalue(), preset=9)


def add(target, new, archives=ARCHIVES):
    """Puts inputs into a target's archive; how many it did not have."""
    inputs = read(target, archives)
    before, held = len(inputs), set(inputs.values())
    inputs.update({hashlib.sha1(data).hexdigest()[:16]: data for data in new if data not in held})
    if len(inputs) > before:
        archives.mkdir(exist_ok=True)
        (archives / (target + ENDING)).write_bytes(packed(inputs))
    return len(inputs) - before


def unpack(folder, archives=ARCHIVES):
    """Writes what differs and removes what no archive has, so that a second time costs nothing."""
    for target in targets(archives):
        inputs, to = read(target, archives), folder / target
        to.mkdir(parents=True, exist_ok=True)
        for old in to.iterdir():
            if old.name not in inputs:
                old.unlink()
        for name, data in inputs.items():
            path = to / name
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)


def main(argv):
    if len(argv) == 2 and argv[0] == "unpack":
        unpack(pathlib.Path(argv[1]))
    elif len(argv) >= 3 and argv[0] == "add":
        if not (HERE / f"fuzz_{argv[1]}.c").is_file():
            raise SystemExit(f"corpus: {argv[1]}: no such target: there is no dataplane/fuzz/fuzz_{argv[1]}.c")
        print(f"{argv[1]}: {add(argv[1], [pathlib.Path(f).read_bytes() for f in argv[2:]])} of {len(argv) - 2} were new")
    elif 1 <= len(argv) <= 2 and argv[0] == "list":
        for target in argv[1:] or targets():
            for name, data in sorted(read(target).items()):
                print(f"{target}/{name} {len(data)}")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
