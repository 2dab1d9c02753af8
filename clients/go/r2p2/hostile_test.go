// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"encoding/hex"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/wire"
)

// seeds adds the shared packet vectors.
func seeds(f *testing.F) {
	text, err := os.ReadFile(filepath.FromSlash("../../../dataplane/tests/vectors/r2p2.json"))
	if err != nil {
		f.Fatal(err)
	}
	var v struct{ Packets []struct{ Hex string } }
	if err := json.Unmarshal(text, &v); err != nil {
		f.Fatal(err)
	}
	for _, p := range v.Packets {
		b, err := hex.DecodeString(p.Hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte{})
		f.Add(b, b)
	}
}

var nowhere = func([]byte, netip.AddrPort) bool { return true }

// FuzzServerReceive: two packets of anybody, in a row. No panic, and
// every REQ0 counted as received is paid as served.
func FuzzServerReceive(f *testing.F) {
	seeds(f)
	router := Router{Request: netip.MustParseAddrPort("10.0.0.9:8000"), Feedback: netip.MustParseAddrPort("10.0.0.9:9000")}
	cfg := ServerConfig{Address: loopback, Handler: upper, Routers: []Router{router}, Profile: SRIOV, MaxMessage: 1 << 16}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		s, err := NewServer(cfg)
		if err != nil {
			t.Skip(err) // out of ports
		}
		defer s.Close()
		w := s.workers[0]
		w.sock.lose.Store(&nowhere)
		w.receive(one, router.Request)
		w.receive(two, router.Request)
		w.receive(two, netip.MustParseAddrPort("10.0.0.1:1"))
		deadline := time.Now().Add(time.Minute)
		for {
			st := s.Routers(0)[0]
			if st.Received == st.Served && s.Backlog() == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("received %d, served %d, backlog %d", st.Received, st.Served, s.Backlog())
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// FuzzClientReceive: a request waits while packets of anybody come. No panic,
// exactly one outcome.
func FuzzClientReceive(f *testing.F) {
	seeds(f)
	c, err := Dial(f.Context(), ClientConfig{Targets: []string{"10.0.0.9"}, Timeout: time.Minute, Profile: SRIOV})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	p := c.ports[0]
	p.sock.lose.Store(&nowhere)
	worker := netip.MustParseAddrPort("10.0.0.1:8000")
	f.Fuzz(func(t *testing.T, one, two []byte) {
		small := c.Go(t.Context(), &Request{})
		large := c.Go(t.Context(), &Request{Payload: body(4000)})
		p.mu.Lock()
		id := p.ids.next - 1
		p.mu.Unlock()
		for i, b := range [][]byte{one, two, one} {
			if len(b) >= wire.HeaderSize { // aim at one of the two
				b = append([]byte{}, b...)
				b[4], b[5] = byte((id-uint16(i&1))>>8), byte(id-uint16(i&1))
			}
			p.receive(b, worker)
		}
		p.mu.Lock()
		for _, pair := range p.pairs {
			p.finish(pair, nil, ErrClosed)
		}
		p.mu.Unlock()
		for _, f := range []*Future{small, large} {
			if r, err := f.Wait(); (r == nil) == (err == nil) {
				t.Fatalf("outcome %v and %v", r, err)
			}
		}
	})
}

// A library others build on brings nothing along but SipHash.
func TestDependsOnTheStandardLibraryOnly(t *testing.T) {
	const own, sip = "github.com/bobtail-dev/bobtail/clients/go/r2p2", "github.com/dchest/siphash"
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			first, _, _ := strings.Cut(name, "/")
			if strings.Contains(first, ".") && name != sip && name != own && !strings.HasPrefix(name, own+"/") {
				t.Errorf("%s imports %s", path, name)
			}
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Errorf("%d files, %v", files, err)
	}
}

func BenchmarkEcho(b *testing.B) {
	s, err := NewServer(ServerConfig{Address: loopback, Handler: upper})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := Dial(b.Context(), ClientConfig{Targets: []string{s.Addrs()[0].String()}, Sockets: 16})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), []byte("12345678")); err != nil {
			b.Fatal(err)
		}
	}
}
