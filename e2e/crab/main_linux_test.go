// SPDX-License-Identifier: Apache-2.0

//go:build crab

package crab

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(peerVariable); addr != "" {
		fmt.Fprintln(os.Stderr, Peer(addr, os.Getenv("CRAB_NAME")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
