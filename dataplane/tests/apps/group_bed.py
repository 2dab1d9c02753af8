# SPDX-License-Identifier: Apache-2.0
"""A bed of replication groups: members with their documents, and a client that asks them by hand.

A group that one member founds has a leader for as long as that is its only voter, whatever the machine does meanwhile.
What is to be exact is told of such a group; members that only learn stand beside it.
"""
import hashlib
import json
import signal
import socket
import struct

from bed import Bed, ip, program, wait_for

CLUSTER = "00112233445566778899aabbccddeeff"
PATIENCE = 3.0  # seconds until a request is sent again, under its own number
READ, WRITE = 3, 2


def op(letter, key, rest=b""):
    """A request to the built-in service."""
    return letter.encode() + bytes([len(key)]) + key + rest


class Asker:
    """A client of one socket, without sessions: one request at a time, each a packet."""

    def __init__(self, to):
        self.to = to
        self.number = 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((ip(250), 0))
        self.sock.settimeout(PATIENCE)

    def send(self, body, policy=WRITE):
        # First and last packet of its message, and its sender understands extensions: who has it already says so again.
        self.sock.sendto(struct.pack(">BBBBHH", 0xcc, 8, policy, 0xe0, self.number, 1) + body, self.to)

    def receive(self):
        """(kind, body) of what answers the present request; None: nothing did."""
        try:
            while True:
                p = self.sock.recv(65536)
                if len(p) >= 8 and struct.unpack(">H", p[4:6])[0] == self.number:
                    return p[2] >> 4, p[p[1]:]
        except TimeoutError:
            return None

    def ask(self, body, policy=WRITE):
        """The reply, however long it takes."""
        self.number += 1

        def answered():
            self.send(body, policy)
            got = self.receive()
            return got if got and got[0] == 1 else None

        return wait_for("a reply", answered)[1]

    def close(self):
        self.sock.close()


def leader(n):
    return {"id": n, "name": "m%d" % n, "clientAddress": ip(n) + ":8000"}


def peer(n, role, match, lag=0, **other):
    """A member of whom it is known what it has."""
    return {"id": n, "name": "m%d" % n, "role": role, "registered": True, "address": ip(n) + ":8100", "clientAddress": ip(n) + ":8000",
            "match": match, "applied": match, "lag": lag, **other}


def unknown(n, role, **other):
    return peer(n, role, -1, -1, heardMillisecondsAgo=-1, **other)


class GroupBed(Bed):
    def setUp(self):
        super().setUp()
        self.askers = []
        self.members = {}

    def tearDown(self):
        for a in self.askers:
            a.close()
        for p in self.processes.values():
            if p.poll() is None:
                p.send_signal(signal.SIGCONT)
        super().tearDown()

    def group(self, founders=(1,), members=(1, 2, 3), election=300, **fields):
        """A document whose members have these numbers as ids, and m1, m2, … as names."""
        return {"apiVersion": "dataplane.bobtail.dev/v1", "kind": "ReplicationGroup", "sources": [],
                "group": {"name": "orders", "namespace": "test", "cluster": CLUSTER, "number": 7, "storage": "Volatile",
                          "deviceProfile": "Kernel", "electionMilliseconds": election, "heartbeatMilliseconds": election // 10,
                          "logEntries": 1024, "snapshotEntries": 256, "maxSnapshotBytes": 65536, "inFlightLimit": 100, **fields},
                "initialMembers": ["m%d" % n for n in founders], "keyIds": [1],
                "members": [{"name": "m%d" % n, "id": n, "address": ip(n), "memberPort": 8100, "clientPort": 8000} for n in members]}

    def apart(self, document, protocol="HovercRaft"):
        """The same with a box, and with an aggregator where its protocol has one."""
        document["group"]["protocol"] = protocol
        document["boxes"] = [{"name": "box", "address": ip(11), "clientPort": 8000, "feedbackPort": 8001}]
        if protocol == "HovercRaftPlusPlus":
            document["aggregator"] = {"name": "aggregator", "address": ip(12), "port": 8200}
        return document

    def command(self, kind, name, *options):
        data = ["--data=" + self.path("disk-" + name)] if kind == "bobtail-replica" else []
        return [program(kind), "--name=" + name, *data, "--key-dir=" + self.path("keys"), "--ctl=" + self.path(name + ".sock"), *options]

    def begin(self, kind, name, document, *options):
        """A program that has its document; or waits for one, where that is None."""
        config = ["--config=" + self.write_document(document, name + ".json")] if document else []
        self.start(name, self.command(kind, name, *config, *options))
        return self.ctl(name)

    def member(self, n, document, *options):
        self.members[n] = self.begin("bobtail-replica", "m%d" % n, document, *options)
        return self.members[n]

    def asker(self, to):
        self.askers.append(Asker(to))
        return self.askers[-1]

    def client(self, n):
        return self.asker((ip(n), 8000))

    def say(self, n):
        """What a member says of its group, without what each answer has of its own."""
        reply = self.members[n].ask("group")
        self.assertGreater(reply.pop("uptimeSeconds"), 0)
        self.assertEqual((reply.pop("v"), reply.pop("ok")), (1, True))
        return reply

    def wait_says(self, n, **fields):
        """Until a member says these; all that it says then. A field in a field is named with two underscores."""
        def those():
            said = self.say(n)
            return said if all(at(said, f) == v for f, v in fields.items()) else None

        return wait_for("m%d says %s" % (n, fields), those)

    def counted(self, control):
        """{name and labels: value} of all that a program counts."""
        reply = control.ask("counters")
        return {" ".join([x["name"], *x["labels"].values()]): x["value"] for x in reply["counters"] + reply["gauges"]}

    def refused(self, reply, code, field, message):
        self.assertEqual(reply, {"v": 1, "ok": False, "error": {"code": code, "field": field, "message": message}})

    def refuses(self, n, code, field, message, order, **fields):
        self.refused(self.members[n].ask(order, **fields), code, field, message)

    def orders(self, n, order, **fields):
        """What a member answers to an order it takes."""
        reply = self.members[n].ask(order, **fields)
        self.assertTrue(reply["ok"], reply)
        del reply["v"], reply["ok"]
        return reply

    def at_once(self, n, *requests):
        """Answers to requests that are all sent before the first one is read."""
        sock = self.members[n].sock
        for order, fields in requests:
            sock.send(json.dumps({"v": 1, "op": order, **fields}).encode())
        return [json.loads(sock.recv(1 << 20)) for _ in requests]

    def applied(self, control, document, unchanged=False):
        text = json.dumps(document).encode()
        self.assertEqual(control.apply(text), {"v": 1, "ok": True, "hash": digest(document), "unchanged": unchanged})

    def pause(self, n):
        """Stops a member where it stands; it has stopped when this returns."""
        p = self.processes["m%d" % n]
        p.send_signal(signal.SIGSTOP)
        wait_for("m%d stands still" % n, lambda: state_of(p.pid) == "T")

    def resume(self, n):
        self.processes["m%d" % n].send_signal(signal.SIGCONT)

    def lead(self, n):
        """Until this member leads: whoever does is asked to hand over."""
        def leads():
            if self.say(n)["role"] == "Leader":
                return True
            for k in self.members:
                if k != n and self.say(k).get("role") == "Leader":
                    self.members[k].ask("transfer", id=n)
            return False

        wait_for("m%d leads" % n, leads)

    def running(self, n, index, said):
        """What a healthy member of this bed says where everything stands at one index, but for who and how."""
        return {"hash": said["hash"], "phase": "Running", "ready": True, "reason": "", "message": "", "name": "m%d" % n, "id": n,
                "cluster": CLUSTER, "number": 7, "disk": {"id": said["disk"]["id"], "policy": "Volatile", "state": "Healthy", "message": ""},
                "term": said["term"], "aggregated": False, "commit": index, "applied": index, "first": 1, "last": index, "durable": index,
                "snapshot": {"index": 0, "bytes": 0}, "configurationIndex": 0, "changePending": False, "statesUndecided": 0, "formed": True,
                "removed": []}

    def take(self, said, *heard):
        """Takes out when each of these members was heard, in milliseconds."""
        return [next(m for m in said["members"] if m["id"] == n).pop("heardMillisecondsAgo") for n in heard]

    def founded(self, election=300, *options, **fields):
        """A group of m1 alone. Its log: that it leads, whose its disk is, that the group is formed."""
        control = self.member(1, self.group(election=election, **fields), *options)
        said = self.wait_says(1, ready=True, applied=3)
        return control, said

    def histogram_of(self, control, name="latency"):
        reply = control.ask("histogram", name=name, windowSeconds=600)
        reply["histogram"].pop("buckets")
        self.assertGreater(reply.pop("second"), 0)
        self.assertGreaterEqual(reply.pop("coveredSeconds"), 1)
        return reply

    def state_of(self, control):
        reply = control.state()
        self.assertGreater(reply.pop("uptimeSeconds"), 0)
        return reply

    def new(self, n, **other):
        return {"id": n, "name": "m%d" % n, "address": ip(n), "memberPort": 8100, "clientPort": 8000, **other}

    def log_of(self, name):
        with open(self.path(name + ".log")) as f:
            return f.read()

    def newcomers_that_are_refused(self):
        name, longest = "must be a name of 1..63 bytes", "n" * 63
        self.refuses(1, "InvalidRequest", "name", name, "add", **self.new(2, name="", address="x"))
        self.refuses(1, "InvalidRequest", "name", name, "add", **self.new(2, name=longest + "n", address="x"))
        self.refuses(1, "InvalidRequest", "name", name, "add", id=2)
        for bad in ("", "x", "127.0.0.1:1", "[::1]", "0.0.0.0", "::", "224.0.0.1", "::1]:1"):
            self.refuses(1, "InvalidRequest", "address", 'must be an IP address; got "%s"' % bad, "add",
                         **self.new(2, address=bad, name=longest, memberPort=0))
        for field in ("memberPort", "clientPort"):
            for bad in (0, -1, 65536):
                self.refuses(1, "InvalidRequest", field, "must be 1..65535; got %d" % bad, "add", **self.new(2, **{field: bad}))
        self.refuses(1, "InvalidRequest", "memberPort", "must be 1..65535; got 0", "add", id=2, name="m2", address=ip(2))
        self.refuses(1, "Already", "", "is so already", "add", **self.new(1))

    def a_stranger_is_added(self):
        """Somebody of whom only the order tells; and who is taken out again, for good."""
        name = "n" * 63
        self.assertEqual(self.orders(1, "add", id=65534, name=name, address="fd00::9", memberPort=1, clientPort=65535), {"index": 4})
        said = self.wait_says(1, applied=5, configurationIndex=4)  # and where it is
        self.take(said, 65534)
        self.assertEqual(said["members"], [peer(1, "Voter", 5, heardMillisecondsAgo=0),
                                           {"id": 65534, "name": name, "role": "Learner", "registered": False, "address": "[fd00::9]:1",
                                            "clientAddress": "[fd00::9]:65535", "match": 0, "applied": 0, "lag": 5}])
        self.assertEqual((said["quorum"], said["changePending"]), ({"voters": 1, "needed": 1, "heard": 1}, False))
        self.refuses(1, "Already", "", "is so already", "add", **self.new(65534, address=ip(2)))
        self.refuses(1, "Behind", "", "has not caught up", "promote", id=65534)
        self.assertEqual(self.orders(1, "remove", id=65534), {"index": 6})
        said = self.wait_says(1, applied=6, configurationIndex=6)
        self.assertEqual((said["removed"], len(said["members"])), ([65534], 1))
        self.refuses(1, "NoMember", "", "no such member", "add", **self.new(65534, address=ip(2)))
        return 6


def at(said, field):
    for part in field.split("__"):
        said = said.get(part, {})
    return said


def digest(document):
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def state_of(pid):
    """As the kernel writes it; every thread of a stopped process has stopped."""
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0]
