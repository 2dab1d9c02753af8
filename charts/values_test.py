#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chart refuses a value of a wrong type, whichever it is, and names it: what Helm would only fail with in a template,
or the API server with the name of an object. Run: charts/values_test.py"""
import copy
import json
import pathlib
import unittest

import jsonschema
import yaml

CHART = pathlib.Path(__file__).with_name("bobtail")
WRONG = {bool: ("maybe", 7), int: ("two", True), str: (["x"], {"a": 1}), list: ("x", {"a": 1}), dict: ("x", ["y"])}


def values_of(section, path=()):
    """Each value of values.yaml with its path, sections included."""
    for key, value in section.items():
        yield (*path, key), value
        if isinstance(value, dict):
            yield from values_of(value, (*path, key))


def with_value(values, path, value):
    out = copy.deepcopy(values)
    section = out
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return out


class WrongTypes(unittest.TestCase):
    def setUp(self):
        self.schema = jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())

    def test_the_defaults_are_right(self):
        self.assertEqual([e.message for e in self.schema.iter_errors(self.values)], [])

    def test_each_value_of_a_wrong_type_is_refused_by_name(self):
        tried = 0
        for path, value in values_of(self.values):
            for wrong in WRONG[type(value)]:
                errors = list(self.schema.iter_errors(with_value(self.values, path, wrong)))
                tried += 1
                with self.subTest(value=".".join(path), wrong=wrong):
                    self.assertIn(path, [tuple(e.absolute_path)[:len(path)] for e in errors])
        self.assertGreater(tried, 150)


if __name__ == "__main__":
    unittest.main()
