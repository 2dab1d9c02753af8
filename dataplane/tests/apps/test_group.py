# SPDX-License-Identifier: Apache-2.0
"""The programs of a replication group beside its members: they follow their document, say what they count, and refuse what is not theirs."""
import unittest

from bed import Bed, ip, program, wait_for


class Group(Bed):
    def group(self, protocol="HovercRaftPlusPlus", limit=1000):
        members = [{"name": "m%d" % n, "id": n, "address": ip(n), "memberPort": 8100, "clientPort": 8000} for n in (1, 2, 3)]
        document = {"apiVersion": "dataplane.bobtail.dev/v1", "kind": "ReplicationGroup", "sources": [],
                    "group": {"name": "orders", "namespace": "test", "cluster": "00112233445566778899aabbccddeeff", "number": 7,
                              "storage": "Volatile", "deviceProfile": "Kernel", "electionMilliseconds": 1000,
                              "heartbeatMilliseconds": 100, "logEntries": 4096, "snapshotEntries": 512,
                              "maxSnapshotBytes": 1 << 20, "inFlightLimit": limit, "protocol": protocol},
                    "initialMembers": ["m1", "m2", "m3"], "members": members, "keyIds": [1],
                    "boxes": [{"name": "box", "address": ip(4), "clientPort": 8000, "feedbackPort": 8001}]}
        if protocol == "HovercRaftPlusPlus":
            document["aggregator"] = {"name": "aggregator", "address": ip(5), "port": 8200}
        return document

    def begin(self, kind, name, *options):
        self.start(name, [program(kind), "--name=" + name, "--key-dir=" + self.path("keys"), "--ctl=" + self.path(name + ".sock"),
                          "--config=" + self.write_document(self.group()), *options])
        return self.ctl(name)

    def said(self, control):
        """{name and labels: value} of all that a program counts."""
        reply = control.ask("counters")
        return {" ".join([x["name"], *x["labels"].values()]): x["value"] for x in reply["counters"] + reply["gauges"]}

    def test_a_box_follows_its_document(self):
        box = self.begin("bobtail-box", "box")
        said = self.said(box)
        self.assertEqual((said["box_limit"], said["box_requests_inside"]), (1000, 0))
        self.assertTrue(box.apply(self.group(limit=500))["ok"])
        wait_for("the other limit", lambda: self.said(box)["box_limit"] == 500)
        refused = box.apply(self.group(protocol="Raft"))
        self.assertFalse(refused["ok"])
        self.assertEqual(self.said(box)["box_limit"], 500)
        self.terminate("box")

    def test_an_aggregator_follows_its_document(self):
        aggregator = self.begin("bobtail-aggregator", "aggregator")
        said = self.said(aggregator)
        self.assertEqual((said["aggregator_in_use"], said["aggregator_term"], said["aggregator_packets_accepted_total"]), (0, 0, 0))
        self.assertFalse(aggregator.apply(self.group(protocol="HovercRaft"))["ok"])
        self.assertTrue(aggregator.apply(self.group(limit=500))["ok"])
        self.terminate("aggregator")

    def test_members_with_both_become_a_group(self):
        controls = {name: self.begin(kind, name, *options) for kind, name, options in (
            ("bobtail-box", "box", ()), ("bobtail-aggregator", "aggregator", ()),
            *(("bobtail-replica", "m%d" % n, ("--data=" + self.path("m%d" % n),)) for n in (1, 2, 3)))}
        members = [controls["m%d" % n] for n in (1, 2, 3)]
        wait_for("three members that are ready", lambda: all(self.said(m)["replica_ready"] == 1 for m in members))
        wait_for("a leader that sends by way of the aggregator", lambda: sum(self.said(m)["replica_aggregated"] for m in members) == 1)
        leader = next(m for m in members if self.said(m)["replica_leader"] == 1)
        self.assertEqual(self.said(leader)["replica_voters"], 3)
        wait_for("an aggregator of that term", lambda: self.said(controls["aggregator"])["aggregator_term"] == self.said(leader)["replica_term"])
        self.assertEqual(self.said(controls["aggregator"])["aggregator_in_use"], 1)
        for name in controls:
            self.terminate(name)

    def test_who_is_not_in_the_document_does_not_start(self):
        for kind, name in (("bobtail-box", "another-box"), ("bobtail-aggregator", "another")):
            p = self.start(name, [program(kind), "--name=" + name, "--key-dir=" + self.path("keys"), "--ctl=" + self.path(name + ".sock"),
                                  "--config=" + self.write_document(self.group())])
            self.assertEqual(p.wait(60), 1)
            with open(self.path(name + ".log")) as f:
                self.assertIn(name, f.read())


if __name__ == "__main__":
    unittest.main()
