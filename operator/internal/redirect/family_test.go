// SPDX-License-Identifier: Apache-2.0

package redirect

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the tests of both families speak of; bothFamilies exchanges it.
var (
	testFamily                       = four
	testVIP, testClient, testDIP     netip.Addr
	placeholder, redirected, foreign []byte
)

func init() { speak(four) }

func speak(f family) {
	testFamily = f
	testVIP, testClient, testDIP = at("192.0.2.1"), at("10.1.0.1"), at("10.2.0.1")
	placeholder, redirected = option(netip.IPv4Unspecified()), option(testVIP)
	if f == six {
		placeholder = option(netip.IPv6Unspecified())
	}
	foreign = option(at("192.0.2.99"))
}

// bothFamilies runs a test with IPv4 packets and with IPv6 ones, which enter by the same programs.
func bothFamilies(t *testing.T, test func(t *testing.T)) {
	for _, f := range families {
		t.Run(map[family]string{four: "IPv4", six: "IPv6"}[f], func(t *testing.T) {
			speak(f)
			defer speak(four)
			test(t)
		})
	}
}

// at is an address of the family: an IPv4 one, or that behind fd00::.
func at(addr string) netip.Addr {
	a := netip.MustParseAddr(addr)
	if testFamily == four {
		return a
	}
	b := [16]byte{0: 0xfd}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}

func within(prefix string) netip.Prefix {
	p := netip.MustParsePrefix(prefix)
	return netip.PrefixFrom(at(p.Addr().String()), p.Bits()+8*(testFamily.addrSize-4))
}

// option is the redirect to an address, with its padding (C-1, C-9).
func option(a netip.Addr) []byte {
	return append(append([]byte{42, byte(2 + len(a.AsSlice()))}, a.AsSlice()...), 1, 1)
}

// experimental is the same with kind 253 (C-7).
func experimental(id uint16, a netip.Addr) []byte {
	return append([]byte{253, byte(4 + len(a.AsSlice())), byte(id >> 8), byte(id)}, a.AsSlice()...)
}

// fallbackMark tells the server's host to answer from an address (C-42).
func fallbackMark(a netip.Addr) []byte {
	named := a.AsSlice()
	if a.Is6() {
		named = binary.BigEndian.AppendUint32(nil, digest(a))
	}
	return append(append([]byte{42, 8}, named...), 0, 1)
}

// C-9: the digest is the one the programs write, by the vectors both sides read.
func TestDigestVectors(t *testing.T) {
	f, err := os.Open("../../../dataplane/tests/vectors/crab_option6.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) != 6 || w[0] != "write" || w[1] != "2a" || w[3] != "fallback" {
			continue
		}
		raw, err := hex.DecodeString(w[4])
		a, ok := netip.AddrFromSlice(raw)
		if got := hex.EncodeToString(fallbackMark(a)); err != nil || !ok || got != w[5] {
			t.Errorf("%s: %s, want %s, %v", a, got, w[5], err)
		}
		seen++
	}
	if seen < 2 {
		t.Errorf("%d vectors", seen)
	}
}

// A node without an IPv6 address has nothing of IPv6: no maps, and packets pass untouched and uncounted.
func TestSixIsMadeWhenNeeded(t *testing.T) {
	n := openTest(t, Options{})
	speak(six)
	defer speak(four)
	frame := clientSYN(100).bytes()
	for range 2 {
		verdict, out := runBytes(t, n, "crab_client_out", frame)
		if verdict != next || string(out) != string(frame) || len(n.known()) != 1 {
			t.Fatalf("verdict %d, families %d", int32(verdict), len(n.known()))
		}
		if _, err := os.Stat(filepath.Join(n.root, "crab_vips6")); err == nil {
			t.Fatal("there are maps of IPv6")
		}
	}
	v := VIP{VIPKey: VIPKey{testVIP, 80}, Roles: RoleClient, Prefixes: []netip.Prefix{within("10.2.0.0/16")}}
	if err := n.SetVIP(v); err != nil {
		t.Fatal(err)
	}
	if _, got := run(t, n, "crab_client_out", clientSYN(100)); !bytes.HasPrefix(got.options, placeholder) {
		t.Errorf("options %x", got.options)
	}
	n.Close()
	again, err := Open(Options{Root: n.root})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if vips, err := again.VIPs(); err != nil || len(vips) != 1 || vips[0].VIPKey != v.VIPKey {
		t.Errorf("found again: %v, %v", vips, err)
	}
}

// C-9: two addresses that one mark names cannot both be answered from.
func TestDigestsCollide(t *testing.T) {
	seen := map[uint32]netip.Addr{}
	a := netip.MustParseAddr("fd00::1")
	rng := rand.New(rand.NewPCG(9, 9))
	for {
		if first, taken := seen[digest(a)]; taken {
			var wrong *FieldError
			if _, err := digestsOf([]netip.Addr{first, a}); !errors.As(err, &wrong) || wrong.Field != "allowEcho[1]" {
				t.Errorf("%s and %s: %v", first, a, err)
			}
			return
		}
		seen[digest(a)] = a
		b := a.As16() // neighbours never collide
		binary.NativeEndian.PutUint64(b[4:], rng.Uint64())
		a = netip.AddrFrom16(b)
	}
}
