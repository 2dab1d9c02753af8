#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics and the table of `make bench`: figures we publish stand on them."""
import pathlib
import random
import statistics
import tempfile
import time
import unittest

import crab_connect
import crab_cpu
import crab_rr
import l2fwd
import machine
import proxy
import stats
import table


class Statistics(unittest.TestCase):
    def test_percentile_lies_between_neighbours(self):
        self.assertEqual(stats.percentile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(stats.percentile([7], 0.975), 7)
        with self.assertRaises(ValueError):
            stats.percentile([], 0.5)

    def test_interval_covers_the_truth_as_often_as_it_says(self):
        rng, hits = random.Random(7), 0
        for trial in range(100):
            rounds = [rng.gauss(10, 2) for _ in range(20)]
            low, high = stats.bootstrap(rounds, statistics.mean, seed=trial, resamples=400)
            hits += low <= 10 <= high
        self.assertGreaterEqual(hits, 85)  # 95 expected; small samples make the percentile bootstrap a little narrow
        self.assertLess(hits, 100)

    def test_pairing_removes_what_disturbs_both(self):
        rng = random.Random(3)
        rounds = []
        for _ in range(20):
            drift = rng.uniform(1, 5)
            rounds.append((drift * 2 * rng.gauss(1, 0.01), drift))
        value, (low, high) = stats.summary(rounds, lambda rs: statistics.median(a / b for a, b in rs))
        self.assertAlmostEqual(value, 2, delta=0.05)
        self.assertLess(high - low, 0.1)

    def test_ratio_to_nothing_is_undefined(self):
        self.assertIsNone(stats.ratio_of_medians([(1, 0)], lambda r: r[0], lambda r: r[1]))
        self.assertIsNone(stats.bootstrap([], statistics.mean))
        self.assertIsNone(stats.bootstrap([(1, -1), (1, 1)], lambda rs: stats.ratio_of_medians(rs, lambda r: r[0], lambda r: r[1])))

    def test_runs_of_the_more_frequent_mode_are_kept(self):
        self.assertEqual(stats.same_mode([14.0, 4.8, 13.1, 15.0, 5.0]), [0, 2, 3])
        self.assertEqual(stats.same_mode([4.8, 14.0, 5.0, 4.6]), [0, 2, 3])
        self.assertEqual(stats.same_mode([]), [])


def run(busy, own=0.0):
    return {"busy": busy, "own": own, "others": 0.0}


class Proxy(unittest.TestCase):
    @staticmethod
    def rounds():
        return [{"r2p2": run(20 + d), "router": run(26 + d), "http": run(30 + d), "nginx": run(60 + d), "haproxy": run(54 + d),
                 "udp": run(10 + d), "hop": run(15 + d)}
                for d in (0, 3, 1, 7)]

    def test_share_is_cost_with_minus_without_over_the_same_of_the_other(self):
        rows = {r["name"]: r["value"] for r in proxy.figures(self.rounds(), 4)}
        self.assertAlmostEqual(rows["proxy_cpu_share_sockets_vs_nginx"], 6 / 30)
        self.assertAlmostEqual(rows["proxy_cpu_share_sockets_vs_haproxy"], 6 / 24)
        self.assertAlmostEqual(rows["proxy_cpu_us_per_request_router_sockets"], 6)
        self.assertAlmostEqual(rows["hop_cpu_share_vs_nginx"], 5 / 30)

    def test_sockets_never_stand_in_for_the_fast_path_that_is_judged(self):
        without = [r["name"] for r in proxy.figures(self.rounds(), 4)]
        self.assertFalse([n for n in without if "fast" in n or n.startswith("proxy_cpu_share_vs_")])
        rounds = [{**r, "fast": run(r["r2p2"]["busy"] + 3), "keyed": run(r["r2p2"]["busy"] + 4)} for r in self.rounds()]
        rows = {r["name"]: r["value"] for r in proxy.figures(rounds, 4)}
        self.assertAlmostEqual(rows["proxy_cpu_share_vs_nginx"], 3 / 30)
        self.assertAlmostEqual(rows["proxy_cpu_share_vs_haproxy"], 3 / 24)
        self.assertAlmostEqual(rows["proxy_cpu_share_sockets_vs_nginx"], 6 / 30)
        self.assertAlmostEqual(rows["proxy_cpu_share_keys_vs_nginx"], 4 / 30)
        self.assertAlmostEqual(rows["proxy_cpu_us_per_request_router_fast_path"], 3)
        self.assertAlmostEqual(rows["proxy_cpu_us_per_request_router_fast_path_keys"], 4)

    def test_a_disturbed_round_does_not_count(self):
        rounds = self.rounds()
        rounds[0]["router"] = {**run(500), "disturbed": True}
        row = proxy.figures(rounds, 4)[0]
        self.assertAlmostEqual(row["value"], 6 / 30)
        self.assertIn("3 undisturbed rounds of 4", row["note"])

    def test_a_busy_machine_gives_no_figure(self):
        rounds = self.rounds()
        for r in rounds[:3]:
            r["http"]["disturbed"] = True
        rows = {r["name"]: r for r in proxy.figures(rounds, 4)}
        self.assertIsNone(rows["proxy_cpu_share_sockets_vs_nginx"]["value"])
        self.assertIn("not quiet", rows["proxy_cpu_share_sockets_vs_nginx"]["note"])
        self.assertIsNotNone(rows["proxy_cpu_us_per_request_nginx_own"]["value"])  # what the processes used is still known


class Crab(unittest.TestCase):
    def test_the_judged_throughput_is_the_lower_bound(self):
        rounds = [{**{v: 100.0 for v in crab_rr.VARIANTS}, "crab": c} for c in (90.0, 100.0, 100.0, 100.0, 110.0)]
        rows = {r["name"]: r for r in crab_rr.figures(rounds)}
        judged = rows["crab_rr_ratio_vs_direct"]
        self.assertEqual(judged["value"], judged["interval"][0])
        self.assertLess(judged["value"], 1)
        self.assertAlmostEqual(rows["crab_rr_ratio_vs_kubeproxy_nftables"]["value"], 1)

    @staticmethod
    def costs(**busy):
        return [{v: run(busy[v] + d) for v in crab_cpu.VARIANTS} for d in (0, 3, 1, 7)]

    def test_share_is_what_crab_adds_over_what_a_proxy_adds(self):
        rows = {r["name"]: r["value"] for r in crab_cpu.figures(self.costs(direct=20, crab=21, haproxy=40, nginx_stream=45), 4)}
        self.assertAlmostEqual(rows["crab_cpu_share_vs_haproxy"], 1 / 20)
        self.assertAlmostEqual(rows["crab_cpu_share_vs_nginx_stream"], 1 / 25)

    def test_a_proxy_that_costs_nothing_gives_no_share(self):
        rows = {r["name"]: r["value"] for r in crab_cpu.figures(self.costs(direct=20, crab=21, haproxy=20, nginx_stream=45), 4)}
        self.assertIsNone(rows["crab_cpu_share_vs_haproxy"])

    def test_packets_are_counted_over_all_rounds(self):
        said = {"p50Microseconds": 50.0, "packets": 0, "completed": 100, "ended": 0}
        rounds = [{**{v: said for v in crab_connect.VARIANTS}, "crab": {**said, "p50Microseconds": 53.0, "packets": p}} for p in (100, 101)]
        rows = {r["name"]: r["value"] for r in crab_connect.figures(rounds)}
        self.assertAlmostEqual(rows["crab_lb_packets_per_connection"], 201 / 200)
        self.assertAlmostEqual(rows["crab_crr_added_us_vs_direct"], 3)

    def test_connections_that_were_ended_are_remarked_on(self):
        said = {"p50Microseconds": 50.0, "packets": 0, "completed": 1000, "ended": 0}
        rounds = [{**{v: said for v in crab_connect.VARIANTS}, "haproxy": {**said, "completed": 1000 - n, "ended": n}} for n in (1, 0, 2)]
        for row in crab_connect.figures(rounds):
            self.assertEqual("3 of 3000 connections of haproxy were ended" in row["note"], row["name"] == "crr_added_us_vs_direct_haproxy", row)


class Forward(unittest.TestCase):
    @staticmethod
    def one(router, forwarder, calibration):
        return {s: {"perSecond": v, "busyShare": 0.5, "hugepages": s == "router", "calibrations": [calibration] * 2} for s, v in (("router", router), ("l2fwd", forwarder))}

    def test_an_rpc_is_two_packets_in(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(3e6, 10e6, 105)]
        rows = {r["name"]: r["value"] for r in l2fwd.rows_of("ring", rounds, rounds)}
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring"], 0.6)
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring_in_and_out"], 0.45)
        self.assertAlmostEqual(rows["router_mrps_per_core_ring"], 3)

    def test_the_note_says_how_many_runs_had_hugepages(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(3e6, 10e6, 105)]
        self.assertIn("2 of 4 runs in hugepages", l2fwd.rows_of("ring", rounds, rounds)[0]["note"])

    def test_rounds_of_the_rare_mode_do_not_count(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(1e6, 9e6, 320), self.one(3e6, 10e6, 110)]
        self.assertEqual(l2fwd.usable(rounds), [rounds[0], rounds[2]])


class Table(unittest.TestCase):
    JUDGED = [{"name": "a", "value": 0.25, "unit": "ratio", "op": "<=", "goal": 0.5, "required": True, "ok": True, "how": "measured"},
              {"name": "b", "value": None, "unit": "s", "op": ">=", "goal": 3, "required": True, "ok": False, "how": "x|y"}]
    ROWS = [{"name": "a", "value": 0.25, "interval": [0.2, 0.3], "note": "20 rounds", "date": "2026-01-01", "quick": True}]

    def test_a_figure_not_measured_is_a_failure_in_the_table(self):
        lines = table.lines(self.JUDGED, self.ROWS)
        self.assertEqual(lines[0][:6], ("a", "0.25 ratio", "0.2 .. 0.3", "<= 0.5", "ok", "2026-01-01 quick"))
        self.assertEqual((lines[1][1], lines[1][4]), ("missing", "FAIL"))
        self.assertIn("x\\|y", table.markdown(lines))

    def test_only_the_table_of_the_page_changes(self):
        with tempfile.TemporaryDirectory() as d:
            page = pathlib.Path(d) / "p.md"
            other = f"{table.begin('other')}\nkept\n{table.END}\n"
            page.write_text(f"before\n{table.begin('bench')}\nold\n{table.END}\nafter\n{other}")
            table.write_page(page, self.JUDGED, self.ROWS)
            text = page.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith(f"\nafter\n{other}") and "old" not in text)


class Machine(unittest.TestCase):
    def test_busy_time_is_seen(self):
        import os
        window = machine.Window([os.getpid()])
        x = 0
        for i in range(3_000_000):
            x += i
        spent = window.close()
        self.assertGreater(spent["own"], 0)
        self.assertGreaterEqual(spent["wall"] * machine.CPUS, spent["own"])

    def test_what_a_program_started_ends_with_it(self):
        with tempfile.TemporaryDirectory() as logs, machine.Processes(logs) as procs:
            procs.start("parent", ["sh", "-c", "sleep 60 & echo $! >&2; wait"])
            log = pathlib.Path(logs) / "parent.log"
            self.assertTrue(soon(lambda: log.read_text().endswith("\n")))
            child = pathlib.Path("/proc") / log.read_text().strip() / "stat"
            self.assertNotIn(state(child), GONE)
            procs.stop("parent")
            self.assertTrue(soon(lambda: state(child) in GONE))


GONE = ("Z", None)


def soon(holds):
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def state(stat):
    """Of a process; None if it is gone."""
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    unittest.main()
