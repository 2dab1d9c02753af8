// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"strings"
	"testing"
)

// A port that somebody has, and words that mean nothing, end the program with an error.
func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for words, want := range map[string]string{
		"serve " + port: "in use", "serve": "usage", "call " + port + " 0 1": "usage", "call " + port + " 1 -1": "usage", "call " + port + " x 1": "usage", "": "usage",
	} {
		if err := run(strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
}
