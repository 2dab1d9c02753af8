#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make lancet-real reports of what lancet said. Run: measure/lancet/real_test.py"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import real  # noqa: E402


def point(offered=1000, achieved=1000, **more):
    percentiles = [{"percentile": p, "microseconds": us} for p, us in ((50, 40.04), (90, 60), (99, 101.26))]
    return {"offeredRequestsPerSecond": offered, "achievedRequestsPerSecond": achieved, "conclusive": True, "percentiles": percentiles, **more}


class Judging(unittest.TestCase):
    def test_a_reason_is_an_answer_and_silence_is_none(self):
        why = point(conclusive=False, reasons=["Independence"])
        self.assertEqual(real.judge("nginx", 0, {"points": [point()]}), [])
        self.assertEqual(real.judge("nginx", 3, {"points": [point(), why]}), [])
        self.assertEqual(len(real.judge("nginx", 3, {"points": [point(conclusive=False)]})), 1)
        self.assertEqual(len(real.judge("nginx", 0, {"points": [why]})), 1, "status 0 says conclusive")
        self.assertEqual(len(real.judge("nginx", 0, {"points": [point(failed={"timeout": 1})]})), 1)

    def test_figures(self):
        documents = {"redis": {"points": [point(2000, 2010)]}, "nginx": {"points": [point(), point(2000, 1900, conclusive=False, reasons=["x"], failed={"timeout": 2})]}}
        got = {r["name"]: r["value"] for r in real.figures(documents, ["one"])}
        self.assertEqual(got, {"lancet_real_loads": 3, "lancet_real_faults": 1, "lancet_real_failed_requests": 2, "lancet_real_loads_conclusive": 2,
                               "lancet_real_loads_conclusive_redis": 1, "lancet_real_loads_conclusive_nginx": 1,
                               "lancet_real_achieved_share": 0.95, "lancet_real_p50_us_redis": 40.0, "lancet_real_p99_us_redis": 101.3,
                               "lancet_real_p50_us_nginx": 40.0, "lancet_real_p99_us_nginx": 101.3})

    def test_a_server_is_known_by_any_of_its_runs(self):
        why = {"conclusive": False, "reasons": ["Independence"]}
        got = {r["name"]: r["value"] for r in real.figures({"redis": {"points": [point(**why)]}, "redis-patient": {"points": [point()]}}, [])}
        self.assertEqual((got["lancet_real_loads"], got["lancet_real_loads_conclusive"], got["lancet_real_loads_conclusive_redis"]), (2, 1, 1))
        self.assertEqual(got["lancet_real_p99_us_redis_patient"], 101.3)
        self.assertEqual(set(real.RUNS), {"redis", "redis-patient", "nginx"})
        for server, definition, _ in real.RUNS.values():
            self.assertTrue((real.servers.ROOT / "examples/lancet" / definition).is_file(), definition)
            self.assertIn(server, ("redis", "nginx"))

    def test_nothing_measured_is_nothing_reported(self):
        got = {r["name"]: r["value"] for r in real.figures({"redis": {"points": []}}, ["redis: lancet ended with status 1"])}
        self.assertEqual((got["lancet_real_loads"], got["lancet_real_faults"]), (0, 1))
        self.assertNotIn("lancet_real_achieved_share", got)


if __name__ == "__main__":
    unittest.main()
