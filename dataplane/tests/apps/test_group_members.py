# SPDX-License-Identifier: Apache-2.0
"""What the control socket of members says, does and refuses while a group changes: learners, votes, elections, leaders that
leave, and a HovercRaft++ group with its box and its aggregator."""
import json
import unittest

from bed import ip, wait_for
from group_bed import GroupBed, READ, leader, op, peer, unknown

NOBODY = {"id": 0, "name": "", "clientAddress": ""}
ELECTION = 500  # milliseconds, of groups with several voters
HELLO = ("v", "ok", "role", "version", "incarnation", "pid")


class Members(GroupBed):
    def test_members_come_and_go(self):
        self.founded(election=ELECTION)
        self.newcomers_that_are_refused()
        index = self.a_stranger_is_added()
        index = self.a_learner_joins(index)
        index = self.a_learner_falls_behind(index)
        self.a_learner_gets_a_vote(index)
        self.the_leadership_goes_back_and_forth()
        self.a_hand_over_that_nobody_takes()
        self.a_voter_is_removed()
        self.a_change_that_nobody_confirms()
        for n in self.members:
            self.terminate("m%d" % n)

    def a_learner_joins(self, index):
        self.assertEqual(self.orders(1, "add", **self.new(2)), {"index": index + 1})
        self.member(2, self.group(election=ELECTION))
        index += 3  # its membership, its address, whose its disk is
        said = self.wait_says(2, applied=index, commit=index, durable=index, leader=leader(1))
        its = self.running(2, index, said)
        its.update(ready=False, reason="Learner", role="Learner", configurationIndex=index - 2, leader=leader(1), removed=[65534],
                   quorum={"voters": 1, "needed": 1, "heard": 0}, members=[unknown(1, "Voter"), unknown(2, "Learner")])
        self.maxDiff = None
        self.assertEqual(said, its)
        self.assertNotEqual(said["disk"]["id"], self.say(1)["disk"]["id"])
        for order in ("promote", "remove", "add"):
            self.refuses(2, "NotLeader", "m1", "not the leader; ask m1", order, **self.new(3))
        self.refuses(2, "NotLeader", "m1", "not the leader; ask m1", "transfer")
        self.assertEqual(self.counted(self.members[2])["replica_ready"], 0)
        self.assertEqual(self.counted(self.members[2])["replica_leader"], 0)
        self.members_are(1, peer(1, "Voter", index, heardMillisecondsAgo=0), peer(2, "Learner", index))
        return index

    def members_are(self, n, *members):
        """Until a member says this of all; when they were heard is not compared where it is not given."""
        def those():
            said = self.say(n)
            self.take(said, *[m["id"] for m in members if "heardMillisecondsAgo" not in m])
            return said["members"] == list(members)

        wait_for("m%d says %s" % (n, members), those)

    def a_learner_falls_behind(self, index):
        """Stopped, it has what it had; what is written meanwhile it lacks."""
        self.pause(2)
        client = self.client(1)
        for _ in range(5):
            self.assertEqual(client.ask(op("A", b"log", b".")), b"+")
        self.members_are(1, peer(1, "Voter", index + 5, heardMillisecondsAgo=0), peer(2, "Learner", index, lag=5))
        self.refuses(1, "Behind", "", "has not caught up", "promote", id=2)
        wait_for("half a second without a word", lambda: self.take(self.say(1), 2)[0] > 500)
        self.resume(2)
        self.members_are(1, peer(1, "Voter", index + 5, heardMillisecondsAgo=0), peer(2, "Learner", index + 5))
        self.assertEqual(self.client(2).ask(op("G", b"log"), policy=0), b"+.....")  # of its own, as it stands
        return index + 5

    def a_learner_gets_a_vote(self, index):
        self.assertEqual(self.orders(1, "promote", id=2), {"index": index + 1})
        for n in (1, 2):
            said = self.wait_says(n, ready=True, configurationIndex=index + 1, changePending=False)
            self.assertEqual([m["role"] for m in said["members"]], ["Voter", "Voter"])
            self.assertEqual((said["quorum"]["voters"], said["quorum"]["needed"]), (2, 2))
        wait_for("a leader that hears both", lambda: {"voters": 2, "needed": 2, "heard": 2} in [self.say(n)["quorum"] for n in (1, 2)])
        self.refuses_at_the_leader("Already", "is so already", "promote", id=2)

    def refuses_at_the_leader(self, code, message, order, **fields):
        def refused():
            reply = self.members[1].ask(order, **fields)
            if reply.get("error", {}).get("code") == "NotLeader":  # a machine that stood still: another one leads
                self.lead(1)
                return False
            self.refused(reply, code, "", message)
            return True

        wait_for("a refusal of the leader", refused)

    def the_leadership_goes_back_and_forth(self):
        for to, asked in ((2, {"id": 2}), (1, {})):
            self.lead(3 - to)
            wait_for("m%d takes the order" % (3 - to), lambda: self.handed(3 - to, to, asked))
            said = self.wait_says(3 - to, leader=leader(to))
            if said["role"] == "Follower":
                self.refuses(3 - to, "NotLeader", "m%d" % to, "not the leader; ask m%d" % to, "remove", id=1)
            self.assertEqual(self.wait_says(to, role="Leader", ready=True)["leader"], leader(to))

    def handed(self, by, to, asked):
        reply = self.members[by].ask("transfer", **asked)
        if reply["ok"]:
            self.assertEqual(reply, {"v": 1, "ok": True, "to": to})
        return reply["ok"]

    def a_hand_over_that_nobody_takes(self):
        """A second one, or a change, while the first one is under way: it waits for a voter that stands still."""
        self.lead(1)
        self.pause(2)
        replies = self.at_once(1, ("transfer", {"id": 2}), ("transfer", {"id": 2}), ("add", self.new(3)))
        if [r.get("error", {}).get("code") for r in replies].count("NotLeader") == 0:  # else it gave up before it was asked
            self.assertEqual(replies[0], {"v": 1, "ok": True, "to": 2})
            for reply in replies[1:]:
                self.refused(reply, "Transferring", "", "leadership is being handed over")
        said = self.wait_says(1, leader=NOBODY)
        self.assertEqual((said["ready"], said["reason"]), (False, "NoLeader"))
        self.assertEqual(self.wait_says(1, role="Candidate")["leader"], NOBODY)
        self.refuses(1, "NotLeader", "", "not the leader; ask again: nobody leads", "remove", id=2)
        self.refuses(1, "NotLeader", "", "not the leader; ask again: nobody leads", "transfer")
        self.resume(2)
        wait_for("a leader again", lambda: all(self.say(n)["leader"] != NOBODY for n in (1, 2)))

    def a_voter_is_removed(self):
        def removed():
            self.lead(1)
            return self.members[1].ask("remove", id=2)["ok"]

        wait_for("m2 is removed", removed)
        said = self.wait_says(1, removed=[65534, 2], quorum={"voters": 1, "needed": 1, "heard": 1}, changePending=False)
        self.assertEqual([m["id"] for m in said["members"]], [1])
        said = self.wait_says(2, phase="Refused", reason="Removed")
        message = "member 2 was removed from the group: it comes back only with an empty disk and a new id"
        self.assertEqual((said["ready"], said["message"], said["disk"]["message"], said["disk"]["state"]), (False, message, "", "Healthy"))
        self.assertEqual(self.counted(self.members[2])["replica_disk_failed"], 0)
        self.refuses(2, "Failed", "", "the store failed", "promote", id=1)
        self.lead(1)

    def a_change_that_nobody_confirms(self):
        """A third voter that stands still: what is ordered since waits for it, and so does a client."""
        self.assertTrue(self.orders(1, "add", **self.new(3))["index"] > 0)
        self.member(3, self.group(election=ELECTION))
        wait_for("m3 has all", lambda: self.has_all(3))
        index = self.say(1)["last"]
        self.pause(3)
        replies = self.at_once(1, ("promote", {"id": 3}), ("add", self.new(4)))
        self.assertEqual(replies[0], {"v": 1, "ok": True, "index": index + 1})
        if replies[1]["error"]["code"] != "NotLeader":  # a machine that stood still: it gave up before it was asked
            self.refused(replies[1], "Pending", "", "the one before is not done yet")
        client = self.client(1)
        client.send(op("P", b"late", b"1"))
        if self.say(1)["role"] == "Leader":  # it took the request, and keeps it for a while also when it leads no more
            wait_for("a request that waits", lambda: self.waits(1) == (1, 1, 1))
        said = self.wait_says(1, leader=NOBODY)
        self.assertEqual((said["commit"], said["applied"], said["configurationIndex"], said["changePending"]), (index, index, index + 1, True))
        self.assertEqual((said["last"], said["durable"]), 2 * (self.counted(self.members[1])["replica_last_index"],))
        self.assertGreater(said["last"], index)
        self.assertEqual((said["quorum"], said["members"][1]["role"]), ({"voters": 2, "needed": 2, "heard": 0}, "Voter"))
        self.assertEqual(self.counted(self.members[1])["replica_commit_index"], index)
        self.resume(3)
        wait_for("the change is done", lambda: all(self.say(n).get("changePending") is False and self.say(n)["ready"] for n in (1, 3)))

    def has_all(self, n):
        said = self.say(1)
        its = [m for m in said["members"] if m["id"] == n and m["registered"] and m["match"] == said["last"] == said["commit"]]
        return its and its[0]["lag"] == 0

    def waits(self, n):
        state = self.members[n].state()
        return (self.counted(self.members[n])["replica_requests_waiting"], state["backlog"], state["workers"][0]["backlog"])

    def test_three_that_found_a_group(self):
        document = self.group(founders=(1, 2, 3), election=ELECTION)
        self.member(1, document)
        first = self.wait_says(1, role="Follower", reason="NoLeader")
        self.assertEqual((first["quorum"], first["formed"], first["leader"]), ({"voters": 3, "needed": 2, "heard": 0}, False, NOBODY))
        self.assertEqual(first["members"], [{**unknown(n, "Voter"), "registered": False} for n in (1, 2, 3)])
        self.refuses(1, "NotLeader", "", "not the leader; ask again: nobody leads", "promote", id=2)
        self.an_address_book_is_changed(document)
        self.member(2, document)
        wait_for("a leader of two", lambda: [n for n in (1, 2) if self.say(n)["role"] == "Leader"])
        self.lead(1)
        self.wait_says(1, role="Leader", formed=False, ready=False, reason="Forming")
        self.refuses(1, "NotYet", "", "nothing of the own term is committed yet", "remove", id=3)
        self.member(3, document)
        for n in (1, 2, 3):
            self.wait_says(n, ready=True, formed=True, phase="Running")
        self.a_leader_leaves()
        for n in (1, 2, 3):
            self.terminate("m%d" % n)

    def an_address_book_is_changed(self, document):
        """The next document says where somebody is who was not heard yet."""
        moved = json.loads(json.dumps(document))
        moved["members"][2]["address"] = ip(33)
        self.applied(self.members[1], moved)
        self.assertEqual([m["address"] for m in self.say(1)["members"]], [ip(n) + ":8100" for n in (1, 2, 33)])
        self.applied(self.members[1], document)
        self.assertEqual(self.say(1)["members"][2]["address"], ip(3) + ":8100")

    def a_leader_leaves(self):
        wait_for("a leader that hears all", lambda: any(self.say(n)["quorum"] == {"voters": 3, "needed": 2, "heard": 3} for n in self.members))
        self.lead(1)
        self.assertEqual(self.members[1].ask("leave"), {"v": 1, "ok": True, "draining": True})
        self.wait_says(1, role="Follower", ready=False, reason="Leaving")
        others = {n: wait_for("m%d knows a leader" % n, lambda: self.say(n)["leader"]["id"]) for n in (2, 3)}
        self.assertTrue(set(others.values()) <= {1, 2, 3})
        self.assertEqual([self.state_of(self.members[n])["draining"] for n in (1, 2, 3)], [True, False, False])
        self.assertIn("the leadership is handed over to member ", self.log_of("m1"))


class WithBoxAndAggregator(GroupBed):
    def test_a_group_that_sends_by_way_of_an_aggregator(self):
        document = self.apart(self.group(founders=(1, 2, 3), election=ELECTION), "HovercRaftPlusPlus")
        box, aggregator = self.begin("bobtail-box", "box", document), self.begin("bobtail-aggregator", "aggregator", document)
        self.assertEqual(self.asked(aggregator)["aggregator"], {"inUse": False, "leader": 0, "term": 0, "epoch": 0, "last": 0, "commit": 0})
        for n in (1, 2, 3):
            self.member(n, document)
        for n in (1, 2, 3):
            self.wait_says(n, ready=True)
        client = self.asker((ip(11), 8000))
        self.keys_and_values(client)
        self.members_and_aggregator_agree(aggregator)
        self.assertEqual(sum(self.counted(self.members[n])["replica_answers_total sent"] for n in (1, 2, 3)), client.number)
        self.a_program_beside_leaves(box, "box", "box")
        self.a_program_beside_leaves(aggregator, "aggregator", "aggregator")
        for n in (1, 2, 3):
            self.terminate("m%d" % n)

    def asked(self, control):
        reply = control.state()
        self.assertGreater(reply.pop("uptimeSeconds"), 0)
        return reply

    def keys_and_values(self, client):
        self.assertEqual(client.ask(op("P", b"b", b"2")), b"+")
        self.assertEqual(client.ask(op("P", b"a", b"1")), b"+")
        self.assertEqual(client.ask(op("A", b"a", b"0")), b"+")
        self.assertEqual(client.ask(op("C", b"a", b"\0\x0110")), b"-10")
        self.assertEqual(client.ask(op("C", b"a", b"\0\x02105")), b"+")
        self.assertEqual(client.ask(op("C", b"a", b"\0\x09short")), b"!")
        self.assertEqual(client.ask(op("D", b"none")), b"-")
        self.assertEqual(client.ask(op("X", b"a")), b"!")
        self.assertEqual(client.ask(op("G", b"a"), READ), b"+5")
        self.assertEqual(client.ask(op("L", b""), READ), b"+\0\0\0\2\1a\1b")
        self.assertEqual(client.ask(op("L", b"a", b"\0\1"), READ), b"+\0\0\0\2\1b")
        self.assertEqual(client.ask(op("D", b"b")), b"+")
        self.assertEqual(client.ask(op("G", b"b"), READ), b"-")

    def members_and_aggregator_agree(self, aggregator):
        """A group at rest: what each of them says fits what the others say."""
        def agreed():
            leads = [n for n in (1, 2, 3) if self.say(n)["aggregated"]]
            if len(leads) != 1:
                return None
            said, its = self.say(leads[0]), self.asked(aggregator)["aggregator"]
            counted = self.counted(aggregator)
            return self.fits(leads[0], said, its) and counted["aggregator_last_index"] == its["last"] and said

        said = wait_for("a leader, and an aggregator that says the same", agreed)
        self.assertEqual((said["role"], said["quorum"], said["leader"]), ("Leader", {"voters": 3, "needed": 2, "heard": 3}, leader(said["id"])))
        counted = self.counted(aggregator)
        self.assertEqual((counted["aggregator_term"], counted["aggregator_in_use"]), (said["term"], 1))
        self.assertEqual(counted["aggregator_commit_index"], said["commit"])
        self.assertEqual(self.counted(self.members[said["id"]])["replica_aggregated"], 1)
        for n in (1, 2, 3):
            self.wait_says(n, applied=said["applied"], commit=said["commit"], term=said["term"], leader=leader(said["id"]))

    def fits(self, n, said, its):
        all_there = said["quorum"]["heard"] == 3 and said["commit"] == said["applied"] == said["last"] == said["durable"]
        return all_there and its == {"inUse": True, "leader": n, "term": said["term"], "epoch": said["configurationIndex"],
                                     "last": said["last"], "commit": said["commit"]}

    def a_program_beside_leaves(self, control, name, role):
        hello = control.ask("hello")
        self.assertEqual((tuple(hello), hello["role"]), (HELLO, role))
        before = self.asked(control)
        self.assertEqual({k: before[k] for k in ("draining", "backlog", "workers", "routers")},
                         {"draining": False, "backlog": 0, "workers": [], "routers": []})
        counted = self.counted(control)
        self.assertGreater(counted["io_rx_packets_total"], 0)
        self.assertIn(role + "_buffers_in_use", counted)
        reply = control.ask("histogram", name="latency", windowSeconds=1)
        self.refused(reply, "UnknownHistogram", "name", 'must be one of none; got "latency"')
        self.assertEqual(control.ask("leave"), {"v": 1, "ok": True, "draining": True})
        self.assertEqual(self.asked(control)["draining"], True)
        self.terminate(name)


if __name__ == "__main__":
    unittest.main()
