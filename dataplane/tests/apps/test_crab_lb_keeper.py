# SPDX-License-Identifier: Apache-2.0
"""What bobtail-crab-lb follows while it runs: its document, its keys and the health of servers. On a veth behind
af_packet as test_crab_lb.py; nothing here asserts a time."""
import os
import signal
import unittest

import test_crab_lb
from bed import main, wait_for


@unittest.skipUnless(test_crab_lb.BUILT and os.geteuid() == 0, "needs root (network namespaces) and DPDK")
class Keeper(test_crab_lb.Hosts):
    def said(self):
        with open(self.path("lb.log")) as f:
            return f.read()

    def reload(self, text, says):
        """SIGHUP with this document (None: without one), until that is said once more than before."""
        before = self.said().count(says)
        if text is None:
            os.remove(self.path("lb.json"))
        else:
            with open(self.path("lb.json"), "w") as f:
                f.write(text)
        self.processes["lb"].send_signal(signal.SIGHUP)
        wait_for("it says " + says, lambda: self.said().count(says) > before)

    def servers_are(self, ctl, **want):
        self.health(ctl, **want)
        self.assertEqual(ctl.counter("crab_servers"), sum(want.values()))

    def test_c26_a_document_that_is_refused_or_gone_changes_nothing(self):
        self.start_server("s31")
        ctl = self.start_lb(self.servers("31", "32"))
        self.servers_are(ctl, up=1, down=1, capable=0)
        path = self.path("lb.json")
        self.reload(None, "SIGHUP: %s: %s: No such file or directory; the old configuration stays" % (path, path))
        self.reload('{"vips":[]}', "SIGHUP: %s: vips: must name at least one VIP; the old configuration stays" % path)
        self.servers_are(ctl, up=1, down=1, capable=0)
        self.assertEqual(self.connect(3), ["hello from s31"] * 3)
        self.terminate("lb")

    def test_c26_what_is_known_of_a_server_holds_in_the_next_document(self):
        self.start_server("s31")
        ctl = self.start_lb(self.servers("31"))
        self.servers_are(ctl, up=1, down=0, capable=0)
        probed = ctl.counter("crab_probes_total")
        self.assertGreater(probed, 0)
        self.assertGreater(ctl.counter("crab_probe_answers_total", kind="accepted"), 0)
        # A minute between probes: what is up now is so from before.
        vip = ('{"probe":{"intervalMilliseconds":60000},"vips":[{"address":"%s","port":80,"servers":[{"address":"%s99"},{"address":"%s31"}]}]}' %
               (self.vip, self.net, self.net))
        self.reload(vip, "lb.json read, 2 servers")
        self.servers_are(ctl, up=1, down=1, capable=0)
        self.assertGreaterEqual(ctl.counter("crab_probes_total"), probed)  # the count goes on
        self.assertEqual(self.connect(3), ["hello from s31"] * 3)
        self.terminate("lb")

    def test_c64_keys_are_exchanged_while_it_runs(self):
        keys = self.path("report-keys")
        os.mkdir(keys)

        def write(name, text):
            with open(os.path.join(keys, name + ".new"), "w") as f:
                f.write(text)
            os.rename(os.path.join(keys, name + ".new"), os.path.join(keys, name))

        def says(text):
            wait_for("it says " + text, lambda: text in self.said())

        write("key", "k" * 32)
        self.document_of([{"address": self.vip, "port": 80, "servers": self.servers("31"), "policy": "LeastConnections"}])
        self.run_lb("--address=" + self.net + "20", "--key-dir=" + keys)
        write("previous", "k" * 32)
        says("the keys of reports were read anew, 2 of them")
        write("key", "short")
        says("key-dir: %s/key must hold a key of 16 to 64 bytes; the keys stay as they were" % keys)
        write("key", "n" * 32)
        wait_for("they are read", lambda: self.said().count("the keys of reports were read anew, 2 of them") == 2)
        os.remove(os.path.join(keys, "previous"))
        says("the keys of reports were read anew, 1 of them")
        self.assertEqual(self.said().count("the keys stay as they were"), 1)  # said once, not at each look
        self.terminate("lb")


if __name__ == "__main__":
    main()
