// SPDX-License-Identifier: Apache-2.0

package r2p2

import (
	"context"
	"errors"
)

// How a request can end other than with a reply. The library
// never issues a request again by itself; what each error allows stands
// beside it.
var (
	// ErrTimeout: no whole reply in time. Whether the request was executed is
	// unknown: re-issue only what is idempotent. It is also a
	// context.DeadlineExceeded.
	ErrTimeout error = timeoutError{}
	// ErrDropped: a router or server refused the request before executing it.
	// Re-issuing is always safe.
	ErrDropped = errors.New("r2p2: dropped: refused before execution")
	// ErrIncomplete: parts of the reply stayed missing. The request was executed.
	ErrIncomplete = errors.New("r2p2: parts of the reply were lost")
	// ErrTooLarge: the request is larger than MaxMessage. Nothing was sent.
	ErrTooLarge = errors.New("r2p2: message larger than the maximum")
	// ErrNoID: every request id tried is pending or was used a moment ago
	// . Nothing was sent; use more sockets or send fewer requests.
	ErrNoID = errors.New("r2p2: no free request id; configure more sockets")
	// ErrNoTarget: no router or server address is known. Nothing was sent.
	ErrNoTarget = errors.New("r2p2: no address of a router is known")
	// ErrClosed: the client or server was closed.
	ErrClosed = errors.New("r2p2: closed")
)

// DroppedError is ErrDropped with what its sender said behind the word DROP
// . Package replica knows what that means.
type DroppedError struct{ Why []byte }

func (e *DroppedError) Error() string { return ErrDropped.Error() }

// Is makes it ErrDropped.
func (e *DroppedError) Is(target error) bool { return target == ErrDropped }

func dropped(payload []byte) error {
	const word = "DROP"
	if len(payload) <= len(word) {
		return ErrDropped
	}
	return &DroppedError{Why: append([]byte(nil), payload[len(word):]...)}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "r2p2: timeout: no whole reply in time" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// ErrDrop is returned by a Handler that refuses a request without having
// executed any of it; the client gets DROP.
var ErrDrop = errors.New("r2p2: handler refuses the request")
