// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connectivity

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func started(t *testing.T, node string, address string) *Serving {
	t.Helper()
	s, err := Server{Node: node, Addresses: []netip.Addr{netip.MustParseAddr(address)}, Workers: 2}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Each way of each family says who answered, and one that leads nowhere says so.
func TestPathsThatLeadSomewhereAndNowhere(t *testing.T) {
	four, six := started(t, "node-a", "127.0.0.1"), started(t, "node-b", "::1")
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := nobody.Addr().String()
	_ = nobody.Close()
	tcp := func(s *Serving, host string) string {
		return net.JoinHostPort(host, fmt.Sprint(s.TCP.(*net.TCPAddr).Port))
	}
	for _, c := range []struct {
		Path
		node string
		says string
	}{
		{Path{R2P2, four.R2P2[0].String(), 8}, "node-a", ""},
		{Path{R2P2, six.R2P2[0].String(), 8}, "node-b", ""},
		{Path{TCP, tcp(four, "127.0.0.1"), 8}, "node-a", ""},
		{Path{TCP, tcp(six, "::1"), 8}, "node-b", ""},
		{Path{TCP, closed, 2}, "", "refused"},
		{Path{"UDP", closed, 2}, "", `kind must be R2P2 or TCP; got "UDP"`},
	} {
		got := Try(t.Context(), []Path{c.Path})[0]
		if c.says != "" {
			if got.Answered != 0 || !strings.Contains(got.Error, c.says) {
				t.Errorf("%+v: %+v", c.Path, got)
			}
			continue
		}
		if got.Answered != c.Tries || got.Nodes[c.node] != c.Tries || got.Error != "" {
			t.Errorf("%+v: %+v", c.Path, got)
		}
	}
}

// The program leaves its results where Kubernetes finds them, and says what is wrong
// with its arguments.
func TestTheProgramLeavesItsResults(t *testing.T) {
	s, message := started(t, "node-a", "127.0.0.1"), filepath.Join(t.TempDir(), "message")
	var out, errs bytes.Buffer
	paths := fmt.Sprintf(`[{"kind":"R2P2","target":%q,"tries":3}]`, s.R2P2[0])
	if code := Main(t.Context(), []string{"try", "--paths=" + paths, "--message=" + message}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	text, err := os.ReadFile(message)
	if err != nil || strings.TrimSpace(out.String()) != string(text) {
		t.Fatalf("%v, %q and %q", err, text, out.String())
	}
	if got, err := Unmarshal(string(text), 1); err != nil || got[0].Answered != 3 || got[0].Nodes["node-a"] != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for args, want := range map[string]string{"": "usage", "look": "usage", "try --paths=x": "--paths", "serve": "--addresses", "serve --addresses=here": "--addresses"} {
		errs.Reset()
		ended, end := context.WithCancel(t.Context())
		end()
		if code := Main(ended, strings.Fields(args), &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d, %s", args, code, errs.String())
		}
	}
}

// A message holds what it can; the words of errors are the first to go.
func TestMessagesFit(t *testing.T) {
	many := make([]Result, 60)
	for i := range many {
		many[i].Error = strings.Repeat("x", longestError)
	}
	if text, err := Marshal(many); err != nil || len(text) > longestMessage || strings.Contains(string(text), "xx") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := Marshal(make([]Result, 600)); err == nil || !strings.Contains(err.Error(), "600 paths") {
		t.Error(err)
	}
	for text, want := range map[string]string{"": "no results", "OOMKilled": `"OOMKilled"`, `[{"a":1}]`: "1 results, want 2"} {
		if _, err := Unmarshal(text, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A message may be as long as Kubernetes keeps one, and not a byte longer.
func TestMessagesToTheByte(t *testing.T) {
	bare := func(n int) []Result { return []Result{{Nodes: map[string]int{strings.Repeat("n", n): 1}}} }
	text, err := Marshal(bare(1))
	if err != nil {
		t.Fatal(err)
	}
	room := longestMessage - len(text) + 1 // for the name of a node
	failed := func(n int) []Result { r := bare(n - len(`,"e":"x"`)); r[0].Error = "x"; return r }
	for _, c := range []struct {
		name    string
		results []Result
		size    int // 0: an error
	}{
		{"as long as may be", bare(room), longestMessage},
		{"a byte more", bare(room + 1), 0},
		{"with an error, as long as may be", failed(room), longestMessage},
		{"with an error, a byte more", failed(room + 1), longestMessage + 1 - len(`,"e":"x"`)},
	} {
		text, err := Marshal(c.results)
		if (err != nil) != (c.size == 0) || err == nil && len(text) != c.size {
			t.Errorf("%s: %d bytes, %v, want %d", c.name, len(text), err, c.size)
		}
	}
}

// A service has one family: its server is reached at the pod's first address alone, by whoever is in its control, and each
// address of a pod that is in none.
func TestAddressesOfAServer(t *testing.T) {
	t.Setenv("BOBTAIL_CTL", filepath.Join(t.TempDir(), "ctl.sock"))
	both := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	for routed, want := range map[bool]int{true: 1, false: 2} {
		s, err := Server{Node: "n", Addresses: both, Workers: 1, Routed: routed}.Start()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.R2P2) != want || s.R2P2[0].Addr() != both[0] {
			t.Errorf("routed %v: %v", routed, s.R2P2)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("BOBTAIL_CTL", filepath.Join(t.TempDir(), "none", "ctl.sock"))
	if _, err := (Server{Addresses: both, Workers: 1, Routed: true}).Start(); err == nil || !strings.Contains(err.Error(), "control socket") {
		t.Errorf("without its socket: %v", err)
	}
	for addresses, says := range map[string]string{"": "must be the pod's addresses", "x": "--addresses: ", "127.0.0.1,x": "--addresses: "} {
		if err := serve(t.Context(), []string{"--addresses=" + addresses}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", addresses, err)
		}
	}
}

// An answer that ends before its line does is none.
func TestAnswersThatAreCutShort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for text, whole := range map[string]bool{"node-a\n": true, "node": false, "": false} {
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}()
		got, err := overTCP(t.Context(), l.Addr().String())
		if (err == nil) != whole || got != strings.TrimSpace(text) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
