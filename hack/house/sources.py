# SPDX-License-Identifier: Apache-2.0
"""The sources that the house is measured by, and C text without what does not count."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = re.compile(r"zz_generated|testdata/|/vectors/")
TEST = re.compile(r"_test\.go$|/tests/|/fuzz/")
C_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def listed(*patterns):
    """Files of the tree that are written by hand, as pathnames from its top."""
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in out.split() if not GENERATED.search(name) and (ROOT / name).exists()]


def is_test(name):
    return TEST.search("/" + name) is not None


def bare(text):
    """C text with comments, strings and characters blanked; lines stay where they are."""
    return C_NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
