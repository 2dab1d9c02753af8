# SPDX-License-Identifier: Apache-2.0
"""Stamps of a device, and what else an agent asks of kernel and driver, with a device that stamping_nic.c plays (L-2,
L-3, L-50). It stands between the agent and the kernel: which flags, which control messages and which switches the agent
uses is real, where the time of a stamp comes from is not."""
import errno
import os
import pathlib
import subprocess
import sys
import unittest

import agent_client as ac
from agent_bed import SLOW_MACHINE, AgentBed
from bed import BUILD, ip, main, wait_for

NIC = os.path.join(BUILD, "tests", "apps", "libstamping_nic.so")
OFF, ON, ONE_STEP = 0, 1, 2  # HWTSTAMP_TX_
NOTHING, EVERYTHING, SOME, PTP = 0, 1, 2, 12  # HWTSTAMP_FILTER_NONE, _ALL, _SOME, _PTP_V2_EVENT
# SOF_TIMESTAMPING_TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE, OPT_ID, OPT_TSONLY; and the kernel's three.
BY_HARDWARE = 1 << 0 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 11
BY_KERNEL = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 11
WITHOUT_NET_ADMIN = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")


class NicBed(AgentBed):
    def nic_agent(self, stands=(OFF, NOTHING), prefix=(), **nic):
        """An agent behind whose loopback there is a device with stamps."""
        self.stand(*stands)
        played = {"device": "lo", "state": self.path("nic"), "log": self.path("nic-asked"), **nic}
        # The sanitizer wants to be the first library; it need not be, as the device calls what follows it.
        asan = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
        return self.agent(self.start_agent(prefix=(*prefix, "env", "LD_PRELOAD=" + NIC, "ASAN_OPTIONS=" + asan,
                                                   *("NIC_%s=%s" % (k.upper(), v) for k, v in played.items()))))

    def stand(self, tx_type, rx_filter):
        pathlib.Path(self.path("nic")).write_text("%d %d\n" % (tx_type, rx_filter))

    def stands(self):
        return tuple(map(int, pathlib.Path(self.path("nic")).read_text().split()))

    def asked(self, what):
        """Every line the device wrote down of a kind, without its first word."""
        log = pathlib.Path(self.path("nic-asked"))
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [tuple(map(int, words)) for kind, *words in lines if kind == what]

    def log(self):
        return pathlib.Path(self.path("agent.log")).read_text()

    def end(self):
        self.terminate("agent")


class HardwareStamps(NicBed):
    def measure(self, timestamps="hardware", **configure):
        a = self.nic_agent()
        poll, samples = self.measure_stamped(a, 500, 200, timestamps=timestamps, timeoutNanoseconds=SLOW_MACHINE, **configure)
        self.assertEqual((a.configured["timestamps"], poll["timestamps"]), ("hardware", "hardware"))
        self.assertEqual((self.asked("set"), self.stands()), ([(ON, EVERYTHING)], (ON, EVERYTHING)))
        self.assertEqual(set(self.asked("stamps")), {(BY_HARDWARE,)})  # L-50, and nothing of the kernel's
        good = [r for r in samples if r.stamps == 2]
        window = poll["window"]
        self.assertEqual((window["stamped"], window["unstamped"]), (len(good), 200 - len(good)))
        self.assertEqual({r.stamps for r in samples} - {0, 2}, set())
        self.assertGreaterEqual(len(good), 190, window)
        self.assertTrue(all(0 < r.stamped < r.received - r.sent for r in good))

    def test_l50_l51_tcp(self):
        self.measure(protocol="echo", targets=[self.server(ac.echo(64))])

    def test_l50_l55_r2p2(self):
        self.serve()
        self.measure(protocol="r2p2", targets=[ip(2) + ":8000"], connections=4, outstanding=4)

    def test_l3_auto_takes_the_devices_where_it_has_them(self):
        self.measure(timestamps="auto", protocol="echo", targets=[self.server(ac.echo(64))])

    def hardware_refused(self, *says, **nic):
        """Refused by name and with the reason; `auto` takes the kernel's and the device is as it was."""
        a = self.nic_agent(**nic)
        target = {"protocol": "echo", "targets": [self.server(ac.echo(64))]}
        message = self.refused("Unsupported", "timestamps", a.ask, "configure", timestamps="hardware", **target)
        for one in ("hardware: device lo: ", "; use kernel or software", *says):
            self.assertIn(one, message)
        self.assertEqual(self.stands(), (OFF, NOTHING))
        self.assertEqual(a.ask("configure", timestamps="auto", **target)["timestamps"], "kernel")
        self.assertEqual(set(self.asked("stamps")), {(BY_KERNEL,)})
        self.assertEqual(self.stands(), (OFF, NOTHING))

    def test_a_device_that_may_not_be_switched_on(self):
        self.hardware_refused("to switch it on takes CAP_NET_ADMIN", set_error=errno.EPERM)
        self.assertEqual(self.asked("set"), [(ON, EVERYTHING)] * 2)

    def test_a_driver_that_refuses_to_stamp_every_frame(self):
        self.hardware_refused("refuses to stamp every frame", os.strerror(errno.ERANGE), set_error=errno.ERANGE)

    def narrower(self, rx_filter):
        self.hardware_refused("stamps only some (tx_type 1, rx_filter %d)" % rx_filter, takes=rx_filter)
        self.assertEqual(self.asked("set"), [(ON, EVERYTHING), (OFF, NOTHING)] * 2)

    def test_a_driver_that_takes_a_narrower_filter_is_refused_and_put_back(self):
        self.narrower(PTP)

    def test_a_driver_that_takes_some_more_than_nothing_is_refused_and_put_back(self):
        self.narrower(SOME)

    def test_a_device_that_says_it_cannot_stamp_every_frame_is_not_asked_to(self):
        self.hardware_refused("cannot stamp every frame", filters=1 << NOTHING | 1 << PTP)
        self.assertEqual(self.asked("set"), [])


class Switching(NicBed):
    """The device belongs to the machine: when the agent is done with it, it stands as it did."""

    def setUp(self):
        super().setUp()
        self.echo = {"protocol": "echo", "targets": [self.server(ac.echo(64))]}

    def test_it_is_put_back_when_the_coordinator_is_gone(self):
        a = self.nic_agent(stands=(OFF, PTP))
        a.ask("configure", timestamps="hardware", **self.echo)
        self.assertEqual(self.stands(), (ON, EVERYTHING))
        a.close()
        self.wait_until(OFF, PTP)
        self.assertIsNone(self.processes["agent"].poll())
        self.end()

    def test_it_is_put_back_when_the_agent_ends(self):
        a = self.nic_agent(stands=(OFF, PTP))
        a.ask("configure", timestamps="hardware", **self.echo)
        self.end()
        self.assertEqual(self.stands(), (OFF, PTP))

    def test_it_is_put_back_by_a_configuration_that_does_not_need_it(self):
        a = self.nic_agent(stands=(OFF, PTP))
        a.ask("configure", timestamps="hardware", **self.echo)
        a.ask("configure", timestamps="software", **self.echo)
        self.assertEqual(self.stands(), (OFF, PTP))

    def test_it_is_put_back_when_the_configuration_fails(self):
        a = self.nic_agent(stands=(OFF, PTP))
        self.refused("TargetFailed", "targets", a.ask, "configure", timestamps="hardware", protocol="echo", targets=[ip(9) + ":1"])
        self.assertEqual((self.asked("set"), self.stands()), ([(ON, EVERYTHING), (OFF, PTP)], (OFF, PTP)))

    def test_what_somebody_else_switched_since_stays(self):
        a = self.nic_agent()
        a.ask("configure", timestamps="hardware", **self.echo)
        self.stand(ON, PTP)
        self.end()
        self.assertEqual((self.asked("set"), self.stands()), ([(ON, EVERYTHING)], (ON, PTP)))
        self.assertIn("device lo was switched by somebody else meanwhile (tx_type 1, rx_filter %d)" % PTP, self.log())

    def stays(self, tx_type):
        a = self.nic_agent(stands=(tx_type, EVERYTHING), set_error=errno.EPERM)
        self.assertEqual(a.ask("configure", timestamps="hardware", **self.echo)["timestamps"], "hardware")
        self.end()
        self.assertEqual((self.asked("set"), self.stands()), ([], (tx_type, EVERYTHING)))

    def test_what_stamps_every_frame_already_is_not_switched_at_all(self):
        self.stays(ON)

    def test_what_stamps_in_one_step_for_ptp_is_not_switched_either(self):
        self.stays(ONE_STEP)

    def test_a_driver_that_does_not_tell_how_it_stood_is_left_on_and_the_log_says_so(self):
        a = self.nic_agent(get_error=errno.EOPNOTSUPP)
        self.assertEqual(a.ask("configure", timestamps="hardware", **self.echo)["timestamps"], "hardware")
        self.end()
        self.assertEqual((self.asked("set"), self.stands()), ([(ON, EVERYTHING)], (ON, EVERYTHING)))
        self.assertIn("device lo does not tell how it stamped before (%s)" % os.strerror(errno.EOPNOTSUPP), self.log())

    def wait_until(self, *stands):
        wait_for("the device stands at %s %s" % stands, lambda: self.stands() == stands)


class BusyPolling(NicBed):
    """L-2: whether the kernel polls for a measuring agent's sockets is told, not guessed."""

    def setUp(self):
        super().setUp()
        self.serve()
        self.echo = {"protocol": "echo", "targets": [self.server(ac.echo(64))]}
        self.r2p2 = {"protocol": "r2p2", "targets": [ip(2) + ":8000"]}

    def said(self, a, **configure):
        return {a.ask("configure", **how, **configure)["busyPoll"] for how in (self.echo, self.r2p2)}

    def test_only_a_measuring_agent_asks_for_it(self):
        a = self.nic_agent(busy_poll_error=errno.EPERM)
        self.assertEqual(self.said(a, role="symmetric") | self.said(a, role="throughput"), {"off"})
        refused = {"refused: %s; above net.core.busy_read it takes CAP_NET_ADMIN here" % os.strerror(errno.EPERM)}
        self.assertEqual(self.said(a, role="latency"), refused)
        self.assertEqual(self.said(a), {"off"})  # what was refused before is forgotten

    def test_another_refusal_says_why(self):
        a = self.nic_agent(busy_poll_error=errno.ENOPROTOOPT)
        self.assertEqual(self.said(a, role="latency"), {"refused: " + os.strerror(errno.ENOPROTOOPT)})

    @unittest.skipUnless(os.geteuid() == 0, "the right to raise it is root's")
    def test_this_kernel_takes_it_of_root(self):
        self.assertEqual(self.said(self.agent(), role="latency"), {"on"})

    @unittest.skipUnless(os.geteuid() == 0, "capabilities are dropped by root")
    def test_without_the_capability_it_is_as_this_kernel_says(self):
        """Kernels differ: socket(7) asks for the capability, Linux 6.18 does not."""
        probe = ("import socket, sys\nwith socket.socket() as s:\n try: s.setsockopt(socket.SOL_SOCKET, 46, 50)\n"
                 " except OSError as e: sys.exit(str(e.errno))")
        mine = subprocess.run([*WITHOUT_NET_ADMIN, sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
        said = self.said(self.agent(self.start_agent(prefix=WITHOUT_NET_ADMIN)), role="latency")
        self.assertEqual([one.split(":")[0] for one in said], ["refused" if mine.returncode else "on"], mine.stderr)


if __name__ == "__main__":
    main()
