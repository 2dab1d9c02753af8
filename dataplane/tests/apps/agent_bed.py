# SPDX-License-Identifier: Apache-2.0
"""A bed of agents, servers of their protocols and the coordinator's side of docs/reference/lancet-agent.md."""
import pathlib
import re

import agent_client as ac
from bed import Bed, ip, program, wait_for

# A timeout that nothing reaches for want of a processor.
SLOW_MACHINE = 30_000_000_000


class AgentBed(Bed):
    def start_agent(self, *options, name="agent", prefix=()):
        path = self.path(name + ".sock")
        if not any(o.startswith("--agent=") for o in options):
            options = ("--agent=unix:" + path, *options)
        self.start(name, [program("bobtail-load"), *options], prefix)
        log = pathlib.Path(self.path(name + ".log"))
        text = wait_for("the agent listens", lambda: re.search("listening on (.*)", log.read_text()))
        return text.group(1)

    def agent(self, where=None, token=None):
        where = where or self.start_agent()
        if where.startswith("unix:"):
            where = where[5:]
        else:
            host, port = where.rsplit(":", 1)
            where = (host, int(port))
        a = ac.Agent(where, token)
        self.addCleanup(a.close)
        return a

    def server(self, talk):
        s = ac.Server(ip(9), talk)
        self.addCleanup(s.stop)
        return s.target

    def serve(self):
        self.start_server(2)
        self.ctl("server-2")

    def measure_stamped(self, a, rate, n, **configure):
        """Agent.measure from the first stamp on: the kernel stamps what comes a moment after the first socket on the
        machine asks for it, and a busy one takes its time."""
        a.configured = a.ask("configure", **configure)
        a.ask("load", rate=rate)

        def begun():
            a.ask("measure", samples=20)
            return a.wait_complete()["window"]["stamped"]

        wait_for("a sample has a stamp", begun, seconds=30)
        a.ask("measure", samples=n)
        return a.wait_complete(), a.samples()

    def refused(self, code, field, call, *args, **fields):
        with self.assertRaises(ac.Refused) as caught:
            call(*args, **fields)
        self.assertEqual((caught.exception.code, caught.exception.field), (code, field), caught.exception.message)
        return caught.exception.message
