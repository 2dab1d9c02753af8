// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"
)

var start = time.Now()

func authority(t *testing.T, now time.Time, previous []byte) *Authority {
	t.Helper()
	a, err := NewAuthority(now, previous)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func server(t *testing.T, a *Authority, name string, now time.Time) map[string][]byte {
	t.Helper()
	data, err := a.IssueServer(name, now)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// handshake connects a client and a server over a pipe.
func handshake(t *testing.T, client *tls.Config, server *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		b.Close()
		done <- err
	}()
	c := tls.Client(a, client)
	err := c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // in TLS 1.3 the server's verdict comes after the handshake
	}
	a.Close()
	if other := <-done; err == nil {
		err = other
	}
	return err
}

func configs(t *testing.T, operator *Authority, data map[string][]byte, name string) (client, srv *tls.Config) {
	t.Helper()
	certificate, err := operator.IssueClient("bobtail-operator", start)
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(data[KeyCertificate], data[KeyPrivateKey])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(data[KeyBundle])
	return &tls.Config{ServerName: name, RootCAs: operator.Pool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
		&tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
}

func TestOperatorAndSidecarTrustEachOther(t *testing.T) {
	a, stranger := authority(t, start, nil), authority(t, start, nil)
	data := server(t, a, "echo.demo.sidecar.bobtail.dev", start)
	client, srv := configs(t, a, data, "echo.demo.sidecar.bobtail.dev")
	if err := handshake(t, client, srv); err != nil {
		t.Errorf("the operator is not let in: %v", err)
	}
	wrong := client.Clone()
	wrong.ServerName = "other.demo.sidecar.bobtail.dev"
	if err := handshake(t, wrong, srv); err == nil {
		t.Error("a sidecar of another service passed for this one")
	}
	foreign, _ := configs(t, stranger, data, "echo.demo.sidecar.bobtail.dev")
	foreign.RootCAs = a.Pool()
	if err := handshake(t, foreign, srv); err == nil {
		t.Error("a client of another authority was let in")
	}
	anonymous := client.Clone()
	anonymous.Certificates = nil
	if err := handshake(t, anonymous, srv); err == nil {
		t.Error("a client without a certificate was let in")
	}
	// A sidecar's certificate is no client certificate: one pod cannot read
	// another.
	pod := client.Clone()
	pod.Certificates = srv.Certificates
	if err := handshake(t, pod, srv); err == nil {
		t.Error("a sidecar's certificate opened another sidecar")
	}
}

func TestAuthoritySurvivesItsSecret(t *testing.T) {
	a := authority(t, start, nil)
	data, err := a.Data()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	if why := b.Stale(server(t, a, "x", start), "x", start); why != "" {
		t.Errorf("what the first issued is stale to the second: %s", why)
	}
	for key, broken := range map[string][]byte{
		KeyCertificate: nil, KeyPrivateKey: []byte("x"), KeyBundle: nil,
	} {
		copied := map[string][]byte{}
		for k, v := range data {
			copied[k] = v
		}
		copied[key] = broken
		if _, err := ParseAuthority(copied); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("a broken %s: %v", key, err)
		}
	}
	other, err := authority(t, start, nil).Data()
	if err != nil {
		t.Fatal(err)
	}
	data[KeyPrivateKey] = other[KeyPrivateKey]
	if _, err := ParseAuthority(data); err == nil {
		t.Error("a foreign key passed")
	}
}

func TestStale(t *testing.T) {
	a := authority(t, start, nil)
	fresh := func() map[string][]byte { return server(t, a, "x.y", start) }
	with := func(key string, value []byte) map[string][]byte {
		d := fresh()
		d[key] = value
		return d
	}
	for _, c := range []struct {
		name string
		data map[string][]byte
		dns  string
		at   time.Time
		want string
	}{
		{"fresh", fresh(), "x.y", start, ""},
		{"nothing", nil, "x.y", start, "no certificate"},
		{"other name", fresh(), "x.z", start, "another name"},
		{"two thirds through", fresh(), "x.y", start.Add(serverLife*2/3 + time.Hour), "nears its end"},
		{"not yet", fresh(), "x.y", start.Add(serverLife*2/3 - time.Hour), ""},
		{"key of another", with(KeyPrivateKey, server(t, a, "x.y", start)[KeyPrivateKey]), "x.y", start, "belong together"},
		{"other authority", server(t, authority(t, start, nil), "x.y", start), "x.y", start, "authority has changed"},
		{"old bundle", with(KeyBundle, []byte("old")), "x.y", start, "trusted authorities"},
	} {
		if got := a.Stale(c.data, c.dns, c.at); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A successor is trusted beside its predecessor, until that one has expired.
func TestSuccessor(t *testing.T) {
	old := authority(t, start, nil)
	if old.Expiring(start.Add(authorityLife/2)) || !old.Expiring(start.Add(authorityLife*3/4)) {
		t.Error("an authority is replaced when a third of its life is left")
	}
	data := server(t, old, "x", start)
	next := authority(t, start, old.Bundle())
	if n := bytes.Count(next.Bundle(), []byte("BEGIN CERTIFICATE")); n != 2 {
		t.Fatalf("%d certificates in the bundle", n)
	}
	// The operator's old client certificate opens a sidecar that was issued
	// anew, and the other way round, so a rotation needs no order.
	client, srv := configs(t, old, server(t, next, "x", start), "x")
	client.RootCAs = next.Pool()
	if err := handshake(t, client, srv); err != nil {
		t.Errorf("old client, new sidecar: %v", err)
	}
	client, srv = configs(t, next, data, "x")
	srv.ClientCAs = next.Pool()
	if err := handshake(t, client, srv); err != nil {
		t.Errorf("new client, old sidecar with the new bundle: %v", err)
	}
	last := authority(t, start.Add(2*authorityLife), next.Bundle())
	if n := bytes.Count(last.Bundle(), []byte("BEGIN CERTIFICATE")); n != 1 {
		t.Errorf("%d certificates in the bundle after the others have expired", n)
	}
}

// A name longer than a common name may be still gets its certificate.
func TestLongName(t *testing.T) {
	a := authority(t, start, nil)
	name := strings.Repeat("a", 40) + "." + strings.Repeat("b", 63) + ".sidecar.bobtail.dev"
	if why := a.Stale(server(t, a, name, start), name, start); why != "" {
		t.Error(why)
	}
	for length, want := range map[int]int{63: 63, 64: 64, 65: 64} {
		if got := template(name[:length], start, time.Hour).Subject.CommonName; len(got) != want {
			t.Errorf("a common name of %d, of %d", len(got), length)
		}
	}
}
