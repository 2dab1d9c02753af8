// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// A message is an envelope and, behind it, the bytes of the codec. Numbers are uvarints,
// texts and bytes have their length in front:
//
//	request: 1, method, microseconds until the deadline (0: none), metadata, message
//	reply:   1, code, text, details (a google.rpc.Status; empty: none), header, trailer, message
//	metadata: number of pairs, then key and value of each
//
// The version stands first so that an incompatible one can be told apart.
const version = 1

// Bounds of what is believed of the other side.
const (
	maxMethod  = 4096
	maxPairs   = 256
	maxDetails = 64 << 10
)

type request struct {
	method  string
	timeout time.Duration // 0: no deadline
	header  metadata.MD
	message []byte
}

type reply struct {
	code    codes.Code
	text    string
	details []byte
	header  metadata.MD
	trailer metadata.MD
	message []byte
}

func appendBytes[T ~string | ~[]byte](out []byte, b T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

func appendMetadata(out []byte, md metadata.MD) []byte {
	n := 0
	for _, values := range md {
		n += len(values)
	}
	out = binary.AppendUvarint(out, uint64(n))
	if n == 0 {
		return out
	}
	keys := make([]string, 0, len(md))
	for k := range md {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		for _, v := range md[k] {
			out = appendBytes(appendBytes(out, k), v)
		}
	}
	return out
}

// append writes the envelope; the message follows it.
func (r *request) append(out []byte) []byte {
	out = append(out, version)
	out = appendBytes(out, r.method)
	out = binary.AppendUvarint(out, uint64(max(r.timeout, 0)/time.Microsecond))
	out = appendMetadata(out, r.header)
	return append(out, r.message...)
}

func (r *reply) append(out []byte) []byte {
	out = append(out, version)
	out = binary.AppendUvarint(out, uint64(r.code))
	out = appendBytes(out, r.text)
	out = appendBytes(out, r.details)
	out = appendMetadata(out, r.header)
	out = appendMetadata(out, r.trailer)
	return append(out, r.message...)
}

var (
	errVersion   = errors.New("the envelope has another version")
	errMalformed = errors.New("the envelope is damaged")
)

// reader takes an envelope apart; after the first fault everything it gives is empty.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.rest, r.err = nil, err
	}
}

func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > most {
		r.fail(errMalformed)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) bytes(most uint64) []byte {
	n := r.number(most)
	if n > uint64(len(r.rest)) {
		r.fail(errMalformed)
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) version() {
	if len(r.rest) == 0 || r.rest[0] != version {
		r.fail(errVersion)
		return
	}
	r.rest = r.rest[1:]
}

func (r *reader) metadata() metadata.MD {
	n := r.number(maxPairs)
	if n == 0 {
		return nil
	}
	md := make(metadata.MD, n)
	for range n {
		k := strings.ToLower(string(r.bytes(maxMethod)))
		v := string(r.bytes(math.MaxUint32))
		if r.err != nil {
			return nil
		}
		md[k] = append(md[k], v)
	}
	return md
}

// parseRequest keeps parts of b.
func parseRequest(b []byte) (request, error) {
	r := reader{rest: b}
	r.version()
	out := request{method: string(r.bytes(maxMethod))}
	out.timeout = time.Duration(r.number(uint64(math.MaxInt64/time.Microsecond))) * time.Microsecond
	out.header = r.metadata()
	out.message = r.rest
	return out, r.err
}

// parseReply keeps parts of b.
func parseReply(b []byte) (reply, error) {
	r := reader{rest: b}
	r.version()
	out := reply{code: codes.Code(r.number(math.MaxUint32))}
	out.text = string(r.bytes(maxDetails))
	out.details = r.bytes(maxDetails)
	out.header = r.metadata()
	out.trailer = r.metadata()
	out.message = r.rest
	return out, r.err
}

// sendable says whether metadata fits, in the words of an error.
func sendable(md metadata.MD) error {
	n := 0
	for k, values := range md {
		if n += len(values); len(k) > maxMethod {
			return errors.New("r2p2grpc: a key of the metadata is longer than 4096 bytes")
		}
	}
	if n > maxPairs {
		return errors.New("r2p2grpc: metadata of more than 256 values")
	}
	return nil
}
