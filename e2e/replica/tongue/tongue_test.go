// SPDX-License-Identifier: Apache-2.0

package tongue

import (
	"testing"

	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

func TestWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		name string
		of   Tongue
		op   history.Op
		want string
		kind byte
	}{
		{"a read", BuiltIn, history.Op{Kind: 'G', Key: "k"}, "G\x01k", 'G'},
		{"compare and put", BuiltIn, history.Op{Kind: 'C', Key: "k", Old: "a", Value: "b"}, "C\x01k\x00\x01ab", 'C'},
		{"a read of Redis", Redis, history.Op{Kind: 'G', Key: "k"}, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 'G'},
		{"a write", Redis, history.Op{Kind: 'P', Key: "k", Value: "v"}, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", 'P'},
		{"a piece", Redis, history.Op{Kind: 'A', Key: "k", Value: "v"}, "*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\nv\r\n", 'A'},
		{"an exchange instead", Redis, history.Op{Kind: 'C', Key: "k", Old: "a", Value: "b"}, "*3\r\n$6\r\nGETSET\r\n$1\r\nk\r\n$1\r\nb\r\n", 'X'},
	} {
		if got := string(c.of.Ask(&c.op)); got != c.want || c.op.Kind != c.kind {
			t.Errorf("%s: %q as %c, want %q as %c", c.name, got, c.op.Kind, c.want, c.kind)
		}
	}
}

func TestWhatIsAnswered(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		of          Tongue
		status      byte
		result      string
		bad         bool
	}{
		{"a value", "+v", BuiltIn, '+', "v", false},
		{"none there", "-", BuiltIn, '-', "", false},
		{"nothing at all", "", BuiltIn, 0, "", true},
		{"a string", "$1\r\nv\r\n", Redis, '+', "v", false},
		{"no such key", "$-1\r\n", Redis, '+', "", false},
		{"an error", "-WRONGTYPE it is a list\r\n", Redis, 0, "", true},
		{"two answers", "+OK\r\n+OK\r\n", Redis, 0, "", true},
		{"cut short", "$5\r\nv", Redis, 0, "", true},
		{"nothing of Redis", "", Redis, 0, "", true},
	} {
		o := history.Op{Kind: 'G', Key: "k"}
		err := c.of.Answer(&o, []byte(c.reply))
		if (err != nil) != c.bad || o.Status != c.status || o.Result != c.result {
			t.Errorf("%s: %v, status %q result %q", c.name, err, o.Status, o.Result)
		}
	}
}
