# SPDX-License-Identifier: Apache-2.0
"""What the writers of test files share (stf/frames.py of each program)."""
import struct
import sys


def ones(data, start=0):
    """The sum of 16-bit words in one's complement."""
    total = start + sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def packet(port, data):
    return f"packet {port} {data.hex(' ').upper()}"


def expect(port, data, more=False):
    return f"expect {port} {data.hex(' ').upper()}" + ("" if more else "$")


def write(folder, head, files):
    """Writes (name, lines) into the folder. With --check: 1 when a file there is not what it would write."""
    stale = 0
    for name, lines in files:
        text = f"# SPDX-License-Identifier: Apache-2.0\n# Written by frames.py. {head}\n" + "\n".join(lines) + "\n"
        path = folder / f"{name}.stf"
        if "--check" in sys.argv:
            if not path.is_file() or path.read_text() != text:
                print(f"{path}: run frames.py", file=sys.stderr)
                stale = 1
        else:
            path.write_text(text)
    return stale
