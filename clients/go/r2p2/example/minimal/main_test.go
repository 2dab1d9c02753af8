// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// freePort finds a UDP port nobody uses now.
func freePort(t *testing.T) int {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port
}

func TestServeAndCall(t *testing.T) {
	port := strconv.Itoa(freePort(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, []string{"--address=127.0.0.1", "--port=" + port, "--ctl=" + filepath.Join(t.TempDir(), "s")}, io.Discard)
	}()
	var out bytes.Buffer
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = ask(t.Context(), []string{"--target=127.0.0.1:" + port, "--timeout=200ms", "hello", "world"}, &out); err == nil {
			break
		}
	}
	if err != nil || out.String() != "HELLO WORLD\n" {
		t.Errorf("%q %v", out.String(), err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--address="}, {"--nope"}} {
		if err := serve(t.Context(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("serve %v: %v", args, err)
		}
	}
	if err := ask(t.Context(), nil, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("call without a target: %v", err)
	}
}
