// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// An address that asks in a loop is told to wait; another is served meanwhile,
// and so is the first once it waited.
func TestPacedByAddress(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCallers()
	c.now = func() time.Time { return now }
	h := paced(c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	ask := func(address string) int {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for i := range burstEach {
		if code := ask(fmt.Sprintf("10.0.0.1:%d", 1000+i)); code != http.StatusOK {
			t.Fatalf("request %d: %d", i, code)
		}
	}
	if code := ask("10.0.0.1:999"); code != http.StatusTooManyRequests {
		t.Errorf("beyond the burst: %d, want 429", code)
	}
	if code := ask("10.0.0.2:999"); code != http.StatusOK {
		t.Errorf("another address: %d", code)
	}
	now = now.Add(time.Second)
	served := 0
	for range 3 * requestsEach {
		if ask("10.0.0.1:999") == http.StatusOK {
			served++
		}
	}
	if served != requestsEach {
		t.Errorf("%d served a second later, want %d", served, requestsEach)
	}
}

// What is remembered of addresses is bounded, and those with connections stay.
func TestCallersAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCallers()
	c.now = func() time.Time { return now }
	if !c.connect("kept") {
		t.Fatal("the first connection was refused")
	}
	for i := range 3 * addressesMost {
		c.admit(fmt.Sprint(i))
		now = now.Add(10 * time.Millisecond)
	}
	if len(c.by) > addressesMost || c.by["kept"] == nil {
		t.Errorf("%d addresses, kept %v", len(c.by), c.by["kept"])
	}
	c.disconnect("kept")
	if c.conns != 0 || c.by["kept"].conns != 0 {
		t.Errorf("%d connections", c.conns)
	}
}

// The ninth connection of one address is closed, and one that ends makes room.
func TestConnectionsOfOneAddress(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newCallers()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(limited{inner, c}) }()
	t.Cleanup(func() { srv.Close() })
	open := func() (net.Conn, bool) {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err = io.ReadFull(conn, make([]byte, 12))
		return conn, err == nil
	}
	var first net.Conn
	for i := range connectionsEach {
		conn, ok := open()
		if !ok {
			t.Fatalf("connection %d was closed", i)
		}
		if i == 0 {
			first = conn
		}
	}
	if _, ok := open(); ok {
		t.Error("one more connection was served")
	}
	first.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, ok := open(); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no room after a connection ended")
		}
	}
}

// Two answers are made at a time; probes do not wait for them.
func TestFewAtOnce(t *testing.T) {
	running, hold := make(chan struct{}, 10), make(chan struct{})
	h := fewAtOnce(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		running <- struct{}{}
		<-hold
	}))
	codes := make(chan int, 10)
	for range figuresAtOnce + 1 {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
			codes <- w.Code
		}()
	}
	for range figuresAtOnce {
		<-running
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("the third: %d, want 503", code)
	}
	close(hold)
	for range figuresAtOnce {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("the others: %d", code)
		}
	}
}
