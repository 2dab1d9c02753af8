#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics and the table of `make bench`: figures we publish stand on them."""
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import crab_connect
import crab_cpu
import crab_nodes
import crab_rr
import echo
import instructions
import l2fwd
import machine
import pairs
import proxy
import run as runner
import stats
import table


stats.RESAMPLES = 200  # what is tested here is which runs count; the interval's own test says how often it draws


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
        self.assertIsNone(stats.bootstrap([], statistics.mean))
        over = [{"a": run(5), "b": run(6), "c": run(5), "d": run(5 + d)} for d in (-1, 1)]  # theirs costs nothing in half of the draws
        figure = pairs.share(("a", "b"), ("c", "d"), "busy", pairs.undisturbed)
        self.assertIsNone(figure(over))
        self.assertIsNone(figure(over[:1]))
        self.assertEqual(figure(over[1:]), 1)
        self.assertIsNone(stats.bootstrap(over, figure))

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
        self.assertAlmostEqual(rows["proxy_cpu_share_default_vs_nginx"], 4 / 30)

    def test_a_rendered_router_keeps_every_argument_that_is_not_of_its_pod(self):
        rendered = {"args": ["--address=$(POD_IP)", "--config-cache=/run/x", "--fast-path=auto", "--new-option=7"], "capabilities": ["BPF", "NET_ADMIN"]}
        self.assertEqual(proxy.as_rendered(rendered, {"--address": "127.0.0.1", "--config-cache": None}), ["--address=127.0.0.1", "--fast-path=auto", "--new-option=7"])
        self.assertIn("--bounding-set=-all,+bpf,+net_admin", proxy.only_with(rendered["capabilities"]))

    def test_costs_of_the_fast_path(self):
        rounds = [{**r, "fast": {**r["r2p2"], "busy": r["r2p2"]["busy"] + 3}, "keyed": {**r["r2p2"], "busy": r["r2p2"]["busy"] + 4}} for r in self.rounds()]
        rows = {r["name"]: r["value"] for r in proxy.figures(rounds, 4)}
        self.assertAlmostEqual(rows["proxy_cpu_us_per_request_router_fast_path"], 3)
        self.assertAlmostEqual(rows["proxy_cpu_us_per_request_router_fast_path_keys"], 4)

    def test_a_disturbed_run_takes_away_its_own_pair_only(self):
        rounds = self.rounds()
        rounds[0]["router"] = {**run(500), "disturbed": True}
        rows = {r["name"]: r for r in proxy.figures(rounds, 3)}
        ours, floor = rows["proxy_cpu_share_sockets_vs_nginx"], rows["hop_cpu_share_vs_nginx"]
        self.assertAlmostEqual(ours["value"], 6 / 30)
        self.assertIn("3 undisturbed pairs of 4 and 4 undisturbed pairs of 4", ours["note"])
        self.assertAlmostEqual(floor["value"], 5 / 30)
        self.assertIn("4 undisturbed pairs of 4 and 4 undisturbed pairs of 4", floor["note"])
        self.assertGreater(rows["proxy_cpu_us_per_request_router_sockets"]["interval"][1], 5.9)
        self.assertLess(rows["proxy_cpu_us_per_request_router_sockets"]["interval"][1], 6.1)

    def test_fewer_pairs_than_asked_for_give_no_figure(self):
        rounds = self.rounds()
        for r in rounds[:2]:
            r["http"]["disturbed"] = True
        rows = {r["name"]: r for r in proxy.figures(rounds, 3)}
        row = rows["proxy_cpu_share_sockets_vs_nginx"]
        self.assertEqual((row["value"], row["interval"]), (None, None))
        self.assertIn("4 undisturbed pairs of 4 and 2 undisturbed pairs of 4, 3 are asked for: the machine was not quiet", row["note"])
        self.assertIsNone(rows["proxy_cpu_us_per_request_nginx"]["value"])
        self.assertIsNotNone(rows["proxy_cpu_us_per_request_router_sockets"]["value"])  # needs no HTTP
        self.assertIsNotNone(rows["proxy_cpu_us_per_request_nginx_own"]["value"])  # what the processes used is still known

    def test_a_full_run_asks_for_twenty_pairs(self):
        enough = []
        with unittest.mock.patch.object(proxy, "figures", lambda rounds, least, suffix="": enough.append(least) or []):
            proxy.rows({"rounds": [], "enough": proxy.JUDGED, "roundsOneCore": [], "enoughOneCore": 10})
        self.assertEqual(enough, [20, 10])


class Pairs(unittest.TestCase):
    BOTH = [("a", "b"), ("c", "d")]

    def collect(self, wanted, disturbed):
        """disturbed(variant, n) -> whether others disturb the n-th run of that variant; (rounds, runs made)."""
        made = []

        def once(variant):
            made.append(variant)
            return run(1)

        def trouble(_):
            return "noise" if disturbed(made[-1], made.count(made[-1])) else None

        return pairs.collect(unittest.mock.Mock(), wanted, "abcd", self.BOTH, once, trouble), made

    def test_a_quiet_machine_makes_the_rounds_that_were_asked_for(self):
        rounds, made = self.collect(4, lambda v, n: False)
        self.assertEqual(len(rounds), 4)
        self.assertEqual("".join(made), "abcddcbaabcddcba")

    def test_only_what_is_short_of_rounds_runs_again(self):
        rounds, _ = self.collect(4, lambda v, n: v == "b" and n in (2, 3, 4))  # once, and both repeats
        self.assertEqual([sorted(r) for r in rounds], [list("abcd")] * 4 + [["a", "b"]])
        self.assertEqual(len(pairs.undisturbed(rounds, ("a", "b"))), 4)
        self.assertEqual(len(pairs.present(rounds, ("a", "b"))), 5)

    def test_it_ends_on_a_machine_that_is_never_quiet(self):
        rounds, made = self.collect(4, lambda v, n: True)
        self.assertEqual(len(rounds), 8)
        self.assertEqual(len(made), 8 * 4 + 2 * 4)  # two repeats for each round wanted
        self.assertEqual(pairs.undisturbed(rounds, ("a", "b")), [])

    def test_the_interval_covers_the_truth_where_pairs_are_missing(self):
        rng, hits = random.Random(5), 0
        ours, theirs = self.BOTH
        figure = pairs.share(ours, theirs, "busy", pairs.undisturbed)
        for _ in range(40):
            rounds = []
            for _ in range(30):
                drift = rng.uniform(1, 1.5)  # the machine's speed, of the whole round
                r = {"a": run(40 * drift), "b": run(drift * rng.gauss(46, 3)), "c": run(40 * drift), "d": run(drift * rng.gauss(60, 3))}
                for v in r:
                    if rng.random() < 0.25:
                        r[v] = {**run(900), "disturbed": True}
                rounds.append(r)
            low, high = stats.summary(rounds, figure)[1]
            hits += low <= 6 / 20 <= high
        self.assertGreaterEqual(hits, 34)  # 38 expected
        self.assertLess(hits, 40)

    def test_a_run_that_came_out_at_last_is_not_disturbed(self):
        answers = iter(["noise", None])
        kept = pairs.Repeats(5, lambda text: None).run("a", lambda: run(1), lambda r: next(answers))
        self.assertNotIn("disturbed", kept)


class Again(unittest.TestCase):
    def test_figures_are_drawn_again_from_the_runs_that_were_kept(self):
        rounds = Proxy.rounds()
        with tempfile.TemporaryDirectory() as d, unittest.mock.patch.object(runner, "MEASURED", pathlib.Path(d)):
            kept = pathlib.Path(d) / "bench" / "proxy.json"
            kept.parent.mkdir()
            raw = {"rounds": rounds, "enough": 4, "roundsOneCore": rounds, "enoughOneCore": 5}
            kept.write_text(json.dumps({"date": "2026-01-01", "quick": False, "rows": [], "raw": raw}))
            runner.draw_again("bench", "proxy")
            rows = {r["name"]: r for r in runner.measurements("bench")}
            self.assertAlmostEqual(rows["proxy_cpu_share_sockets_vs_nginx"]["value"], 6 / 30)
            self.assertIsNone(rows["proxy_cpu_share_sockets_vs_nginx_one_core"]["value"])
            self.assertEqual(rows["proxy_cpu_share_sockets_vs_nginx"]["date"], "2026-01-01")
            runner.draw_again("bench", "l2fwd")  # not measured: nothing to draw, nothing lost


class Crab(unittest.TestCase):
    def test_the_judged_throughput_is_the_lower_bound(self):
        rows = self.throughput((90.0, 100.0, 100.0, 100.0, 110.0))
        judged = rows["crab_rr_ratio_vs_direct"]
        self.assertEqual(judged["value"], judged["interval"][0])
        self.assertLess(judged["value"], 1)
        self.assertAlmostEqual(rows["crab_rr_ratio_vs_kubeproxy_nftables"]["value"], 1)

    def test_rounds_of_one_client_are_not_taken_for_independent(self):
        ratios = (96.0, 97.0, 98.0, 99.0, 100.0, 101.0)
        few = self.throughput(ratios, rounds=1)["crab_rr_ratio_vs_direct"]
        many = self.throughput(ratios, rounds=9)["crab_rr_ratio_vs_direct"]
        self.assertEqual(few["interval"], many["interval"])

    def test_rows_of_nodes_are_over_their_own_direct_way(self):
        rows = self.throughput((100.0, 100.0))
        want = {"as_node": 0.5, "pods": 0.8, "not_forwarding": 1, "ipv6": 0.5}
        self.assertEqual({name: rows[f"crab_rr_ratio_vs_direct_{name}"]["value"] for name in want}, want)
        self.assertIn("1.000 with one duty a host", rows["crab_rr_ratio_vs_direct_as_node"]["note"])

    @staticmethod
    def throughput(crab, rounds=2):
        """The rows of clients that have the same in all of their rounds."""
        clients = [[{**{v: 100.0 for v in crab_rr.VARIANTS}, "crab": c}] * rounds for c in crab]
        nodes = [[{**{v: 100.0 for v in crab_nodes.Nodes.ways}, "crab_as_node": 50.0, "direct_pods": 50.0, "crab_pods": 40.0, "direct_ipv6": 20.0, "crab_ipv6": 10.0}] * 2] * 3
        return {r["name"]: r for r in crab_rr.rows({"pair": clients, "all": clients, "spread": clients, "pairSpread": clients, "nodes": nodes})}

    @staticmethod
    def costs(**busy):
        return [{v: run(busy[v] + d) for v in crab_cpu.VARIANTS} for d in (0, 3, 1, 7)]

    def test_share_is_what_crab_adds_over_what_a_proxy_adds(self):
        rows = {r["name"]: r["value"] for r in crab_cpu.figures(self.costs(direct=20, crab=21, haproxy=40, nginx_stream=45), 4)}
        self.assertAlmostEqual(rows["crab_cpu_share_vs_haproxy"], 1 / 20)
        self.assertAlmostEqual(rows["crab_cpu_share_vs_nginx_stream"], 1 / 25)

    def test_a_disturbed_proxy_leaves_the_other_ones_pairs_alone(self):
        rounds = self.costs(direct=20, crab=21, haproxy=40, nginx_stream=45)
        rounds[1]["haproxy"]["disturbed"] = True
        rows = {r["name"]: r for r in crab_cpu.figures(rounds, 4)}
        self.assertIsNone(rows["crab_cpu_share_vs_haproxy"]["value"])
        self.assertIn("3 undisturbed pairs of 4, 4 are asked for", rows["crab_cpu_share_vs_haproxy"]["note"])
        self.assertAlmostEqual(rows["crab_cpu_share_vs_nginx_stream"]["value"], 1 / 25)

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


class Ending(unittest.TestCase):
    CODE = """
import sys, time, machine, run
run.end_in_order()
with machine.Processes(sys.argv[1]) as procs:
    print(procs.start("sleep", ["sleep", "60"]).pid, flush=True)
    time.sleep(60)
"""

    def test_sigterm_ends_what_was_started(self):
        with tempfile.TemporaryDirectory() as logs:
            bench = subprocess.Popen([sys.executable, "-c", self.CODE, logs], stdout=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parent)
            started = int(bench.stdout.readline())
            bench.terminate()
            bench.communicate(timeout=120)  # more than its 60 s: who overhears the signal ends with another status
            self.assertEqual(bench.returncode, 143)
            with self.assertRaises(ProcessLookupError):
                os.kill(started, 0)

    MAIN = """
import pathlib, sys, time, types, machine, run
def benchmark(ctx):
    with machine.Processes(sys.argv[1]) as procs:
        print(procs.start("sleep", ["sleep", "60"]).pid, file=sys.stderr, flush=True)
        time.sleep(60)
sys.modules["slow"] = types.SimpleNamespace(run=benchmark)
run.SUITES = {"bench": {"slow": "never comes to an end by itself"}}
run.MEASURED = pathlib.Path(sys.argv[1])
sys.exit(run.main(["--no-docs"]))
"""

    def test_sigterm_ends_make_bench_by_the_signal_s_status(self):
        with tempfile.TemporaryDirectory() as logs:
            bench = subprocess.Popen([sys.executable, "-c", self.MAIN, logs], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     cwd=pathlib.Path(__file__).parent)
            started = int(bench.stderr.readline())
            bench.terminate()
            bench.communicate(timeout=120)  # more than its 60 s: who overhears the signal ends with another status
            self.assertEqual(bench.returncode, 143)
            with self.assertRaises(ProcessLookupError):
                os.kill(started, 0)


class Forward(unittest.TestCase):
    @staticmethod
    def one(router, forwarder, calibration):
        freely = {s: {"perSecond": v, "busyShare": share, "hugepages": s == "router", "calibrations": [calibration] * 2}
                  for s, v, share in (("router", router, 1.0), ("l2fwd", forwarder, 0.5))}
        steps = {f"{s}_steps": {"cycles": c, "hugepages": False, "calibrations": [calibration] * 2} for s, c in (("router", 300), ("l2fwd", 45))}
        return {**freely, **steps}

    def test_an_rpc_is_two_packets_in(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(3e6, 10e6, 105)]
        rows = {r["name"]: r["value"] for r in l2fwd.rows_of("ring", rounds, rounds)}
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring"], 0.6)
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring_in_and_out"], 0.45)
        self.assertAlmostEqual(rows["router_mrps_per_core_ring"], 3)

    def test_what_the_generator_bounds_is_said_beside_the_verdict(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(3e6, 10e6, 105)]
        rows = {r["name"]: r for r in l2fwd.rows_of("ring", rounds, rounds)}
        self.assertIn("busy for 50% of the time only, the generator bounds it", rows["router_ratio_vs_l2fwd_ring"]["note"])
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring_by_busy_time"]["value"], 0.3)  # half as idle, twice as fast
        self.assertAlmostEqual(rows["router_ratio_vs_l2fwd_ring_lock_step"]["value"], 0.3)  # 2 packets of 45 cycles over 300
        for r in rounds:
            r["l2fwd"]["busyShare"] = 0.97
        self.assertNotIn("bounds", l2fwd.rows_of("ring", rounds, rounds)[0]["note"])

    def test_the_note_says_how_many_runs_had_hugepages(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(3e6, 10e6, 105)]
        self.assertIn("2 of 8 runs in hugepages", l2fwd.rows_of("ring", rounds, rounds)[0]["note"])

    def test_rounds_of_the_rare_mode_do_not_count(self):
        rounds = [self.one(3e6, 10e6, 100), self.one(1e6, 9e6, 320), self.one(3e6, 10e6, 110)]
        self.assertEqual(l2fwd.usable(rounds), [rounds[0], rounds[2]])


    def test_rounds_on_one_core_count_only_where_others_are_too_few(self):
        apart = [{**self.one(3e6, 10e6, 380 + i), "one_core": False} for i in range(3)]
        together = [{**self.one(9e6, 90e6, 80 + i), "one_core": True} for i in range(9)]
        self.assertEqual(l2fwd.counting(together + apart), (apart, True))
        self.assertEqual(l2fwd.counting(together + apart[:2]), (together, False))
        self.assertIn("on one core most of the time", l2fwd.rows_of("ring", together, together, False)[0]["note"])
        self.assertNotIn("on one core", l2fwd.rows_of("ring", apart, together + apart)[0]["note"])

    def test_one_core_is_told_by_a_packet_of_the_other_processor(self):
        class Said:
            def __init__(self, **cycles):
                self.cycles = cycles

            def run(self, name, argv, limit):
                return json.dumps({"cycles": self.cycles[argv[-1]]})

        self.assertTrue(l2fwd.on_one_core(Said(apart=9, together=8)))
        self.assertFalse(l2fwd.on_one_core(Said(apart=29, together=9)))


class Echo(unittest.TestCase):
    def test_default_timers_stand_beside_the_judged_ratio_and_idleness_does_not_disturb_them(self):
        one = {"bobtail": 400.0, "bobtail-default": 60.0, "udp": 200.0, "udp-segments": 500.0, "grpc": 20.0, "grpc-over-r2p2": 50.0}
        rounds = [{v: {"rps": rps, "per_cpu": 400.0 if "bobtail" in v else rps} for v, rps in one.items()}] * 2
        rows = {r["name"]: r["value"] for r in echo.rows({"rounds": rounds})}
        self.assertAlmostEqual(rows["echo_rps_ratio_vs_udp"], 2)
        self.assertAlmostEqual(rows["echo_rps_ratio_vs_udp_default_timers"], 0.3)
        self.assertAlmostEqual(rows["echo_rps_ratio_vs_udp_default_timers_own"], 2)
        self.assertIsNone(echo.trouble({"variant": "bobtail-default", "share": 0.3}))
        self.assertIsNotNone(echo.trouble({"variant": "bobtail", "share": 0.3}))


class Instructions(unittest.TestCase):
    def test_what_is_no_count_of_callgrind_is_not_said_to_be_one(self):
        said = [{"name": "counted", "value": 1}, {"name": "timed", "value": 2, "unit": "1/s", "note": "best of five runs"}]
        with tempfile.TemporaryDirectory() as d:
            script = pathlib.Path(d) / "script"
            script.write_text(f"#!/bin/sh\ncat >\"${{1#--measurements=}}\" <<'E'\n{json.dumps(said)}\nE\n")
            script.chmod(0o755)
            ctx = unittest.mock.Mock(logs=pathlib.Path(d) / "logs")
            self.assertEqual([r["note"] for r in instructions.run_script(ctx, script)], ["callgrind", "best of five runs"])


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


    def test_a_part_of_the_benchmarks_leaves_what_the_page_says_of_the_others(self):
        goals = [{"name": n, "unit": "s", "op": "<=", "goal": 5, "required": n == "a"} for n in "ab"]
        how = dict.fromkeys("ab", "so|so")
        rows = [{"name": "a", "value": 1.5, "interval": [1.0, 2.0], "note": "x|y", "date": "2026-01-01"},
                {"name": "b", "value": None, "date": "2026-01-01", "note": ""},
                {"name": "c", "value": 123456.0, "unit": "1/s", "note": "z", "date": "2026-01-01", "quick": True},
                {"name": "d", "value": 4, "unit": "count", "note": "", "date": "2026-01-01"}]
        with tempfile.TemporaryDirectory() as d:
            page = pathlib.Path(d) / "p.md"
            page.write_text(f"{table.begin('bench')}\n{table.END}\n")

            def write(some):
                table.write_page(page, table.report.judge(goals, {r["name"]: r["value"] for r in some}, how), some)

            write(rows)
            whole = page.read_text()
            write(table.beside(page, "bench", how, []))
            self.assertEqual(page.read_text(), whole)
            now = [{"name": "c", "value": 9.0, "unit": "1/s", "note": "w", "date": "2026-02-02"},
                   {"name": "e", "value": 7.0, "unit": "1/s", "note": "new", "date": "2026-02-02"}]
            write(table.beside(page, "bench", how, now))
            lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
            was = [line for line in whole.splitlines() if line.startswith("| `")]
            self.assertEqual([lines[i] for i in (0, 1, 4)], [was[i] for i in (0, 1, 3)])
            self.assertEqual(lines[2:4], ["| `c` | 9 1/s |  |  | - | 2026-02-02 | w |", "| `e` | 7 1/s |  |  | - | 2026-02-02 | new |"])


class Partial(unittest.TestCase):
    """K-20: a run of some of the benchmarks is judged by their figures."""

    def test_every_goal_belongs_to_a_benchmark(self):
        for suite, names in runner.SUITES.items():
            self.assertEqual({g["part"] for g in table.report.goals_of(suite)}, set(names), suite)

    def judged(self, names, **values):
        with tempfile.TemporaryDirectory() as d:
            root = pathlib.Path(d)  # a tree of its own, whose report it writes
            for part in ("measure/report", "measure/goals", "hack/verify", "docs/lab"):
                shutil.copytree(machine.ROOT / part, root / part)
            (root / "measured").mkdir()
            with unittest.mock.patch.object(runner, "MEASURED", root / "measured"), unittest.mock.patch.object(machine, "ROOT", root):
                return runner.judged("bench", names, [{"name": n, "value": v} for n, v in values.items()])

    def test_what_was_not_asked_for_is_not_missing(self):
        rows, good = self.judged(["stages"], router_cycles_per_rpc=250)
        self.assertEqual(([r["name"] for r in rows], good), (["router_cycles_per_rpc"], True))

    def test_what_was_asked_for_and_not_measured_is(self):
        self.assertFalse(self.judged(["stages"])[1])
        self.assertFalse(self.judged(["stages", "echo"], router_cycles_per_rpc=250)[1])


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
