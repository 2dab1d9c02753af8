// SPDX-License-Identifier: Apache-2.0

package wire

// The vectors are shared with the C codec: what both read from them is the
// format.

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type vectors struct {
	Packets []struct {
		Name, Role, Hex, Case string
		Decoded               *struct {
			Type                              string
			Policy                            Policy
			First, Last, Ext, Legacy          bool
			ReqID, CountOrIndex               uint16
			Payload                           string
			HeaderSize                        int
			Forwarded                         *string
			Tag, Class, Trace, RouterID, Copy json.RawMessage
			Flow                              json.RawMessage
		}
		Canonical bool
	}
	Feedback []struct {
		Name, Hex, Case string
		Decoded         *struct {
			Version, Flags   uint8
			ReqID, N         uint16
			Client           string
			Incarnation      uint32
			Received, Served string
			Signal           uint16
		}
	}
	Sack []struct {
		Name, Hex, Case string
		Decoded         *struct {
			What    uint8
			Base    uint16
			NBits   int
			Missing []int
		}
	}
	Keys []struct {
		ID  uint8
		Hex string
	}
	Tags []struct{ Name, Hex, Src, Dst, Result string }

	RouterIDs []struct {
		Address string
		ID      uint32
	}
}

func load(t testing.TB) *vectors {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../../../dataplane/tests/vectors/r2p2.json"))
	if err != nil {
		t.Fatalf("shared vectors: %v", err)
	}
	v := &vectors{}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("shared vectors: %v", err)
	}
	if len(v.Packets) < 50 || len(v.Feedback) < 10 || len(v.Sack) < 10 || len(v.Tags) < 10 || len(v.RouterIDs) < 3 {
		t.Fatal("shared vectors: fewer than there were")
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var roles = map[string]Role{
	"client": RoleClient, "server": RoleServer, "router": RoleRouter, "any": RoleAny,
	"router-requests": RoleRouterRequests, "router-feedback": RoleRouterFeedback,
}

var typeNames = map[string]Type{
	"REQUEST": Request, "REPLY": Reply, "FEEDBACK": Feedback, "REQRDY": ReqRdy, "DROP": Drop, "SACK": Sack, "CANCEL": Cancel,
	"RAFT_REQUEST": RaftRequest, "RAFT_REPLY": RaftReply, "RAFT_MESSAGE": RaftMessage,
}

// and the M-cases the codec decides.
func TestPacketVectors(t *testing.T) {
	for _, c := range load(t).Packets {
		t.Run(c.Name, func(t *testing.T) {
			role, ok := roles[c.Role]
			if !ok {
				t.Fatalf("unknown role %q", c.Role)
			}
			p := unhex(t, c.Hex)
			var h Header
			if got := h.Decode(p, role); got.String() != c.Case {
				t.Fatalf("case %v, want %s", got, c.Case)
			}
			d := c.Decoded
			if d == nil {
				return
			}
			want := fmt.Sprint(typeNames[d.Type], d.Policy, d.First, d.Last, d.Ext, d.Legacy, d.ReqID, d.CountOrIndex, d.Payload, d.HeaderSize)
			got := fmt.Sprint(h.Type, h.Policy, h.First, h.Last, h.Ext, h.Legacy, h.ReqID, h.Count, hex.EncodeToString(h.Payload), h.Size)
			if got != want {
				t.Errorf("decoded %s, want %s", got, want)
			}
			o := h.Options
			for bit, raw := range map[Has]json.RawMessage{HasTag: d.Tag, HasClass: d.Class, HasTrace: d.Trace, HasRouterID: d.RouterID, HasCopy: d.Copy, HasFlow: d.Flow} {
				if (o.Present&bit != 0) != (raw != nil) {
					t.Errorf("option bit %#x present %v, want %v", bit, o.Present&bit != 0, raw != nil)
				}
			}
			if d.Flow != nil && fmt.Sprint(uint16(o.Flow)) != string(d.Flow) {
				t.Errorf("flow %d, want %s", o.Flow, d.Flow)
			}
			if d.Forwarded != nil && o.Forwarded != netip.MustParseAddrPort(*d.Forwarded) {
				t.Errorf("forwarded for %v, want %s", o.Forwarded, *d.Forwarded)
			}
			if c.Canonical {
				again, ok := h.Append(nil)
				again = append(again, h.Payload...)
				if !ok || string(again) != string(p) {
					t.Errorf("encoded %x, want %x", again, p)
				}
			}
		})
	}
}

// §7, R-42 and M-21, M-22, M-25.
func TestFeedbackVectors(t *testing.T) {
	for _, c := range load(t).Feedback {
		t.Run(c.Name, func(t *testing.T) {
			p := unhex(t, c.Hex)
			var f FeedbackMsg
			if got := f.Decode(p); got.String() != c.Case {
				t.Fatalf("case %v, want %s", got, c.Case)
			}
			d := c.Decoded
			if d == nil {
				return
			}
			want := fmt.Sprint(d.Version, d.Flags, d.ReqID, netip.MustParseAddrPort(d.Client), d.N, d.Incarnation, " ", d.Received, " ", d.Served)
			got := fmt.Sprint(f.Version, f.Flags, f.ReqID, f.Client, f.N, f.Incarnation, " ", fmt.Sprint(f.Received), " ", fmt.Sprint(f.Served))
			if got != want || uint16(f.Signal) != d.Signal {
				t.Errorf("decoded %s signal %d, want %s signal %d", got, f.Signal, want, d.Signal)
			}
			if f.Version == 1 || f.Version == 2 && f.Flags&FeedbackPair != 0 {
				if again := f.Append(nil); string(again) != string(p) {
					t.Errorf("encoded %x, want %x", again, p)
				}
			}
		})
	}
}

// R-22 and M-20.
func TestSackVectors(t *testing.T) {
	for _, c := range load(t).Sack {
		t.Run(c.Name, func(t *testing.T) {
			p := unhex(t, c.Hex)
			var s SackMsg
			if got := s.Decode(p); got.String() != c.Case {
				t.Fatalf("case %v, want %s", got, c.Case)
			}
			d := c.Decoded
			if d == nil {
				return
			}
			if s.What != d.What || s.Base != d.Base || s.NBits != d.NBits || !slices.Equal(s.Missing(), d.Missing) {
				t.Errorf("decoded %+v, want %+v", s, d)
			}
			var again SackMsg
			if m := again.Decode(AppendSack(nil, s.What, d.Missing)); m != OK || !slices.Equal(again.Missing(), d.Missing) {
				t.Errorf("encoded and read back: %v %v", m, again.Missing())
			}
		})
	}
}

//
func TestTagVectors(t *testing.T) {
	v := load(t)
	var keys Keyring
	for _, k := range v.Keys {
		keys = append(keys, Key{k.ID, [16]byte(unhex(t, k.Hex))})
	}
	results := map[string]TagResult{"valid": TagValid, "absent": TagAbsent, "unknown-key": TagUnknownKey, "wrong": TagWrong}
	for _, c := range v.Tags {
		t.Run(c.Name, func(t *testing.T) {
			want, ok := results[c.Result]
			if !ok {
				t.Fatalf("unknown result %q", c.Result)
			}
			p := unhex(t, c.Hex)
			src, dst := netip.MustParseAddrPort(c.Src), netip.MustParseAddrPort(c.Dst)
			var h Header
			if m := h.Decode(p, RoleAny); m != OK {
				t.Fatal(m)
			}
			if got := h.Verify(p, keys, src, dst); got != want {
				t.Fatalf("result %v, want %v", got, want)
			}
			if want != TagValid {
				return
			}
			tag := h.Options.Tag
			key := &keys[slices.IndexFunc(keys, func(k Key) bool { return k.ID == h.Options.KeyID })]
			h.Options.Tag = [8]byte{}
			again, _ := h.Append(nil)
			again = append(again, h.Payload...)
			h.Sign(again, key, src, dst)
			if h.Options.Tag != tag || string(again) != string(p) {
				t.Errorf("signed %x, want %x", again, p)
			}
		})
	}
}

//
func TestRouterIDVectors(t *testing.T) {
	for _, c := range load(t).RouterIDs {
		if got := RouterID(netip.MustParseAddrPort(c.Address)); got != c.ID {
			t.Errorf("RouterID(%s) = %d, want %d", c.Address, got, c.ID)
		}
	}
}

// FuzzDecode: no input panics, and what is accepted survives encoding.
func FuzzDecode(f *testing.F) {
	v := load(f)
	for _, c := range v.Packets {
		f.Add(uint8(roles[c.Role]), unhex(f, c.Hex))
	}
	for _, c := range v.Feedback {
		f.Add(uint8(RoleRouterFeedback), append(unhex(f, "cc0820e012340001"), unhex(f, c.Hex)...))
	}
	for _, c := range v.Sack {
		f.Add(uint8(RoleClient), append(unhex(f, "cc0880e012340001"), unhex(f, c.Hex)...))
	}
	keys := Keyring{{ID: 1}}
	ep := netip.MustParseAddrPort("10.0.0.1:9000")
	f.Fuzz(func(t *testing.T, role uint8, p []byte) {
		var h Header
		if h.Decode(p, Role(role)%(RoleAny+1)) != OK {
			return
		}
		var fb FeedbackMsg
		_ = fb.Decode(h.Payload)
		var s SackMsg
		if s.Decode(h.Payload) == OK {
			_ = s.Missing()
		}
		_ = h.Verify(p, keys, ep, ep)
		if h.Legacy {
			return
		}
		b, ok := h.Append(nil)
		if !ok {
			t.Fatalf("accepted %x, but its header does not fit", p)
		}
		var again Header
		if m := again.Decode(append(b, h.Payload...), RoleAny); m != OK {
			t.Fatalf("accepted %x, encoded to %x: %v", p, b, m)
		}
		h.Options.tagOffset, again.Options.tagOffset = 0, 0
		if again.Options != h.Options || again.ReqID != h.ReqID || again.Count != h.Count || again.Type != h.Type {
			t.Fatalf("%+v came back as %+v", h, again)
		}
	})
}
