// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What an error means goes by its code, and where that says too little by its text; what was judged once stays so.
func TestWhatAnErrorMeans(t *testing.T) {
	judged := Faultf(Empty, "the switch runs no pipeline")
	for name, c := range map[string]struct {
		err  error
		kind Kind
		says string
	}{
		"not allowed":        {status.Error(codes.PermissionDenied, "not primary"), Backup, "ask: PermissionDenied: not primary"},
		"too long":           {status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), Broken, "ask: ResourceExhausted"},
		"full":               {status.Error(codes.ResourceExhausted, "table is full"), Unreachable, "ask: ResourceExhausted: table is full"},
		"larger, of another": {status.Error(codes.Internal, "received message larger"), Unreachable, "ask: Internal"},
		"late":               {status.Error(codes.DeadlineExceeded, "x"), Unreachable, "ask: no answer in time"},
		"late here":          {fmt.Errorf("call: %w", context.DeadlineExceeded), Unreachable, "ask: no answer in time"},
		"not in time":        {status.Error(codes.Unavailable, "x"), Unreachable, "ask: Unavailable: x"},
		"not known":          {status.Error(codes.Unimplemented, "x"), Broken, "ask: Unimplemented: x"},
		"not trusted":        {status.Error(codes.Unavailable, "authentication handshake failed: EOF"), Certificate, "ask: Unavailable"},
		"not trusting":       {errors.New("remote error: tls: bad certificate"), Certificate, "ask: "},
		"not of a name":      {errors.New("x509: certificate is valid for a"), Certificate, "ask: "},
		"judged":             {fmt.Errorf("again: %w", judged), Empty, "the switch runs no pipeline"},
	} {
		if got := judge("ask", c.err); got.Kind != c.kind || !strings.HasPrefix(got.Error(), c.says) && !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s: %s: %s", name, got.Kind, got.Error())
		}
	}
}

// A later leader outdoes an earlier one, whatever its connections; no term is below the first.
func TestElectionsOfLeaders(t *testing.T) {
	for _, c := range []struct {
		term        int64
		connections uint64
		want        Election
	}{{0, 0, Election{1, 0}}, {4, 7, Election{5, 7}}, {-3, 1, Election{1, 1}}} {
		if got := ElectionOf(c.term, c.connections); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if ElectionOf(4, 9).Compare(ElectionOf(5, 0)) >= 0 || ElectionOf(5, 1).Compare(ElectionOf(5, 0)) <= 0 {
		t.Error("an earlier leader outdoes a later one")
	}
}

// What a server says is shown as far as it is text, and not endlessly.
func TestWhatASwitchSaysIsCleaned(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a\nb\x00c": "a b c", "a\xffb": "a?b", strings.Repeat("x", longestSaid): strings.Repeat("x", longestSaid), strings.Repeat("ä", longestSaid+1): strings.Repeat("ä", longestSaid) + "…",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
