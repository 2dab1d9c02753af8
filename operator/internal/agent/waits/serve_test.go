// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/pki"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// reader is an operator whose certificate has that name.
func reader(t *testing.T, a *pki.Authority, name string) *dataplane.Client {
	t.Helper()
	certificate, err := a.IssueClient(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c := dataplane.NewClient(func() (dataplane.Credentials, error) {
		return dataplane.Credentials{Certificate: certificate, Roots: a.Pool()}, nil
	}, time.Minute)
	t.Cleanup(c.CloseIdle)
	return c
}

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// mount writes the Secret's files as the kubelet would.
func mount(t *testing.T, dir string, a *pki.Authority, name string) {
	t.Helper()
	data, err := a.IssueServer(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range data {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o400); err != nil {
			t.Fatal(err)
		}
	}
}

// The operator reads, nobody else does; an agent without a certificate serves
// nobody, and the operator as soon as there is one.
func TestOnlyTheOperatorReads(t *testing.T) {
	k := &kernel{}
	w := begin(t, k)
	k.connected(four, 3, time.Millisecond)
	time.Sleep(2 * fresh) // or what was seen at the beginning would do
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, other, dir, port := authority(t), authority(t), t.TempDir(), freePort(t)
	target := dataplane.AgentTarget("127.0.0.1", port)
	var said bytes.Buffer // one line, written before the refusal that is waited for
	if err := w.Serve(ctx, target.Address, &dataplane.Identity{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}); err != nil {
		t.Fatal(err)
	}
	operator := reader(t, a, dataplane.OperatorCommonName)
	kind := func(c *dataplane.Client, target dataplane.Target, service string, window int) (dataplane.ReadKind, error) {
		_, err := c.Connects(ctx, target, "demo", service, window, 10)
		var e *dataplane.ReadError
		if errors.As(err, &e) {
			return e.Kind, err
		}
		return "", err
	}
	for range 2 {
		if got, err := kind(operator, target, "web", 30); got != dataplane.Untrusted {
			t.Errorf("without a certificate: %v", err)
		}
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no handshake can succeed") || !strings.Contains(got, "tls.crt") {
		t.Errorf("without a certificate the log says, of two handshakes:\n%s", got)
	}
	mount(t, dir, a, dataplane.AgentServerName)
	c, err := operator.Connects(ctx, target, "demo", "web", 30, 10)
	if err != nil || c.Window.Histogram.Total() != 3 || c.Record.All.Latency.Total() != 3 || !c.Record.Started.Equal(began) || c.Window.WindowSeconds != 30 {
		t.Errorf("%+v, %v", c, err)
	}
	sidecar := target
	sidecar.ServerName = dataplane.SidecarServerName("web", "demo")
	for name, c := range map[string]struct {
		client  *dataplane.Client
		target  dataplane.Target
		service string
		window  int
		want    dataplane.ReadKind
		says    string
	}{
		"another certificate of the authority": {reader(t, a, dataplane.AgentServerName), target, "web", 30, dataplane.Untrusted, ""},
		"another authority":                    {reader(t, other, dataplane.OperatorCommonName), target, "web", 30, dataplane.Untrusted, ""},
		"an agent for a sidecar":               {reader(t, a, dataplane.OperatorCommonName), sidecar, "web", 30, dataplane.Untrusted, ""},
		"a Service without an address":         {operator, target, "other", 30, dataplane.Refused, "the node knows no address that CRAB serves for Service demo/other"},
		"a window too long":                    {operator, target, "web", 601, dataplane.Refused, "must be an integer in 1..600; got \"601\""},
	} {
		if got, err := kind(c.client, c.target, c.service, c.window); got != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s %q", name, err, c.want, c.says)
		}
	}
	if err := w.Serve(ctx, target.Address, &dataplane.Identity{}); err == nil {
		t.Error("a port that is taken")
	}
}

// Whoever holds handshakes open holds so many and no more; others get in as soon as
// one is given up.
func TestConnectionsAreBounded(t *testing.T) {
	w, a, dir, port := begin(t, &kernel{}), authority(t), t.TempDir(), freePort(t)
	mount(t, dir, a, dataplane.AgentServerName)
	target := dataplane.AgentTarget("127.0.0.1", port)
	if err := w.Serve(t.Context(), target.Address, &dataplane.Identity{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	read := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := reader(t, a, dataplane.OperatorCommonName)
		defer c.CloseIdle()
		_, err := c.Connects(ctx, target, "demo", "web", 30, 1)
		return err
	}
	held := make([]net.Conn, connectionsMost)
	for i := range held {
		if i == len(held)-1 {
			if err := read(2 * time.Second); err != nil {
				t.Fatalf("with %d connections that say nothing: %v", i, err)
			}
		}
		var err error
		if held[i], err = net.Dial("tcp", target.Address); err != nil {
			t.Fatal(err)
		}
		defer held[i].Close()
	}
	if err := read(time.Second); err == nil {
		t.Errorf("one more than %d is served", connectionsMost)
	}
	held[0].Close()
	if err := read(2 * time.Second); err != nil {
		t.Errorf("after one is given up: %v", err)
	}
}

func TestOtherPaths(t *testing.T) {
	k := &kernel{}
	w := begin(t, k)
	k.err = errors.New("the map is gone")
	time.Sleep(2 * fresh)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/metrics", 404}, {"POST", dataplane.ConnectsPath, 404}, {"GET", dataplane.ConnectsPath + "?windowSeconds=0", 400},
		{"GET", dataplane.ConnectsPath + "?parts=61", 400},
		{"GET", dataplane.ConnectsPath + "?namespace=demo&service=web&windowSeconds=5", 503},
	} {
		out := httptest.NewRecorder()
		r, err := http.NewRequest(c.method, c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.ServeHTTP(out, r)
		if out.Code != c.want || !strings.Contains(out.Body.String(), `"error"`) {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, out.Code, out.Body, c.want)
		}
	}
}
