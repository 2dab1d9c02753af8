// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/switchpeer"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
)

// issued is a certificate for 127.0.0.1 that ends then, and whoever trusts it.
func issued(t *testing.T, ends time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.Add(-2 * time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// A certificate that one side does not trust is told apart from a switch that is not there.
func TestCertificates(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	server, trusted := issued(t, soon)
	client, clients := issued(t, soon)
	_, others := issued(t, soon)
	expired, trustsExpired := issued(t, time.Now().Add(-time.Minute))
	for _, row := range []struct {
		name   string
		server *tls.Config
		client *tls.Config
		kind   Kind
	}{
		{"both trust", &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: trusted, ServerName: "127.0.0.1", Certificates: []tls.Certificate{client}}, ""},
		{"another authority", &tls.Config{Certificates: []tls.Certificate{server}}, &tls.Config{RootCAs: others, ServerName: "127.0.0.1"}, Certificate},
		{"another name", &tls.Config{Certificates: []tls.Certificate{server}}, &tls.Config{RootCAs: trusted, ServerName: "leaf.example"}, Certificate},
		{"expired", &tls.Config{Certificates: []tls.Certificate{expired}}, &tls.Config{RootCAs: trustsExpired, ServerName: "127.0.0.1"}, Certificate},
		{"none of ours", &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}, Certificate},
		{"ours is not trusted", &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: trusted, ServerName: "127.0.0.1", Certificates: []tls.Certificate{client}}, Certificate},
		{"TLS to a server in the clear", nil, &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}, Certificate},
		{"in the clear to a server with TLS", &tls.Config{Certificates: []tls.Certificate{server}}, nil, Unreachable},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := switchpeer.Start(switchpeer.Options{Device: 3, TLS: row.server})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stop()
			patience := Patience{Hello: 20 * time.Second, Call: time.Second, Push: time.Second}
			s, err := Open(context.Background(), Target{Endpoint: p.Address(), DeviceID: 3, TLS: row.client}, ElectionOf(1, 1), patience)
			var fault *Fault
			switch {
			case err == nil && row.kind == "":
				if !s.Role().Primary {
					t.Errorf("role %+v", s.Role())
				}
				s.Close()
			case err == nil:
				t.Error("connected")
				s.Close()
			case !errors.As(err, &fault) || fault.Kind != row.kind:
				t.Errorf("%v, want %s", err, row.kind)
			}
		})
	}
}

// What became of an update of a later batch has the place it was given at.
func TestLaterBatch(t *testing.T) {
	p, err := switchpeer.Start(switchpeer.Options{Device: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	info := testInfo(t)
	p.Load(info.P4, 1)
	p.Misbehave(func(f *switchpeer.Faults) { f.RefuseEvery = Batch + 3 })
	s, err := Open(context.Background(), Target{Endpoint: p.Address(), DeviceID: 3}, ElectionOf(1, 1), Usual)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []switches.Entry
	for n := range uint32(Batch + 10) {
		g, err := info.Group(n+1, []uint32{1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	d := switches.Compare(all, nil, switches.Owner{Tag: []byte("ours")}, nil)
	refused, err := s.Write(context.Background(), d.Steps[0])
	if err != nil || len(refused) != 1 || refused[0].Index != Batch+2 || len(p.Held()) != Batch+9 {
		t.Errorf("%v, %v, held %d", refused, err, len(p.Held()))
	}
}
