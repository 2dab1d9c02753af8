#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The larger of a CRD's two forms counts."""
import pathlib
import tempfile
import unittest

import size


class Sizes(unittest.TestCase):
    def test_text_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "long.yaml").write_text("# " + "x" * 100 + "\na: 1\n")
            (root / "short.yaml").write_text("a: [1, 2]\n")  # {"a":[1,2]} and its line's end
            (root / "anchors.yaml").write_text("a: &x [" + "1," * 50 + "]\nb: *x\nc: *x\n")
            got = size.sizes(root)
        self.assertEqual(got["long.yaml"], 108)
        self.assertEqual(got["short.yaml"], len('{"a":[1,2]}') + 1)
        self.assertGreater(got["anchors.yaml"], 300)  # what is written once is kept three times


if __name__ == "__main__":
    unittest.main()
