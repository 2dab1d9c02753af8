// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const baseGroup = `
apiVersion: bobtail.dev/v1alpha1
kind: ReplicationGroup
metadata: {name: orders}
spec:
  server: {image: "registry.example/kv:1"}
  storage: {sizeMebibytes: 1024}
`

// Every CEL rule of ReplicationGroup on both sides, and bounds.
var groupAdmission = []admission{
	{"the least", `{}`, ""},
	{"name of 40", `{metadata: {name: ` + strings.Repeat("a", 40) + `}}`, ""},
	{"name of 41", `{metadata: {name: ` + strings.Repeat("a", 41) + `}}`, "`metadata.name` must be no longer than 40"},
	{"name with a dot", `{metadata: {name: a.b}}`, "`metadata.name` must be a DNS label"},
	{"restored", `{spec: {restore: {claimName: backups}}}`, ""},
	{"restored from a path", `{spec: {restore: {claimName: backups, path: orders/2026-11-26}}}`, ""},
	{"restored from nothing", `{spec: {restore: {path: data}}}`, "spec.restore.claimName"},
	{"restored from outside", `{spec: {restore: {claimName: backups, path: ../other}}}`, "`path` must be a path below the top of the volume"},
	{"restored from the top of the machine", `{spec: {restore: {claimName: backups, path: /etc}}}`, "`path` must be a path below the top of the volume"},
	{"restored into memory", `{spec: {restore: {claimName: backups}, storage: {policy: Volatile, sizeMebibytes: null}}}`, "`restore` may not be specified with `storage.policy` Volatile"},
	{"9 members", `{spec: {members: 9}}`, ""},
	{"4 members", `{spec: {members: 4}}`, "`members` must be odd"},
	{"8 members", `{spec: {members: 8}}`, "`members` must be odd"},
	{"1 member", `{spec: {members: 1}}`, "spec.members"},
	{"11 members", `{spec: {members: 11}}`, "spec.members"},
	{"HovercRaft", `{spec: {protocol: HovercRaft}}`, ""},
	{"HovercRaft++", `{spec: {protocol: HovercRaftPlusPlus}}`, ""},
	{"repliers", `{spec: {protocol: HovercRaft, repliers: {policy: Random, bound: 4096}}}`, ""},
	{"repliers of HovercRaft++", `{spec: {protocol: HovercRaftPlusPlus, repliers: {}}}`, ""},
	{"repliers of Raft", `{spec: {repliers: {}}}`, "`repliers` may not be specified with `protocol` Raft"},
	{"unknown repliers", `{spec: {protocol: HovercRaft, repliers: {policy: Any}}}`, "spec.repliers.policy"},
	{"repliers without a bound", `{spec: {protocol: HovercRaft, repliers: {bound: 0}}}`, "spec.repliers.bound"},
	{"repliers with a high bound", `{spec: {protocol: HovercRaft, repliers: {bound: 4097}}}`, "spec.repliers.bound"},
	{"sessions", `{spec: {sessions: {}}}`, ""},
	{"one session", `{spec: {sessions: {limit: 1}}}`, ""},
	{"1024 sessions", `{spec: {sessions: {limit: 1024}}}`, ""},
	{"no session", `{spec: {sessions: {limit: 0}}}`, "spec.sessions.limit"},
	{"1025 sessions", `{spec: {sessions: {limit: 1025}}}`, "spec.sessions.limit"},
	{"Paxos", `{spec: {protocol: Paxos}}`, "spec.protocol"},
	{"volatile", `{spec: {storage: {policy: Volatile, sizeMebibytes: null}}}`, ""},
	{"volatile with a size", `{spec: {storage: {policy: Volatile}}}`, "`sizeMebibytes` must be given with `policy` Always, and only with it"},
	{"always without a size", `{spec: {storage: {policy: Always, sizeMebibytes: null}}}`, "`sizeMebibytes` must be given with `policy` Always, and only with it"},
	{"volatile with a class", `{spec: {storage: {policy: Volatile, sizeMebibytes: null, storageClassName: fast}}}`, "`storageClassName` may not be specified with `policy` Volatile"},
	{"a class", `{spec: {storage: {storageClassName: fast}}}`, ""},
	{"unknown policy", `{spec: {storage: {policy: Sometimes}}}`, "spec.storage.policy"},
	{"a small disk", `{spec: {storage: {sizeMebibytes: 255}}}`, "spec.storage.sizeMebibytes"},
	{"no storage", `{spec: {storage: null}}`, "spec.storage"},
	{"1 in flight", `{spec: {inFlightLimit: 1}}`, ""},
	{"none in flight", `{spec: {inFlightLimit: 0}}`, "spec.inFlightLimit"},
	{"4097 in flight", `{spec: {inFlightLimit: 4097}}`, "spec.inFlightLimit"},
	{"no image", `{spec: {server: {image: ""}}}`, "spec.server.image"},
	{"a variable that is taken", `{spec: {server: {env: [{name: BOBTAIL_DATA, value: x}]}}}`, "`name` must not be POD_IP"},
	{"an aggregator of Raft", `{spec: {aggregator: {}}}`, "`aggregator` needs `protocol` HovercRaftPlusPlus"},
	{"an aggregator of HovercRaft", `{spec: {protocol: HovercRaft, aggregator: {}}}`, "`aggregator` needs `protocol` HovercRaftPlusPlus"},
	{"an aggregator in a pod", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {}}}`, ""},
	{"a switch as aggregator", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`, ""},
	{"a switch that is not named", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch}}}`, "`switch` must be given when `placement` is Switch, and only then"},
	{"a switch for a pod", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`, "`switch` must be given when `placement` is Switch, and only then"},
	{"a switch that checks tags", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: Tagged}}}}`, "switch.messages"},
	{"a switch by which nobody said what is believed", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch, switch: {name: leaf, address: 192.0.2.1}}}}`, "switch.messages"},
	{"a switch by IPv6", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Switch, switch: {name: leaf, address: "fd00:0:0::1", messages: BySource}}}}`, "switch.address"},
	{"a box of Raft", `{spec: {box: {}}}`, "`box` may not be specified with `protocol` Raft"},
	{"a box in a pod", `{spec: {protocol: HovercRaft, box: {}}}`, ""},
	{"a switch as box", `{spec: {protocol: HovercRaft, box: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`, ""},
	{"a box on a switch that is not named", `{spec: {protocol: HovercRaft, box: {placement: Switch}}}`, "`switch` must be given when `placement` is Switch, and only then"},
	{"one switch for both", `{spec: {protocol: HovercRaftPlusPlus, box: {placement: Switch, switch: {name: leaf, address: 192.0.2.2, messages: BySource}}, aggregator: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`, "a switch runs one program"},
	{"a switch for each", `{spec: {protocol: HovercRaftPlusPlus, box: {placement: Switch, switch: {name: spine, address: 192.0.2.2, messages: BySource}}, aggregator: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`, ""},
	{"an aggregator on a node", `{spec: {protocol: HovercRaftPlusPlus, aggregator: {placement: Node}}}`, "aggregator.placement"},
}

// Who answers is for the life of a group.
func TestAdmissionOfBoxChanges(t *testing.T) {
	o := parse(t, baseGroup)
	o.SetNamespace(namespace(t))
	merge(o.Object, parse(t, `{spec: {protocol: HovercRaft, box: {placement: Switch, switch: {name: leaf, address: 192.0.2.1, messages: BySource}}}}`).Object)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for _, row := range []admission{
		{"members", `{spec: {members: 5}}`, ""},
		{"another address", `{spec: {box: {switch: {address: 192.0.2.2}}}}`, "`box` cannot be changed"},
		{"a pod", `{spec: {box: {placement: Software, switch: null}}}`, "`box` cannot be changed"},
		{"none", `{spec: {box: null}}`, "`box` cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := parse(t, baseGroup)
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), changed); err != nil {
				t.Fatal(err)
			}
			merge(changed.Object, parse(t, row.change).Object)
			judge(t, direct.Update(context.Background(), changed, client.DryRunAll), row.message)
		})
	}
}

func TestAdmissionOfReplierChanges(t *testing.T) {
	ns := namespace(t)
	o := parse(t, baseGroup)
	o.SetNamespace(ns)
	merge(o.Object, parse(t, `{spec: {protocol: HovercRaft, repliers: {}}}`).Object)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	wantField(t, o, "repliers.policy", "JBSQ")
	wantField(t, o, "repliers.bound", int64(128))
	for _, row := range []admission{
		{"members", `{spec: {members: 5}}`, ""},
		{"policy", `{spec: {repliers: {policy: Random}}}`, "`repliers` cannot be changed"},
		{"bound", `{spec: {repliers: {bound: 8}}}`, "`repliers` cannot be changed"},
		{"none", `{spec: {repliers: null}}`, "`repliers` cannot be changed"},
		{"Raft", `{spec: {protocol: Raft, repliers: null}}`, "`protocol` cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := parse(t, baseGroup)
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), changed); err != nil {
				t.Fatal(err)
			}
			merge(changed.Object, parse(t, row.change).Object)
			judge(t, direct.Update(context.Background(), changed, client.DryRunAll), row.message)
		})
	}
}

// Which writer is forgotten follows from the limit: it is for the life of a group.
func TestAdmissionOfSessionChanges(t *testing.T) {
	ns := namespace(t)
	o := parse(t, baseGroup)
	o.SetNamespace(ns)
	merge(o.Object, parse(t, `{spec: {sessions: {}}}`).Object)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	wantField(t, o, "sessions.limit", int64(1024))
	for _, row := range []admission{
		{"members", `{spec: {members: 5}}`, ""},
		{"the same", `{spec: {sessions: {limit: 1024}}}`, ""},
		{"fewer", `{spec: {sessions: {limit: 1023}}}`, "`sessions` cannot be changed"},
		{"none", `{spec: {sessions: null}}`, "`sessions` cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := parse(t, baseGroup)
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), changed); err != nil {
				t.Fatal(err)
			}
			merge(changed.Object, parse(t, row.change).Object)
			judge(t, direct.Update(context.Background(), changed, client.DryRunAll), row.message)
		})
	}
}

// A group cannot become another one; its members, its image and its limit can change.
func TestAdmissionOfGroupChanges(t *testing.T) {
	ns := namespace(t)
	o := parse(t, baseGroup)
	o.SetNamespace(ns)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	wantField(t, o, "members", int64(3))
	wantField(t, o, "protocol", "Raft")
	wantField(t, o, "inFlightLimit", int64(1000))
	wantField(t, o, "storage.policy", "Always")
	for _, row := range []admission{
		{"members", `{spec: {members: 5}}`, ""},
		{"members to an even count", `{spec: {members: 6}}`, "`members` must be odd"},
		{"image", `{spec: {server: {image: other}}}`, ""},
		{"limit", `{spec: {inFlightLimit: 7}}`, ""},
		{"protocol", `{spec: {protocol: HovercRaft}}`, "`protocol` cannot be changed"},
		{"sessions", `{spec: {sessions: {limit: 1024}}}`, "`sessions` cannot be changed"},
		{"size", `{spec: {storage: {sizeMebibytes: 2048}}}`, "`storage` cannot be changed"},
		{"policy", `{spec: {storage: {policy: Volatile, sizeMebibytes: null}}}`, "`storage` cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := parse(t, baseGroup)
			if err := direct.Get(context.Background(), client.ObjectKeyFromObject(o), changed); err != nil {
				t.Fatal(err)
			}
			merge(changed.Object, parse(t, row.change).Object)
			judge(t, direct.Update(context.Background(), changed, client.DryRunAll), row.message)
		})
	}
}
