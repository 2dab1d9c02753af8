// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"bytes"
	"context"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

func TestEnvelopesComeBack(t *testing.T) {
	in := request{method: "/a.B/C", timeout: 3 * time.Millisecond, header: metadata.Pairs("a", "1", "a", "2", "b-bin", "\x00"), message: []byte("m")}
	if got, err := parseRequest(in.append(nil)); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v, %v", got, err)
	}
	out := reply{code: codes.Aborted, text: "why", details: []byte("d"), header: metadata.Pairs("a", "1"), trailer: metadata.Pairs("t", "2"), message: []byte("m")}
	if got, err := parseReply(out.append(nil)); err != nil || !reflect.DeepEqual(got, out) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every envelope that is cut short, and every one that claims more than it has or than
// anybody needs, is refused.
func TestDamagedEnvelopes(t *testing.T) {
	whole := (&request{method: "/a.B/C", timeout: time.Hour, header: metadata.Pairs("a", "1")}).append(nil)
	for n := range whole {
		if _, err := parseRequest(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(whole))
		}
	}
	for name, b := range map[string][]byte{
		"another version":   append([]byte{2}, whole[1:]...),
		"a long method":     {version, 0xff, 0xff, 0x03},
		"an endless number": {version, 1, 'x', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"too many pairs":    {version, 1, 'x', 0, 0x81, 0x02},
	} {
		if _, err := parseRequest(b); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What comes from outside has no method to hang on to: nothing panics, what is taken is
// written and read to the same, and a server always has an answer.
func FuzzRequest(f *testing.F) {
	f.Add((&request{method: "/grpc.testing.TestService/EmptyCall", timeout: time.Second, header: metadata.Pairs("a", "1")}).append(nil))
	f.Add([]byte{version, 0, 0, 0})
	s := NewServer()
	s.cfg.MaxMessage = 1 << 20
	grpc_testing.RegisterTestServiceServer(s, stock{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseRequest(b); err == nil {
			again, err := parseRequest(r.append(nil))
			if err != nil || again.method != r.method || !bytes.Equal(again.message, r.message) || !reflect.DeepEqual(again.header, r.header) {
				t.Errorf("%+v, then %+v, %v", r, again, err)
			}
			if bytes.Contains(r.message, []byte("late")) {
				return
			}
		}
		answer, err := s.handle(context.Background(), &r2p2.ServerRequest{Payload: b, Client: netip.MustParseAddrPort("127.0.0.1:1")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseReply(answer); err != nil {
			t.Errorf("the answer %x: %v", answer, err)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add((&reply{code: codes.Aborted, text: "why", header: metadata.Pairs("a", "1"), trailer: metadata.Pairs("t", "2"), message: []byte("m")}).append(nil))
	f.Add((&reply{code: codes.OK, details: []byte{8, 1}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseReply(b); err == nil {
			again, err := parseReply(r.append(nil))
			if err != nil || again.code != r.code || !bytes.Equal(again.message, r.message) || !reflect.DeepEqual(again.trailer, r.trailer) {
				t.Errorf("%+v, then %+v, %v", r, again, err)
			}
		}
		_ = decode(b, &grpc_testing.Empty{}, &call{recvLimit: 1 << 20})
	})
}
