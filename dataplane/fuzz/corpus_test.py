#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is put into an archive comes out of it. Run: dataplane/fuzz/corpus_test.py"""
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
import corpus  # noqa: E402


class Archives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.archives, self.out = pathlib.Path(folder.name, "corpus"), pathlib.Path(folder.name, "out")

    def unpacked(self):
        corpus.unpack(self.out, self.archives)
        return {str(f.relative_to(self.out)): f.read_bytes() for f in self.out.rglob("*") if f.is_file()}

    def test_in_and_out_again(self):
        self.assertEqual(corpus.add("wire", [b"one", b"", b"two"], self.archives), 3)
        self.assertEqual(corpus.add("link", [b"one"], self.archives), 1)
        found = self.unpacked()
        self.assertEqual(sorted(found.values()), [b"", b"one", b"one", b"two"])
        self.assertEqual(sorted({name.partition("/")[0] for name in found}), ["link", "wire"])

    def test_no_input_twice(self):
        self.assertEqual(corpus.add("wire", [b"one", b"one"], self.archives), 1)
        self.assertEqual(corpus.add("wire", [b"one", b"two"], self.archives), 1)
        self.assertEqual(len(self.unpacked()), 2)

    def test_order_does_not_matter(self):
        corpus.add("a", [b"one", b"two"], self.archives)
        corpus.add("b", [b"two"], self.archives)
        corpus.add("b", [b"one"], self.archives)
        self.assertEqual((self.archives / "a.tar.xz").read_bytes(), (self.archives / "b.tar.xz").read_bytes())

    def test_what_no_archive_has_is_removed(self):
        corpus.add("wire", [b"one"], self.archives)
        whole = self.unpacked()
        (self.out / "wire/stale").write_bytes(b"old")
        next(f for f in (self.out / "wire").iterdir() if f.name != "stale").write_bytes(b"changed")
        self.assertEqual(self.unpacked(), whole)

    def test_an_archive_that_leaves_its_folder_is_refused(self):
        self.archives.mkdir()
        for name in ("../up", "a/b", "/top"):
            with tarfile.open(self.archives / "wire.tar.xz", "w:xz") as archive:
                member = tarfile.TarInfo(name)
                member.size = 1
                archive.addfile(member, io.BytesIO(b"x"))
            with self.assertRaises(SystemExit, msg=name):
                corpus.unpack(self.out, self.archives)

    def test_every_shipped_archive_has_a_target(self):
        self.assertGreater(len(corpus.targets()), 10)
        for target in corpus.targets():
            self.assertTrue((corpus.HERE / f"fuzz_{target}.c").is_file(), target)
            self.assertTrue(corpus.read(target), target)


if __name__ == "__main__":
    unittest.main()
