// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// refused says whether an error is a message that is too long.
func refused(err error) bool { return grpcstatus.Code(err) == codes.ResourceExhausted }

// A message as long as its limit is carried, one byte less of a limit refuses it: the caller's, R2P2's, and the reader's.
func TestMessagesAtTheirLimits(t *testing.T) {
	m := wrapperspb.Bytes(make([]byte, 100))
	size, c := proto.Size(m), &Conn{}
	c.cfg.MaxMessage = 1000
	whole, err := c.encode(&request{method: "/a/B"}, nil, m, size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.encode(&request{method: "/a/B"}, nil, m, size-1); !refused(err) {
		t.Errorf("beyond the caller's limit: %v", err)
	}
	for over, want := range map[int]bool{0: false, 1: true} {
		c.cfg.MaxMessage = len(whole) - over
		if _, err := c.encode(&request{method: "/a/B"}, nil, m, size); refused(err) != want {
			t.Errorf("%d bytes beyond R2P2's limit: %v", over, err)
		}
		if err := decode((&reply{message: make([]byte, 0)}).append(nil), &grpc_testing.Empty{}, &call{recvLimit: -over}); refused(err) != want {
			t.Errorf("%d bytes beyond the reader's limit: %v", over, err)
		}
		s := NewServer()
		s.cfg.MaxMessage = 50 - over
		if r, err := parseReply(s.fitting((&reply{message: make([]byte, 44)}).append(nil))); err != nil || (r.code == codes.ResourceExhausted) != want {
			t.Errorf("%d bytes beyond the server's limit: %v, %v", over, r.code, err)
		}
	}
	if clip("abc", 3) != "abc" || clip("abcd", 3) != "abc" {
		t.Errorf("%q, %q", clip("abc", 3), clip("abcd", 3))
	}
}

// Metadata has so many values and so long keys at most.
func TestMetadataAtItsLimits(t *testing.T) {
	pairs := func(n int) metadata.MD { return metadata.MD{"a": make([]string, n-1), "b": {""}} }
	for _, c := range []struct {
		md   metadata.MD
		want string
	}{
		{nil, "<nil>"}, {pairs(maxPairs), "<nil>"}, {pairs(maxPairs + 1), "r2p2grpc: metadata of more than 256 values"},
		{metadata.Pairs(strings.Repeat("k", maxMethod), ""), "<nil>"},
		{metadata.Pairs(strings.Repeat("k", maxMethod+1), ""), "r2p2grpc: a key of the metadata is longer than 4096 bytes"},
	} {
		if got := fmt.Sprint(sendable(c.md)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// Details of an error are believed when they are readable and of its code; else code and text stand.
func TestDetailsThatDoNotFit(t *testing.T) {
	details := func(code codes.Code) []byte {
		b, err := proto.Marshal(&status.Status{Code: int32(code), Message: "inside"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		details []byte
		want    string
	}{
		"none": {nil, "outside"}, "of its code": {details(codes.Aborted), "inside"}, "of another": {details(codes.NotFound), "outside"}, "damaged": {[]byte{0xff}, "outside"},
	} {
		if st := grpcstatus.Convert(failed(&reply{code: codes.Aborted, text: "outside", details: c.details})); st.Code() != codes.Aborted || st.Message() != c.want {
			t.Errorf("%s: %v", name, st)
		}
	}
}

// A path without a service is malformed; one of an empty service is of one that nobody knows.
func TestPathsWithoutAService(t *testing.T) {
	for path, want := range map[string]string{"": `malformed method name: ""`, "/Call": `malformed method name: "/Call"`, "//Call": "unknown service ", "/a.B/Call": "unknown service a.B"} {
		if _, _, st := NewServer().find(path); st == nil || st.Code() != codes.Unimplemented || st.Message() != want {
			t.Errorf("%q: %v", path, st)
		}
	}
}

// A service may come without an implementation, or without a type to compare it with.
func TestServicesWithoutAType(t *testing.T) {
	s := NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "a", HandlerType: (*fmt.Stringer)(nil)}, nil)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "b"}, "anything")
	if len(s.services) != 2 || s.Addrs() != nil {
		t.Errorf("%v at %v", s.services, s.Addrs())
	}
}

// A server that cannot start says why, and naming what of its pod is at fault.
func TestServersThatDoNotStart(t *testing.T) {
	listener := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	closed := listener()
	closed.Close()
	for _, c := range []struct {
		variable, value string
		lis             net.Listener
		want            string
	}{
		{"POD_IP", "pod", nil, "r2p2grpc: POD_IP: "},
		{"BOBTAIL_PORT", "none", listener(), "r2p2grpc: BOBTAIL_PORT: "},
		{"BOBTAIL_WORKERS", "", closed, "use of closed network connection"},
		{"BOBTAIL_WORKERS", "-1", listener(), "worker"},
	} {
		t.Setenv(c.variable, c.value)
		err := NewServer().Serve(c.lis)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) {
			t.Errorf("%s=%s: %v, want %q", c.variable, c.value, err, c.want)
		}
		t.Setenv(c.variable, "")
	}
	s := NewServer()
	served := make(chan error)
	go func() { served <- s.Serve(listener()) }()
	for len(s.Addrs()) == 0 {
		select {
		case err := <-served:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	if err := s.Serve(listener()); err == nil || !strings.Contains(err.Error(), "was called before") {
		t.Errorf("served twice: %v", err)
	}
	at := s.Addrs()[0]
	s.GracefulStop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err != nil {
		t.Errorf("the worker's port is not free after the end: %v", err)
	} else {
		c.Close()
	}
}
