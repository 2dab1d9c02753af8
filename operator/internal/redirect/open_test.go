// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bobtail-dev/bobtail/operator/internal/redirect/programs"
)

// C-7: the experimental kind, from the client's SYN to the accepted answer.
func TestExperimentalKind(t *testing.T) { bothFamilies(t, testExperimentalKind) }

func testExperimentalKind(t *testing.T) {
	n := openTest(t, Options{Wire: Wire{Kind: 253, ExID: 0x1234}})
	v := VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient | RoleBalance, Backends: servers(1), Prefixes: []netip.Prefix{within("10.2.0.0/16")}}
	if err := errors.Join(n.SetVIP(v), n.AllowEcho([]netip.Addr{testVIP})); err != nil {
		t.Fatal(err)
	}
	hollow, full := experimental(0x1234, netip.IPv4Unspecified()), experimental(0x1234, testVIP)
	if testFamily == six {
		hollow = experimental(0x1234, netip.IPv6Unspecified())
	}
	_, got := run(t, n, "crab_client_out", clientSYN(100))
	if !bytes.Equal(got.options, append(append([]byte{}, hollow...), linuxSYN...)) || !got.sums {
		t.Fatalf("placeholder: %x", got.options)
	}
	if server := chosen(t, n, lbSYN(7, got.options)); server != servers(1)[0].Addr {
		t.Errorf("the balancer chose %v", server)
	}
	foreign := lbSYN(8, append(experimental(0x4321, netip.IPv4Unspecified()), linuxSYN...))
	if server := chosen(t, n, foreign); server.IsValid() {
		t.Errorf("another experiment's option was taken for ours: %v", server)
	}
	run(t, n, "crab_server_in", serverSYN(full))
	_, echo := run(t, n, "crab_server_out", serverSYNACK(linuxSYN))
	if !bytes.HasPrefix(echo.options, full) {
		t.Fatalf("echo: %x", echo.options)
	}
	if verdict, got := run(t, n, "crab_client_in", redirectedSYNACK(101, echo.options)); verdict != next || got.src != testVIP || !got.sums {
		t.Errorf("verdict %d, from %s, sums %v", int32(verdict), got.src, got.sums)
	}
	counted(t, n, map[string]uint64{"client_synack_accepted": 1, "server_echo": 1})
}

func TestOpenRefuses(t *testing.T) {
	for field, o := range map[string]Options{
		"wire.kind": {Root: "/x", Wire: Wire{Kind: 8}},
		"wire.exid": {Root: "/x", Wire: Wire{Kind: 253}},
		"root":      {Root: "relative"},
	} {
		var wrong *FieldError
		if _, err := Open(o); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var wrong *FieldError
	if _, err := Open(Options{Root: t.TempDir()}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "bpffs") {
		t.Errorf("a folder that is on no bpffs: %v", err)
	}
}

// State of another layout is refused, not guessed.
func TestOtherLayoutIsRefused(t *testing.T) {
	n := openTest(t, Options{})
	if err := n.maps["crab_meta"].Put(uint32(0), programs.Meta{Magic: programs.LayoutMagic, Layout: 99}); err != nil {
		t.Fatal(err)
	}
	n.Close()
	var layout *LayoutError
	if _, err := Open(Options{Root: n.root}); !errors.As(err, &layout) || layout.Found != 99 || layout.Want != programs.LayoutVersion {
		t.Errorf("%v", err)
	}
}
