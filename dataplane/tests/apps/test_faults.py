# SPDX-License-Identifier: Apache-2.0
"""Failures: killed servers and routers, rolling restarts, hostile packets. Losses are bounded and
stated, nothing hangs, credits come back."""
import os
import random
import signal
import socket
import time
import unittest

from bed import Bed, OTHER_KEY, ip, main, wait_for


class Faults(Bed):
    def test_r138_a_killed_server_costs_at_most_its_credits(self):
        document = self.cluster([1, 2, 3], [4], "--service-time=fixed:2ms")
        p = self.start_load([4], 400, 6, "--connections=2", "--timeout=5s")
        time.sleep(1.5)
        self.kill("server-1")
        time.sleep(2)
        self.start_server(1, "--config=" + document, "--service-time=fixed:2ms")
        result = self.finish_load(p)
        # Two workers with n=3, and requests on their way before the first ICMP error came back.
        self.assertLessEqual(result["lost"], 12, result)
        self.assertEqual(result["dropped"], 0)
        self.wait_joined("router-4", 6)
        self.answered(self.load, [4], 400, 1)
        self.assert_credits_return("router-4")

    def test_rolling_restart_of_servers_loses_nothing(self):
        document = self.cluster([1, 2, 3], [4, 5], "--service-time=exp:4ms")
        self.start_lasting_load([4, 5], 300, "--connections=4", "--verify")
        self.ctl("load")
        time.sleep(1)
        for n in (1, 2, 3):
            self.terminate("server-%d" % n)
            self.start_server(n, "--config=" + document, "--service-time=exp:4ms")
            for router in ("router-4", "router-5"):
                self.wait_joined(router, 6)
        self.assert_all_answered(self.end_load())
        self.assert_credits_return("router-4", "router-5")

    def test_drain_seconds_bound_the_end_whatever_the_service_time(self):
        """A worker in the middle of a long request does not keep the program past its drain."""
        for occupy in ("sleep", "spin"):
            self.start_server(1, "--service-time=fixed:60s", "--occupy=" + occupy, "--drain-seconds=1", workers=1)
            c = self.ctl("server-1")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.bind((ip(2), 0))
                for req_id in range(3):  # single-packet REQ0s, sent past any router
                    client.sendto(bytes((0xCC, 8, 0, 0xC0, 0, req_id, 0, 1)) + b"x", (ip(1), 8000))
                wait_for("the requests are there", lambda: c.state()["backlog"] == 3)
            self.terminate("server-1", seconds=15)

    def test_killed_router_makes_clients_move_on(self):
        self.cluster([1, 2], [3, 4], "--service-time=fixed:2ms")
        p = self.start_load([3, 4], 300, 5, "--connections=4", "--timeout=3s")
        time.sleep(1.5)
        self.kill("router-3")
        result = self.finish_load(p)
        # Half of them would be, were the router not left; a busy generator sends many before it hears of its end.
        self.assertLess(result["lost"], result["offered"] / 5, result)
        self.assertGreaterEqual(result["routerMoves"], 1)
        self.assertEqual(result["completed"] + result["lost"], result["offered"])
        # alone, the other router gets every credit.
        c = self.ctl("router-4")
        wait_for("n is no longer shared", lambda: all(m["n"] == 3 for m in c.state()["members"]))
        self.answered(self.load, [4], 300, 1)

    def test_silent_router_is_left_after_three_timeouts(self):
        """A stopped process answers nothing and gives no ICMP error: only timeouts tell."""
        self.cluster([1, 2], [3, 4], "--service-time=fixed:1ms")
        self.start_lasting_load([3, 4], 200, "--connections=2", "--timeout=1s", "--seed=1")
        silent, other = self.ctl("router-3"), self.ctl("router-4")
        taken = lambda c: c.counter("router_requests_total")
        wait_for("both routers have requests", lambda: min(taken(silent), taken(other)) > 50)
        self.processes["router-3"].send_signal(signal.SIGSTOP)
        before = taken(other)
        wait_for("the other router has the load", lambda: taken(other) - before > 1200)
        result = self.end_load()
        self.processes["router-3"].send_signal(signal.SIGCONT)
        lost = {r["address"]: r["timeouts"] for r in result["routers"]}[ip(3) + ":8000"]
        self.assertGreaterEqual(result["routerMoves"], 1)
        self.assertGreaterEqual(lost, 3)
        self.assertLess(lost, 600, result)  # never left, it would have had as many as the other one

    def test_restarted_router_rebuilds_its_state_from_feedback(self):
        """R-136, R-112: a new router knows nothing and is told everything within an idle period."""
        document = self.cluster([1, 2], [3], "--service-time=fixed:50ms")
        self.start_lasting_load([3], 40, "--timeout=5s")
        wait_for("requests come", lambda: self.ctl("router-3").counter("router_requests_total") > 40)
        self.kill("router-3")
        self.start_router(3, "--config=" + document)
        self.wait_joined("router-3", 4)
        wait_for("requests come again", lambda: self.ctl("router-3").counter("router_requests_total") > 150)
        result = self.end_load()
        self.assertGreaterEqual(result["completed"], 150, result)
        self.wait_joined("router-3", 4)
        self.assert_credits_return("router-3")
        self.answered(self.load, [3], 40, 1)

    def test_router_drains_on_sigterm(self):
        self.cluster([1], [2], "--service-time=fixed:5ms")
        p = self.start_load([2], 100, 3)
        time.sleep(1)
        self.processes["router-2"].send_signal(signal.SIGTERM)
        c = self.ctl("router-2")
        wait_for("the router says that it drains", lambda: c.state()["draining"])
        self.assert_all_answered(self.finish_load(p))  # it forwarded to the end
        self.assertEqual(self.processes["router-2"].wait(timeout=30), 0)

    @unittest.skipUnless(os.geteuid() == 0, "a name list of its own for the generator needs root (mount namespace)")
    def test_rolling_restart_of_routers_by_name_loses_nothing(self):
        """As in a cluster: a router is taken off the name, clients leave it, then it ends."""
        document = self.cluster([1, 2], [3, 4], "--service-time=exp:2ms")
        hosts = self.path("hosts")

        def list_routers(*numbers):
            with open(hosts, "w") as f:
                f.writelines("%s echo.test.example\n" % ip(n) for n in numbers)

        list_routers(3, 4)
        command = self.load_command([], 200, 600, "--connections=4", "--verify", "--resolve-interval=500ms",
                                    "--ctl=" + self.path("load.sock"))
        command[1] = "--target=echo.test.example:8000"
        self.start_process("load", ["unshare", "--mount", "sh", "-c",
                                    'mount --bind "$0" /etc/hosts && exec "$@"', hosts, *command])
        self.ctl("load")
        time.sleep(1.5)
        for leaving, staying in ((3, 4), (4, 3)):
            list_routers(staying)
            self.terminate("router-%d" % leaving)
            self.start_router(leaving, "--config=" + document)
            self.wait_joined("router-%d" % leaving, 4)
            list_routers(3, 4)
        result = self.end_load()
        self.assert_all_answered(result)
        self.assertGreaterEqual(result["routerMoves"], 4)
        self.assertEqual(len(result["routers"]), 2)

    def test_second_signal_ends_a_drain(self):
        self.cluster([1], [2], "--service-time=fixed:5ms")
        p = self.start_load([2], 100, 30)
        wait_for("requests come", lambda: self.ctl("router-2").counter("router_requests_total") > 10)
        self.processes["router-2"].send_signal(signal.SIGTERM)
        c = self.ctl("router-2")
        wait_for("it drains", lambda: c.state()["draining"])
        self.processes["router-2"].send_signal(signal.SIGTERM)
        self.assertEqual(self.processes["router-2"].wait(timeout=30), 0)
        p.send_signal(signal.SIGINT)
        self.finish_load(p)

    def test_r57_feedback_with_a_wrong_key_is_rejected(self):
        self.write_key(OTHER_KEY, "otherkeys")
        document = self.write_document(self.document([1, 2], [3]))
        self.start_router(3, "--config=" + document)
        self.start_server(1, "--config=" + document)
        self.start_server(2, "--config=" + document, keys="otherkeys")
        c = self.wait_joined("router-3", 2)
        wait_for("bad tags are counted", lambda: c.counter("router_discarded_total", reason="TAG") > 3)
        joined = {m["address"] for m in c.state()["members"] if m["joined"]}
        self.assertEqual(joined, {ip(1)})
        self.answered(self.load, [3], 200, 1)

    def test_r114_feedback_of_strangers_is_rejected(self):
        document = self.write_document(self.document([1], [3]))
        stranger = self.write_document(self.document([1, 2], [3]), "stranger.json")
        self.start_router(3, "--config=" + document)
        self.start_server(1, "--config=" + document)
        self.start_server(2, "--config=" + stranger)
        c = self.wait_joined("router-3", 2)
        wait_for("strangers are counted", lambda: c.counter("router_discarded_total") > 3)
        self.assertEqual({m["address"] for m in c.state()["members"]}, {ip(1)})

    def test_r54_hostile_packets_are_counted_and_change_nothing(self):
        self.cluster([1], [2], "--service-time=fixed:1ms")
        p = self.start_load([2], 200, 4, "--verify")
        rng = random.Random(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((ip(9), 0))
            for i in range(3000):
                size = rng.choice((0, 1, 7, 8, 9, 16, 40, 64, 1472, 2000))
                data = bytearray(rng.randbytes(size))
                if size >= 8 and i % 2:
                    data[0], data[1] = 0xCC, rng.choice((8, 12, 24, 64, 255))
                    data[2] = rng.choice((0x20, 0x30, 0x40, 0x80, 0x10, 0x00)) | rng.choice((0, 1, 15))
                for where in ((ip(2), 8000), (ip(2), 9000), (ip(1), 8000), (ip(1), 8001)):
                    s.sendto(data, where)
                if i % 100 == 0:
                    time.sleep(0.01)
        result = self.finish_load(p)
        self.assertEqual((result["lost"], result["corrupt"]), (0, 0), result)
        self.assertGreater(self.ctl("router-2").counter("router_discarded_total"), 1000)
        self.assertGreater(self.ctl("server-1").counter("server_rejected_total"), 1000)
        self.wait_joined("router-2", 2)


if __name__ == "__main__":
    main()
