#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What summary.py makes of the lab's tables. Run: measure/bench/summary_test.py"""
import pathlib
import tempfile
import unittest

import summary
import table


def page(rows):
    """A page of the lab whose tables have these {figure: (value, goal, verdict)}."""
    lines = "\n".join(f"| `{name}` | {value} |  | {goal} | {verdict} | 2026-11-25 | how \\| and so |" for name, (value, goal, verdict) in rows.items())
    return f"x\n{table.begin('bench')}\n| figure |\n{lines}\n{table.END}\ny\n{table.begin('bench-crab')}\n{table.END}\n"


class Summary(unittest.TestCase):
    ROWS = {name: ("1.5 ratio", ">= 1", "ok") for _, name, _ in summary.ROWS} | {name: ("20 us", "", "-") for _, name in summary.BARS}

    def found(self, **other):
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder, "page.md")
            at.write_text(page(self.ROWS | other))
            return summary.measured(at)

    def test_at_most_fifteen_rows(self):
        self.assertLessEqual(len(summary.ROWS), 15)

    def test_values_goals_and_verdicts(self):
        text = summary.markdown(self.found(crab_crr_added_us_vs_direct=("18.65 us", "<= 50", "ok"), crab_cpu_share_vs_haproxy=("-0.01 ratio", "<= 0.1", "ok"),
                                           proxy_cpu_share_sockets_vs_nginx=("0.6065 ratio", "<= 0.3333", "below goal"), echo_rps_ratio_vs_udp=("missing", ">= 0.7", "FAIL")))
        self.assertIn("| 19 µs | yes: at most 50 | `crab_crr_added_us_vs_direct` |", text)
        self.assertIn("| nothing that can be measured | yes: at most 0.1 |", text)
        self.assertIn("| 0.61 of its processor time | **no**: at most a third |", text)
        self.assertIn("| not measured | **no**: at least 0.7 |", text)
        self.assertNotIn("2026-", text)  # the lab says when

    def test_the_longest_bar_is_the_dearest(self):
        drawn = summary.picture(self.found(proxy_cpu_us_per_request_nginx=("40 us", "", "-")))
        self.assertEqual(drawn.count('width="215"'), 3)
        self.assertEqual(drawn.count('width="430"'), 1)

    def test_only_what_is_between_the_marks_changes(self):
        text = f"before\n{summary.BEGIN}\nold\n{summary.END}\nafter\n"
        new = summary.made(text, self.found())
        self.assertTrue(new.startswith("before\n") and new.endswith("\nafter\n") and "old" not in new)
        self.assertEqual(summary.made(new, self.found()), new)


if __name__ == "__main__":
    unittest.main()
