// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// member is a control socket that answers as a member of a group does.
type member struct {
	mu   sync.Mutex
	took []dataplane.GroupChange
}

func (m *member) listen(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unixpacket", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
}

func (m *member) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		var q dataplane.GroupChange
		_ = json.Unmarshal(buf[:n], &q)
		if _, err := c.Write([]byte(m.answer(q))); err != nil {
			return
		}
	}
}

func (m *member) answer(q dataplane.GroupChange) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch q.Op {
	case "hello":
		return `{"v":1,"ok":true,"role":"member","version":"t","incarnation":1,"pid":1}`
	case "state":
		return `{"v":1,"ok":true,"hash":"h"}`
	case "group":
		return `{"v":1,"ok":true,"hash":"h","phase":"Running","ready":true,"name":"m-0-00","id":1,"cluster":"c","disk":{"id":"d","policy":"Always","state":"Healthy","message":""},
			"role":"Leader","term":4,"leader":{"id":1,"name":"m-0-00","clientAddress":"x"},"commit":120,"applied":120,"last":121,"durable":121,"configurationIndex":3,
			"formed":true,"quorum":{"voters":3,"needed":2,"heard":3},"members":[{"id":2,"name":"m-1-00","role":"Voter","registered":true,"match":100,"lag":21,"heardMillisecondsAgo":3}],"removed":[]}`
	case "promote":
		return `{"v":1,"ok":false,"error":{"code":"Behind","field":"id","message":"member 4 has 300 entries to get"}}`
	}
	if q.Op != "add" && q.Op != "remove" {
		return `{"v":1,"ok":false,"error":{"code":"UnknownOperation","field":"op","message":"none of a member's"}}`
	}
	m.took = append(m.took, q)
	return `{"v":1,"ok":true,"index":131}`
}

// G-3, G-7: the operator reads a group and commands it through the sidecar; nobody else
// does, and not on the port of the metrics.
func TestGroupThroughTheSidecar(t *testing.T) {
	m := &member{}
	socket := filepath.Join(t.TempDir(), "ctl.sock")
	m.listen(t, socket)
	r := startAt(t, socket)
	operator := r.ca.client(t, dataplane.OperatorCommonName)

	g, err := operator.Group(t.Context(), r.read)
	if err != nil {
		t.Fatal(err)
	}
	if g.Name != "m-0-00" || g.Role != dataplane.RoleLeader || g.Term != 4 || !g.Formed || g.Quorum.Needed != 2 || g.Members[0].Lag != 21 || g.Disk.State != "Healthy" {
		t.Errorf("group %+v", g)
	}
	add := dataplane.GroupChange{Op: dataplane.OpAdd, ID: 4, Name: "m-3-00", Address: "10.0.0.4", MemberPort: 8100, ClientPort: 8000}
	done, err := operator.Change(t.Context(), r.read, add)
	if err != nil || done.Index != 131 {
		t.Errorf("%v %+v", err, done)
	}
	add.V = 1
	m.mu.Lock()
	if len(m.took) != 1 || m.took[0] != add {
		t.Errorf("the member got %+v", m.took)
	}
	m.mu.Unlock()

	var refused *dataplane.ReadError
	if _, err = operator.Change(t.Context(), r.read, dataplane.GroupChange{Op: dataplane.OpPromote, ID: 4}); !errors.As(err, &refused) || refused.Refusal == nil || refused.Refusal.Code != "Behind" {
		t.Errorf("a refusal came as %v", err)
	}
	if _, err = operator.Change(t.Context(), r.read, dataplane.GroupChange{Op: "leave", ID: 4}); !errors.As(err, &refused) || refused.Refusal == nil || refused.Refusal.Field != "op" {
		t.Errorf("another operation came as %v", err)
	}
	other := r.ca.client(t, "somebody")
	if _, err := other.Change(t.Context(), r.read, add); err == nil {
		t.Error("a certificate of another name may command a group")
	}
	for _, path := range []string{dataplane.GroupPath} {
		resp, err := http.Post(r.metrics+path, "application/json", strings.NewReader(`{"op":"remove","id":1}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("the port of the metrics answers %s with %d", path, resp.StatusCode)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.took) != 1 {
		t.Errorf("the member got %+v", m.took)
	}
}

// G-2: a disk gets a name once; another disk of the same pod gets another one.
func TestDisksAreNamed(t *testing.T) {
	name := func(dir string) string {
		t.Helper()
		file := filepath.Join(dir, "name")
		if code := Main(t.Context(), []string{"--name-file=" + file, "--member=orders-member-2"}, io.Discard, io.Discard); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one, two := t.TempDir(), t.TempDir()
	first := name(one)
	if !regexp.MustCompile(`^orders-member-2-[0-9a-f]{10}$`).MatchString(first) {
		t.Errorf("name %q", first)
	}
	if again := name(one); again != first {
		t.Errorf("the disk was renamed from %q to %q", first, again)
	}
	if other := name(two); other == first {
		t.Errorf("two disks are called %q", other)
	}
	if left, _ := filepath.Glob(filepath.Join(one, "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	// What was half written when the machine stopped is not a name.
	three := t.TempDir()
	write(t, filepath.Join(three, "name.part"), []byte("orders-mem"))
	if got := name(three); !strings.HasPrefix(got, "orders-member-2-") || len(got) != 26 {
		t.Errorf("name %q", got)
	}
	for args, code := range map[string]int{"--name-file=/nowhere/name --member=x": 1, "--name-file=" + one + "/n": 2, "--name-file=" + one + "/n --member=X": 2, "--name-file=" + one + "/n --member=" + strings.Repeat("a", 53): 2} {
		if got := Main(t.Context(), strings.Fields(args), io.Discard, io.Discard); got != code {
			t.Errorf("%s: exit code %d, want %d", args, got, code)
		}
	}
}
