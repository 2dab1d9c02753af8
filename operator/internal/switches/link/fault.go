// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is what sort of thing stands in the way.
type Kind string

// The kinds of a fault.
const (
	// Unreachable: no answer, or none in time.
	Unreachable Kind = "Unreachable"
	// Certificate: the handshake failed.
	Certificate Kind = "Certificate"
	// Device: the switch has no such device id.
	Device Kind = "Device"
	// Backup: another controller is primary.
	Backup Kind = "Backup"
	// Refused: the switch does not take the pipeline.
	Refused Kind = "Refused"
	// Fixed: the switch takes no pipeline at all.
	Fixed Kind = "Fixed"
	// Empty: the switch runs no pipeline.
	Empty Kind = "Empty"
	// Broken: the answer breaks the protocol.
	Broken Kind = "Broken"
	// Full: a table has no room.
	Full Kind = "Full"
	// Fenced: the lease of this process is over.
	Fenced Kind = "Fenced"
)

// Fault says why a switch does not do what it should.
type Fault struct {
	Kind Kind
	Text string
}

func (f *Fault) Error() string { return f.Text }

// Faultf makes a fault.
func Faultf(kind Kind, format string, args ...any) *Fault {
	return &Fault{kind, fmt.Sprintf(format, args...)}
}

// FaultOf is the fault in an error; one of another sort counts as Unreachable.
func FaultOf(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Unreachable, said(err)}
}

// longestSaid bounds what a server says in one message.
const longestSaid = 300

// said is the text of an error, without what would spoil a status or a log.
func said(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = fmt.Sprintf("%s: %s", s.Code(), s.Message())
	}
	return clean(text)
}

func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > longestSaid {
		return string(runes[:longestSaid]) + "…"
	}
	return text
}

// judge tells what an error of a call means, whatever the call.
func judge(what string, err error) *Fault {
	var already *Fault
	if errors.As(err, &already) {
		return already
	}
	text := said(err)
	kind := Unreachable
	switch code := status.Code(err); {
	case strings.Contains(text, "authentication handshake failed"), strings.Contains(text, "remote error: tls:"), strings.Contains(text, "x509:"):
		kind = Certificate
	case code == codes.PermissionDenied:
		kind = Backup
	case code == codes.ResourceExhausted && strings.Contains(text, "received message larger"):
		kind = Broken
	case code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		text = "no answer in time"
	case code == codes.Unimplemented:
		kind = Broken
	}
	return Faultf(kind, "%s: %s", what, text)
}

// Failure is one update that the switch refused.
type Failure struct {
	// Index is the place in the batch.
	Index int
	Code  codes.Code
	Text  string
}

// failures reads what became of each of n updates. P4Runtime puts an error a piece into
// the details, in the order of the updates; ok: it did.
func failures(err error, n int) (out []Failure, ok bool) {
	s, is := status.FromError(err)
	if !is || s.Code() != codes.Unknown {
		return nil, false
	}
	details := s.Proto().GetDetails()
	if len(details) != n {
		return nil, false
	}
	for i, d := range details {
		one := &p4.Error{}
		if d.UnmarshalTo(one) != nil {
			return nil, false
		}
		if c := one.GetCanonicalCode(); c != int32(codes.OK) {
			out = append(out, Failure{i, codes.Code(uint32(max(c, 0))), clean(one.GetMessage())})
		}
	}
	return out, len(out) > 0
}
