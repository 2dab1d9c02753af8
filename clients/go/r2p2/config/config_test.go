// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const good = `{"apiVersion":"dataplane.bobtail.dev/v1","sources":[{"kind":"RpcService","namespace":"demo","name":"echo","uid":"u","generation":3}],` +
	`"service":{"name":"echo","namespace":"demo","placement":"Software","policy":"JBSQ","workerQueueDepth":3,"centralQueueLimit":65536,` +
	`"maxQueueMilliseconds":1000,"forwarding":"Encapsulated","deviceProfile":"Kernel","legacyPeers":"Deny","requestTimeoutMilliseconds":10000,` +
	`"workersPerReplica":4,"holdBack":{"packets":0,"microseconds":0}},` +
	`"members":[{"address":"10.244.0.7","firstPort":8000,"workers":4,"name":"echo-server-abc"}],` +
	`"routers":[{"address":"10.244.1.9","requestPort":8000,"feedbackPort":9000,"name":"echo-router-0"}],"keyIds":[1]}`

func TestCanonicalIsAFixedPoint(t *testing.T) {
	d, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != good {
		t.Errorf("canonical text\n%s\nwant\n%s", text, good)
	}
	if h := Hash(text); len(h) != 64 || h != Hash([]byte(good)) || h != strings.ToLower(h) {
		t.Errorf("hash %q", h)
	}
}

// Two operators that list the same pods in another order must render the same
// hash, or every reconcile would re-configure the dataplane.
func TestCanonicalIgnoresOrder(t *testing.T) {
	d, _ := Parse([]byte(good))
	d.Members = []Member{{"10.0.0.2", 8000, 1, "b"}, {"10.0.0.1", 8001, 1, "a"}, {"10.0.0.1", 8000, 1, "a"}}
	d.Routers = []Router{{"10.0.0.9", 8000, 9000, "r1"}, {"10.0.0.8", 8000, 9000, "r0"}}
	one, _ := d.Canonical()
	if d.Members[0].Name != "b" {
		t.Fatal("Canonical sorted the caller's own list")
	}
	d.Members = []Member{d.Members[2], d.Members[0], d.Members[1]}
	d.Routers = []Router{d.Routers[1], d.Routers[0]}
	two, _ := d.Canonical()
	if string(one) != string(two) {
		t.Errorf("order changes the text:\n%s\n%s", one, two)
	}
	// The first key signs: this order means something.
	d.KeyIDs = []int{2, 1}
	if three, _ := d.Canonical(); !strings.Contains(string(three), `"keyIds":[2,1]`) {
		t.Errorf("the order of keys is lost: %s", three)
	}
	d.Members, d.Routers, d.KeyIDs, d.Sources = nil, nil, nil, nil
	empty, _ := d.Canonical()
	if strings.Contains(string(empty), "null") {
		t.Errorf("absent lists must render as []: %s", empty)
	}
}

// Admission is left out when there is none, so that dataplanes that predate it
// take every document that does not need it.
func TestAdmissionIsOptional(t *testing.T) {
	d, _ := Parse([]byte(good))
	if d.Service.Admission != nil {
		t.Fatal("admission out of nothing")
	}
	d.Service.Admission = &Admission{"Reject", "Track", 300, 99000, []int{4, 0}}
	text, err := d.Canonical()
	if err != nil || !strings.Contains(string(text), `"droppableClasses":[0,4]`) {
		t.Fatalf("%s, %v", text, err)
	}
	again, err := Parse(text)
	if err != nil || again.Service.Admission.LatencyMicroseconds != 300 {
		t.Fatalf("%+v, %v", again, err)
	}
}

func TestParseNamesTheFieldAtFault(t *testing.T) {
	for _, c := range []struct{ old, new, field, says string }{
		{`"workerQueueDepth":3`, `"workerQueueDepth":0`, "service.workerQueueDepth", "must be 1..64; got 0"},
		{`"workerQueueDepth":3`, `"workerQueueDepth":65`, "service.workerQueueDepth", "got 65"},
		{`"workerQueueDepth":3`, `"workerQueueDepth":1.5`, "service.workerQueueDepth", "integer"},
		{`"workerQueueDepth":3`, `"workerQueueDepth":"3"`, "service.workerQueueDepth", "got a string"},
		{`"workerQueueDepth":3`, `"workerQueueDepth":99999999999999999999`, "service.workerQueueDepth", "integer"},
		{`"workerQueueDepth":3,`, ``, "service.workerQueueDepth", "required"},
		{`"workerQueueDepth":3`, `"workerQueueDepth":3,"workerQueueDepth":3`, "service.workerQueueDepth", "twice"},
		{`"workerQueueDepth":3`, `"WorkerQueueDepth":3`, "service.WorkerQueueDepth", "unknown"},
		{`"policy":"JBSQ"`, `"policy":"jbsq"`, "service.policy", "JBSQ, JSQ"},
		{`"policy":"JBSQ"`, `"policy":null`, "service.policy", "got null"},
		{`"packets":0`, `"packets":-1`, "service.holdBack.packets", "must be 0"},
		{`"centralQueueLimit":65536`, `"centralQueueLimit":1048577`, "service.centralQueueLimit", "1048576"},
		{`"maxQueueMilliseconds":1000`, `"maxQueueMilliseconds":600001`, "service.maxQueueMilliseconds", "600000"},
		{`"requestTimeoutMilliseconds":10000`, `"requestTimeoutMilliseconds":0`, "service.requestTimeoutMilliseconds", "got 0"},
		{`"firstPort":8000`, `"firstPort":0`, "members[0].firstPort", "65535"},
		{`"firstPort":8000`, `"firstPort":65534`, "members[0].workers", "ports 65534..65537 pass 65535"},
		{`"echo-server-abc"`, `"` + strings.Repeat("a", maxText+1) + `"`, "members[0].name", "at most 253 bytes; got 254"},
		{`"echo-server-abc"`, `"\u0000a"`, "members[0].name", "zero byte"},
		{`"keyIds":[1]`, `"keyIds":[1` + strings.Repeat(",1", MaxWorkers) + `]`, "keyIds", "at most 1024 entries"},
		{`"keyIds":[1]`, `"keyIds":[1` + strings.Repeat(",1", MaxWorkers-1) + `]`, "keyIds", "at most 2 entries; got 1024"},
		{`"10.244.0.7"`, `"echo"`, "members[0].address", "IP address"},
		{`"10.244.0.7"`, `"224.0.0.1"`, "members[0].address", "unicast"},
		{`"name":"echo-server-abc"`, `"name":"echo-server-abc","zone":"x"`, "members[0].zone", "unknown"},
		{`"name":"echo-server-abc"}`, `"name":"a"},{"address":"::ffff:10.244.0.7","firstPort":8003,"workers":1,"name":"b"}`, "members[1]", "members[0]"},
		{`"feedbackPort":9000`, `"feedbackPort":8000`, "routers[0].feedbackPort", "differ"},
		{`"keyIds":[1]`, `"keyIds":[256]`, "keyIds[0]", "1..255"},
		{`"keyIds":[1]`, `"keyIds":[1,1]`, "keyIds[1]", "twice"},
		{`"keyIds":[1]`, `"keyIds":[1,2,3]`, "keyIds", "at most 2"},
		{`"keyIds":[1]`, `"keyIds":{}`, "keyIds", "must be a list"},
		{`"dataplane.bobtail.dev/v1"`, `"v2"`, "apiVersion", "v2"},
		{`"keyIds":[1]}`, `"keyIds":[1]`, "", "ends early"},
		{`"keyIds":[1]}`, `"keyIds":[1]}{}`, "", "must end"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("nothing replaced: %s", c.old)
		}
		_, err := Parse([]byte(text))
		var f *FieldError
		if !errors.As(err, &f) || f.Field != c.field || !strings.Contains(f.Message, c.says) || f.Code != CodeInvalid {
			t.Errorf("%s → %s: error %v, want field %q saying %q", c.old, c.new, err, c.field, c.says)
		}
	}
}

// An error says where it is, and of a text that is no document only what is wrong.
func TestErrorsNameTheirField(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[]`, "must be an object; got a list"}, {strings.Replace(good, `"keyIds":[1]`, `"keyIds":[0]`, 1), "keyIds[0]: must be 1..255; got 0"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := Parse([]byte(strings.Replace(good, "echo-server-abc", strings.Repeat("a", maxText), 1))); err != nil {
		t.Errorf("the longest name there may be: %v", err)
	}
}

func TestWorkersInAllAreBounded(t *testing.T) {
	d, _ := Parse([]byte(good))
	d.Members = nil
	for i := range 17 {
		d.Members = append(d.Members, Member{"10.0.0.1", 1000 + 64*i, 64, "m"})
	}
	var f *FieldError
	if err := d.Validate(); !errors.As(err, &f) || f.Field != "members" {
		t.Errorf("1088 workers: %v", err)
	}
	d.Members = d.Members[:16]
	if err := d.Validate(); err != nil {
		t.Errorf("1024 workers: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"apiVersion":1}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Message == "" {
				t.Fatalf("error without a message: %#v", err)
			}
			return
		}
		one, err := d.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(one)
		if err != nil {
			t.Fatalf("canonical text is refused: %v", err)
		}
		two, _ := again.Canonical()
		if string(one) != string(two) || !json.Valid(one) {
			t.Fatalf("not a fixed point:\n%s\n%s", one, two)
		}
	})
}
