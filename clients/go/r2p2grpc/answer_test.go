// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Details of an error go along up to their bound; a status without any has none.
func TestDetailsOfAnAnswer(t *testing.T) {
	bytes := func(n int) *status.Status {
		st, err := status.New(codes.Aborted, "m").WithDetails(wrapperspb.Bytes(make([]byte, n)))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	around := maxDetails - proto.Size(bytes(maxDetails/2).Proto()) + maxDetails/2 // the size of what is there besides stays
	for name, c := range map[string]struct {
		st   *status.Status
		want bool
	}{
		"none": {status.New(codes.Aborted, "m"), false}, "the most": {bytes(around), true}, "one byte more": {bytes(around + 1), false},
	} {
		if size := proto.Size(c.st.Proto()); c.want && size != maxDetails {
			t.Fatalf("%s: %d bytes", name, size)
		}
		s := &Server{}
		s.cfg.MaxMessage = 2 * maxDetails
		out, err := parseReply(s.answer(&transport{}, nil, c.st.Err()))
		if err != nil || (len(out.details) > 0) != c.want || out.code != codes.Aborted || out.text != "m" {
			t.Errorf("%s: %d bytes of details, %v", name, len(out.details), err)
		}
	}
}
