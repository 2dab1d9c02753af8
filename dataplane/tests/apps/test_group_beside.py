# SPDX-License-Identifier: Apache-2.0
"""The box and the aggregator of a group as their operators see them: what a command line may say, what the control socket
answers before and after a document, and what neither a document nor an address may change while they run. And the command
line of a member."""
import json
import subprocess
import unittest

from bed import ip, program
from group_bed import GroupBed

STOP_FIRST = 'address and ports of "%s" cannot change while it runs; stop it first'
KINDS = (("bobtail-box", "box", "boxes"), ("bobtail-aggregator", "aggregator", "aggregator"))


def run(name, *options):
    return subprocess.run([program(name), *options], capture_output=True, text=True, timeout=60)


class CommandLines(unittest.TestCase):
    NEEDED = {"bobtail-replica": ["--name=m1", "--data=/nowhere/else"], "bobtail-box": ["--name=box"],
              "bobtail-aggregator": ["--name=aggregator"]}
    OPTIONS = {"bobtail-replica": ("--data=DIR", "--protocol=", "--drain-seconds=", "--backup-to=DIR", "--backup-keep=",
                                   "--restore-from=DIR", "--cluster=ID"),
               "bobtail-box": ("--alive=PATH",), "bobtail-aggregator": ("--alive=PATH", "--registers=whole|switch")}
    ALL = ("--name=NAME", "--address=IP", "--mtu=auto|BYTES", "--config=FILE", "--config-cache=FILE", "--key-dir=DIR", "--ctl=PATH",
           "--log=text|json", "Exit status: 0", "ReplicationGroup")

    def wrong(self, name, text, *options):
        p = run(name, *options)
        self.assertEqual((p.returncode, p.stdout), (2, ""), (options, p.stderr))
        self.assertIn(text, p.stderr, options)

    def test_help_names_every_option(self):
        for name, own in self.OPTIONS.items():
            p = run(name, "--help")
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            for text in ("Usage: " + name, *self.ALL, *own):
                self.assertIn(text, p.stdout)
            p = run(name, "--version")
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            self.assertRegex(p.stdout, "^%s \\d+\\.\\d+\\.\\d+\n$" % name)

    def test_what_is_wrong_is_named(self):
        for name, needed in self.NEEDED.items():
            rest = needed[1:]
            long = "n" * 64
            for given, said in (([], ""), (["--name="], ""), (["--name=" + long], long)):
                self.wrong(name, '--name: must be a name of 1..63 bytes; got "%s"' % said, *given, *rest)
            self.wrong(name, "--address", "--name=" + "n" * 63, *rest, "--address=localhost")  # such a name is one
            for options, text in ((["--nonsense=1"], "nonsense"), (["--mtu=575"], "--mtu"), (["--mtu=1501"], "--mtu"),
                                  (["--log=xml"], "--log"), (["--address=0.0.0.0"], "--address"),
                                  (["--address=224.0.0.1"], "--address"), (["file.txt"], "file.txt")):
                self.wrong(name, text, *needed, *options)
        self.wrong("bobtail-aggregator", "--registers", "--name=a", "--registers=half")
        self.wrong("bobtail-box", "registers", "--name=a", "--registers=whole")  # that is the aggregator's

    def test_what_is_wrong_of_a_member_is_named(self):
        for options, text in (([], "--data: must be a folder; its parent must be there"),
                              (["--data="], "--data: must be a folder; its parent must be there"),
                              (["--data=d", "--backup-keep=1"], "--backup-keep: must be given with --backup-to only"),
                              (["--data=d", "--backup-keep=100001", "--backup-to=c"], "--backup-keep"),
                              (["--data=d", "--restore-from=c"], "--cluster: must be given with --restore-from, and only with it"),
                              (["--data=d", "--cluster=" + "1" * 32], "--cluster: must be given with --restore-from, and only with it"),
                              (["--data=d", "--protocol=paxos"], "--protocol"),
                              (["--data=d", "--drain-seconds=3601"], "--drain-seconds")):
            self.wrong("bobtail-replica", text, "--name=m1", *options)


class Beside(GroupBed):
    def whole(self):
        return self.apart(self.group(founders=(1, 2, 3)), "HovercRaftPlusPlus")

    def asked(self, control):
        reply = control.state()
        self.assertGreater(reply.pop("uptimeSeconds"), 0)
        return reply

    def is_alive(self, name, path):
        p = run(name, "--alive=" + path)
        return p.returncode, p.stderr

    def test_what_it_answers(self):
        for kind, name, field in KINDS:
            control = self.begin(kind, name, None)
            self.assertEqual(self.is_alive(kind, self.path(name + ".sock")), (0, ""))
            code, text = self.is_alive(kind, self.path("nobody.sock"))
            self.assertEqual(code, 1)
            self.assertIn("nobody.sock: connect: No such file or directory", text)
            nothing = {"v": 1, "ok": True, "hash": "", "draining": False, "routers": [], "backlog": 0, "workers": []}
            self.assertEqual(self.asked(control), nothing)
            self.assertEqual(control.ask("hello")["role"], name)
            self.assertEqual([x for x in self.counted(control) if not x.startswith("io_")], [name + "_buffers_in_use"])
            self.refused(control.ask("histogram", name="latency", windowSeconds=1), "UnknownHistogram", "name",
                         'must be one of none; got "latency"')
            self.documents_that_are_not_its(control, kind, name, field)
            self.assertEqual(self.asked(control), nothing)
            self.applied(control, self.whole())
            its = self.asked(control)
            self.assertNotEqual(its.pop("hash"), "")
            if kind == "bobtail-aggregator":
                self.assertEqual(its.pop("aggregator"), {"inUse": False, "leader": 0, "term": 0, "epoch": 0, "last": 0, "commit": 0})
            self.assertEqual(its, {k: v for k, v in nothing.items() if k != "hash"})
            self.documents_that_move_it(control, kind, name, field)
            self.assertEqual(control.ask("leave"), {"v": 1, "ok": True, "draining": True})
            self.assertEqual(self.asked(control)["draining"], True)
            self.terminate(name)
            self.assertIn("document in force: group test/orders, 3 members, HovercRaftPlusPlus", self.log_of(name))
            self.assertIn("waits for a document", self.log_of(name))

    def documents_that_are_not_its(self, control, kind, name, field):
        other = self.whole()
        if kind == "bobtail-box":
            other["boxes"][0]["name"] = "another"
            self.refused(control.apply(other), "InvalidConfig", "boxes", 'must name this process, "box"')
            self.refused(control.apply(self.group()), "InvalidConfig", "group.protocol",
                         "must not be Raft: a Raft group's clients send to its leader, not to a box")
        else:
            other["aggregator"]["name"] = "another"
            self.refused(control.apply(other), "InvalidConfig", "aggregator.name", 'must be that of this process, "aggregator"')
            self.refused(control.apply(self.apart(self.group())), "InvalidConfig", "group.protocol",
                         "must be HovercRaftPlusPlus: no other protocol has an aggregator")
        self.refused(control.apply({**self.whole(), "keyIds": [9]}), "InvalidConfig", "keyIds[0]",
                     "cannot read key 9: %s: No such file or directory" % self.path("keys/9"))
        nowhere = self.moved(field, "address", "203.0.113.9")  # for examples only: no machine's
        reply = control.apply(nowhere)
        self.assertEqual((reply["ok"], reply["error"]["code"], reply["error"]["field"]), (False, "Internal", field))
        self.assertIn("203.0.113.9", reply["error"]["message"])

    def moved(self, field, what, value):
        document = json.loads(json.dumps(self.whole()))
        its = document[field]
        (its[0] if field == "boxes" else its)[what] = value
        return document

    def documents_that_move_it(self, control, kind, name, field):
        moves = [("address", ip(14))] + ([("clientPort", 8010), ("feedbackPort", 8011)] if field == "boxes" else [("port", 8210)])
        for what, value in moves:
            self.refused(control.apply(self.moved(field, what, value)), "InvalidConfig", field, STOP_FIRST % name)
        document = self.whole()
        document["group"]["number"] += 1
        self.refused(control.apply(document), "InvalidConfig", "group.number", "cannot change while the member runs; stop it first")
        self.assertTrue(control.apply({**self.whole(), "members": self.whole()["members"][::-1]})["ok"])

    def test_a_box_that_was_told_its_address(self):
        """It has that one, whatever the document says, and needs no name there; the ports are the document's."""
        control = self.begin("bobtail-box", "spare", None, "--address=" + ip(15))
        self.applied(control, self.whole())
        self.assertTrue(control.apply(self.moved("boxes", "address", ip(14)))["ok"])
        self.refused(control.apply(self.moved("boxes", "clientPort", 8010)), "InvalidConfig", "boxes", STOP_FIRST % "spare")
        client = self.asker((ip(15), self.whole()["boxes"][0]["clientPort"]))
        client.send(b"x")
        self.assertEqual(self.asked(control)["backlog"], 0)  # it has just started, and is silent
        self.terminate("spare")


if __name__ == "__main__":
    unittest.main()
