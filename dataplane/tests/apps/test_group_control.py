# SPDX-License-Identifier: Apache-2.0
"""What the control socket of members says, does and refuses: before their document, alone, on a disk that somebody else has,
and of copies of their disk. test_group_members.py has the rest."""
import json
import os
import subprocess
import unittest

from bed import ip, wait_for
from group_bed import CLUSTER, GroupBed, READ, digest, op, leader, peer

NO_DOCUMENT = {"phase": "Waiting", "ready": False, "reason": "NoDocument", "message": "no document was applied yet", "name": "m1"}
ORDERS = ("add", "promote", "remove", "transfer", "snapshot")
STOP_FIRST = "cannot change while this member runs; stop it first"
HELLO = ("v", "ok", "role", "version", "incarnation", "pid")


def histogram(total, spent):
    return {"encoding": "ll7", "total": total, "inf": 0, "sumNanoseconds": spent}


class Members(GroupBed):
    def test_before_a_document(self):
        control = self.member(1, None)
        hello = control.ask("hello")
        self.assertEqual((tuple(hello), hello["role"], hello["pid"]), (HELLO, "member", self.processes["m1"].pid))
        self.assertEqual(self.say(1), {"hash": "", **NO_DOCUMENT})
        self.assertEqual(self.state_of(control), {"v": 1, "ok": True, "hash": "", "draining": False, "routers": [], "backlog": 0,
                                                  "workers": [], "group": NO_DOCUMENT})
        counted = self.counted(control)
        self.assertEqual((counted["server_buffers_in_use"], counted["io_rx_packets_total"]), (0, 0))
        self.assertEqual([name for name in counted if not name.startswith("io_")], ["server_buffers_in_use"])
        self.assertEqual(self.histogram_of(control), {"v": 1, "ok": True, "name": "latency", "source": "Server", "windowSeconds": 600,
                                                      "histogram": histogram(0, 0), "requests": 0, "rejected": 0})
        self.refuses(1, "UnknownHistogram", "name", 'must be one of latency; got "hold"', "histogram", name="hold", windowSeconds=1)
        for order in ORDERS:  # what is missing is said before what is wrong
            self.refuses(1, "NotRunning", "", "no document was applied yet", order, id=70000)
        self.assertEqual(control.ask("leave"), {"v": 1, "ok": True, "draining": True})
        self.assertEqual(self.state_of(control)["draining"], True)
        self.assertEqual(self.say(1)["reason"], "NoDocument")
        self.terminate("m1")

    def test_documents(self):
        control = self.member(1, None)
        good = self.group()
        self.documents_that_make_no_member(control, good)
        self.assertEqual(self.say(1), {"hash": "", **NO_DOCUMENT})
        self.applied(control, good)
        self.assertEqual(self.wait_says(1, ready=True)["hash"], digest(good))
        self.applied(control, good, unchanged=True)
        self.documents_of_another_member(control, good)
        self.assertEqual(self.say(1)["hash"], digest(good))
        away = self.group(members=(2, 3), founders=())
        self.applied(control, away)  # it goes on: what it is the log says
        said = self.say(1)
        self.assertEqual((said["hash"], said["id"], said["role"], said["ready"]), (digest(away), 1, "Leader", True))
        self.assertEqual(self.client(1).ask(op("P", b"key", b"v")), b"+")
        self.applied(control, good)
        self.terminate("m1")
        self.assertIn("document in force: group test/orders, 2 members", self.log_of("m1"))

    def documents_that_make_no_member(self, control, good):
        self.refused(control.apply(self.group(members=(2, 3), founders=())), "InvalidConfig", "members",
                     'must name this process, "m1"')
        self.refused(control.apply({**good, "keyIds": [9]}), "InvalidConfig", "keyIds[0]",
                     "cannot read key 9: %s: No such file or directory" % self.path("keys/9"))
        nowhere = self.group()
        nowhere["members"][0]["address"] = "203.0.113.9"  # for examples only: no machine's
        reply = control.apply(nowhere)
        self.assertEqual((reply["ok"], reply["error"]["code"], reply["error"]["field"]), (False, "Internal", "members"))
        self.assertIn("203.0.113.9", reply["error"]["message"])
        self.assertFalse(control.apply(b'{"kind": "ReplicationGroup"}')["ok"])

    def documents_of_another_member(self, control, good):
        for field, value in (("id", 4), ("memberPort", 8101), ("clientPort", 8001), ("address", ip(4))):
            other = json.loads(json.dumps(good))
            other["members"][0][field] = value
            other["members"].reverse()  # it is named where it stands in the new document
            self.refused(control.apply(other), "InvalidConfig", "members[2]." + field, STOP_FIRST)
        self.refused(control.apply({**good, "group": {**good["group"], "number": 8}}), "InvalidConfig", "group.number",
                     "cannot change while the member runs; stop it first")
        self.assertTrue(control.apply(self.group(inFlightLimit=50))["ok"])
        self.applied(control, good)

    def test_what_a_command_line_says_instead(self):
        """An address and a protocol: the document's are not this process's."""
        document = self.group()
        document["members"][0]["address"] = "203.0.113.9"
        control = self.member(1, None, "--protocol=hovercraft", "--address=" + ip(1))
        self.refused(control.apply(document), "InvalidConfig", "boxes",
                     "must name a flow-control box: protocol HovercRaft takes requests from there")
        document["boxes"] = [{"name": "box", "address": ip(11), "clientPort": 8000, "feedbackPort": 8001}]
        self.applied(control, document)
        said = self.wait_says(1, ready=True, applied=4)  # and the key of the bodies' hash
        self.assertEqual((said["role"], said["leader"]), ("Leader", leader(1)))
        self.assertEqual(said["members"], [peer(1, "Voter", 4, heardMillisecondsAgo=0)])
        document["members"][0]["address"] = "203.0.113.10"
        self.applied(control, document)
        document["members"][0]["clientPort"] = 8003
        self.refused(control.apply(document), "InvalidConfig", "members[0].clientPort", STOP_FIRST)
        self.terminate("m1")

    def test_alone(self):
        control, said = self.founded()
        alone = self.running(1, 3, said)
        alone.update(role="Leader", leader=leader(1), quorum={"voters": 1, "needed": 1, "heard": 1},
                     members=[peer(1, "Voter", 3, heardMillisecondsAgo=0)])
        self.assertEqual(said, alone)
        self.assertEqual((said["hash"], len(said["disk"]["id"]), said["disk"]["id"][-4:]), (digest(self.group()), 32, "0001"))
        state = self.state_of(control)
        del said["hash"]
        self.assertEqual(state, {"v": 1, "ok": True, "hash": digest(self.group()), "draining": False, "routers": [], "backlog": 0,
                                 "workers": [{"port": 8000, "backlog": 0}], "group": said})
        self.counts_what_it_says(control)
        self.answers_and_measures(control)
        self.writes_its_state_down(control)
        self.refuses_what_would_end_it()
        self.assertEqual(control.ask("leave"), {"v": 1, "ok": True, "draining": True})
        said = self.say(1)  # nobody is there to hand over to
        self.assertEqual((said["role"], said["ready"], said["reason"]), ("Leader", False, "Leaving"))
        self.assertEqual(self.state_of(control)["draining"], True)
        self.assertEqual(self.counted(control)["replica_ready"], 1)
        self.terminate("m1")

    def counts_what_it_says(self, control):
        said, counted = self.say(1), self.counted(control)
        gauges = {name[8:]: value for name, value in counted.items() if name.startswith("replica_") and not name.split()[0].endswith("_total")}
        self.assertEqual(gauges, {"ready": 1, "leader": 1, "aggregated": 0, "term": said["term"], "commit_index": said["commit"],
                                  "applied_index": said["applied"], "last_index": said["last"], "snapshot_index": said["snapshot"]["index"],
                                  "disk_failed": 0, "states_undecided_index": 0, "voters": 1, "requests_waiting": 0})
        self.assertEqual((counted["replica_events_total leaderships"], counted["server_rejected_total M-1"]), (1, 0))
        self.assertIn("io_tx_packets_total", counted)

    def answers_and_measures(self, control):
        client = self.client(1)
        self.assertEqual([client.ask(op("P", b"one", b"1")), client.ask(op("A", b"one", b"st")), client.ask(op("G", b"one"), READ)],
                         [b"+", b"+", b"+1st"])
        self.assertEqual(client.ask(op("D", b"one"), READ), b"R")  # a write that came as a read
        reply = self.histogram_of(control)
        self.assertGreater(reply["histogram"]["sumNanoseconds"], 0)
        self.assertEqual((reply["histogram"]["total"], reply["requests"], reply["rejected"]), (4, 4, 0))
        counted = self.counted(control)
        self.assertEqual((counted["replica_executed_total write"], counted["replica_executed_total read"]), (2, 2))
        self.assertEqual((counted["replica_applied_index"], counted["server_packets_received_total"]), (7, 4))
        self.assertEqual(counted["io_rx_packets_total"], 4)

    def writes_its_state_down(self, control):
        self.assertEqual(self.orders(1, "snapshot"), {"index": 7})
        first = self.wait_says(1, snapshot__index=7)
        self.refuses(1, "Already", "", "is so already", "snapshot")
        self.assertEqual(self.client(1).ask(op("P", b"other", b"value")), b"+")
        self.assertEqual(self.orders(1, "snapshot", id=65534), {"index": 8})  # which it has no use for
        second = self.wait_says(1, snapshot__index=8)
        self.assertEqual(second["snapshot"]["bytes"] - first["snapshot"]["bytes"], 8 + len("other") + len("value"))
        self.assertEqual((second["first"], second["last"]), (1, 8))
        self.counts_what_it_says(control)
        self.assertEqual(self.counted(control)["replica_snapshots_taken_total"], 2)

    def refuses_what_would_end_it(self):
        for order in ("promote", "remove", "add"):
            for wrong in (0, -1, 65535):
                self.refuses(1, "InvalidRequest", "id", "must be 1..65534; got %d" % wrong, order, id=wrong)
        for order in ("transfer", "snapshot"):
            for wrong in (-1, 65535):
                self.refuses(1, "InvalidRequest", "id", "must be 0..65534; got %d" % wrong, order, id=wrong)
        for order in ("promote", "remove", "transfer"):
            self.refuses(1, "NoMember", "", "no such member", order, id=65534)
        self.refuses(1, "NoMember", "", "no such member", "transfer")
        self.refuses(1, "Already", "", "is so already", "transfer", id=1)
        self.refuses(1, "Already", "", "is so already", "promote", id=1)
        self.refuses(1, "LastVoter", "", "the last voter", "remove", id=1)

    def test_newcomers(self):
        self.founded()
        self.newcomers_that_are_refused()
        index = self.a_stranger_is_added()
        self.member(2, self.group())
        self.assertEqual(self.orders(1, "add", **self.new(2)), {"index": index + 1})
        said = self.wait_says(2, leader=leader(1), reason="Learner", removed=[65534])
        self.assertEqual((said["role"], said["ready"], said["quorum"]["voters"]), ("Learner", False, 1))
        elsewhere = {"v": 1, "ok": False, "error": {"code": "NotLeader", "field": "m1", "message": "not the leader; ask m1"}}
        for order in ("promote", "remove", "add", "transfer"):  # a machine that stood still: nobody leads, for a moment
            wait_for("m2 names m1", lambda: self.members[2].ask(order, **self.new(3)) == elsewhere)
        self.refuses(1, "NoMember", "", "no such member", "transfer", id=2)  # it has no vote
        self.terminate("m2")
        self.terminate("m1")

    def test_a_state_that_is_too_long(self):
        control, _ = self.founded(maxSnapshotBytes=65536)
        client, piece = self.client(1), b"x" * 1200
        for key in (b"a", b"b", b"c", b"d", b"e"):
            for _ in range(13):
                self.assertEqual(client.ask(op("A", key, piece)), b"+")
        self.assertEqual(client.ask(op("A", b"a", piece)), b"F")
        self.refuses(1, "TooLong", "", "too long", "snapshot")
        self.assertEqual((self.counted(control)["replica_snapshots_too_large_total"], self.say(1)["snapshot"]["index"]), (1, 0))

    def test_a_disk_of_somebody_else(self):
        """Such a member goes on to answer, and says why it does nothing else."""
        control, said = self.founded()
        self.start("m2", [*self.command("bobtail-replica", "m2", "--config=" + self.write_document(self.group(founders=(2,)))),
                          "--data=" + self.path("disk-m1")])
        self.members[2] = self.ctl("m2")
        busy = self.say(2)
        self.assertEqual((busy["phase"], busy["reason"], busy["ready"], busy["role"]), ("Failed", "DiskBusy", False, "Learner"))
        self.assertEqual((busy["id"], busy["number"], busy["cluster"]), (2, 7, CLUSTER))
        self.assertTrue(busy["message"])
        self.assertEqual(busy["disk"], {"id": "0" * 32, "policy": "Volatile", "state": busy["disk"]["state"], "message": busy["message"]})
        self.assertNotIn("term", busy)
        self.assertEqual(self.counted(self.members[2])["replica_disk_failed"], 1)
        self.assertEqual(self.counted(self.members[2])["replica_ready"], 0)
        self.assertNotIn("replica_events_total elections", self.counted(self.members[2]))
        for order in ("promote", "remove", "transfer", "snapshot"):
            self.refuses(2, "Failed", "", "the store failed", order, id=1)
        self.assertEqual(self.members[2].ask("leave")["ok"], True)
        self.assertEqual(self.say(2)["reason"], "DiskBusy")
        self.applied(self.members[2], self.group(members=(1, 3)))
        self.assertEqual(self.say(2)["id"], 0)  # neither a core nor a document says it
        self.terminate("m2")
        self.assertEqual(self.say(1)["disk"], said["disk"])


class Copies(GroupBed):
    """--backup-to and --restore-from, which read no document and answer nobody."""

    def run_once(self, name, *options, code=0):
        p = subprocess.run(self.command("bobtail-replica", name, *options), capture_output=True, text=True, timeout=90)
        self.assertEqual(p.returncode, code, p.stderr)
        self.assertNotIn("Sanitizer", p.stderr)
        return p.stderr

    def test_a_copy_begins_another_group(self):
        self.member(1, self.group(storage="Always"))
        self.wait_says(1, ready=True, applied=3)
        client = self.client(1)
        self.assertEqual(client.ask(op("P", b"key", b"kept")), b"+")
        self.assertEqual(self.orders(1, "snapshot"), {"index": 4})
        self.wait_says(1, snapshot__index=4)
        self.assertEqual(client.ask(op("A", b"key", b" whole")), b"+")
        said = self.wait_says(1, durable=5)
        os.mkdir(self.path("copies"))
        self.copies_are_made("up to entry 5 of term %d, with a snapshot at 4" % said["term"])
        self.terminate("m1")
        self.a_copy_becomes_a_disk("up to entry 5 of term %d, with a snapshot at 4" % said["term"])

    def copies_are_made(self, what):
        copy, disk = [self.path("copies/%d" % i) for i in range(4)], self.path("disk-m1")
        text = self.run_once("m1", "--backup-to=" + copy[0])
        self.assertIn("info: %s is a copy of %s %s\n" % (copy[0], disk, what), text)
        self.assertNotIn("older copies", text)
        self.assertIn("error: no backup: ", self.run_once("m1", "--backup-to=" + copy[0], code=1))
        self.assertIn("0 older copies removed; the 2 newest stay", self.run_once("m1", "--backup-to=" + copy[1], "--backup-keep=2"))
        self.assertIn("1 older copies removed; the 2 newest stay", self.run_once("m1", "--backup-to=" + copy[2], "--backup-keep=2"))
        self.assertEqual(sorted(os.listdir(self.path("copies"))), ["1", "2"])
        os.mkdir(self.path("copies/1/of somebody"))  # a folder in it: it cannot be removed
        text = self.run_once("m1", "--backup-to=" + copy[3], "--backup-keep=1")
        self.assertIn("error: older copies stay, and take room: ", text)
        self.assertIn("older copies removed; the 1 newest stay", text)
        self.assertTrue(os.path.isdir(copy[3]))

    def a_copy_becomes_a_disk(self, what):
        copy, fresh = self.path("copies/3"), "f" * 32
        disk = self.path("disk-m1-again")
        for wrong in ("f" * 31, "f" * 33, "g" + "f" * 31, "f" * 30 + " f"):
            text = self.run_once("m1", "--data=" + disk, "--restore-from=" + copy, "--cluster=" + wrong, code=2)
            self.assertIn('error: --cluster must be 32 hexadecimal digits; got "%s"' % wrong, text)
        text = self.run_once("m1", "--data=" + disk, "--restore-from=" + self.path("none"), "--cluster=" + fresh, code=1)
        self.assertIn("error: not restored: ", text)
        self.assertFalse(os.path.exists(disk))
        text = self.run_once("m1", "--data=" + disk, "--restore-from=" + copy, "--cluster=" + fresh)
        self.assertIn("info: %s begins cluster %s with %s %s\n" % (disk, fresh, copy, what), text)
        text = self.run_once("m1", "--data=" + disk, "--restore-from=" + self.path("none"), "--cluster=" + fresh)
        self.assertIn("info: %s is there and stays as it is\n" % disk, text)
        document = self.group(storage="Always", cluster=fresh)
        self.member(1, document, "--data=" + disk)
        said = self.wait_says(1, ready=True)
        self.assertEqual((said["cluster"], said["disk"]["policy"], said["id"], said["quorum"]["voters"]), (fresh, "Always", 1, 1))
        self.assertEqual(self.client(1).ask(op("G", b"key"), READ), b"+kept whole")
        self.terminate("m1")


if __name__ == "__main__":
    unittest.main()
