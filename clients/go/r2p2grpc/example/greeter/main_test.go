// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The example serves and asks as its first lines say, and two lines of it are R2P2's.
func TestGreeter(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte(" // was: grpc.")); n != 2 {
		t.Errorf("%d lines are marked, want 2", n)
	}
	if n := bytes.Count(source, []byte("r2p2grpc.")); n != 2 {
		t.Errorf("r2p2grpc is named %d times in the code, want in the two lines", n)
	}
	program := filepath.Join(t.TempDir(), "greeter")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port := freePort(t)
	at := fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.Command(program, at)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	for service, want := range map[string]string{"shop": "SERVING", "other": "SERVICE_UNKNOWN"} {
		end := time.Now().Add(20 * time.Second)
		for {
			out, err := exec.Command(program, "ask", at, service).CombinedOutput()
			if err == nil {
				if got := strings.TrimSpace(string(out)); got != want {
					t.Errorf("%s: %s, want %s", service, got, want)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v: %s", service, err, out)
			}
		}
	}
}

// freePort is one that nobody has now, of UDP nor of TCP: the server listens on both.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		tcp.Close()
		if err == nil {
			udp.Close()
			return port
		}
	}
	t.Fatal("no port is free of both")
	return 0
}
