// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIssuedCertificateVerifiesForItsNames(t *testing.T) {
	ca, err := NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ca.Issue(Subject{User: "system:node:a", Groups: []string{"system:nodes"}, DNS: []string{"a"}, IPs: []string{"10.99.0.11"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "system:node:a" || cert.Subject.Organization[0] != "system:nodes" || cert.IsCA {
		t.Errorf("subject %v, CA %v", cert.Subject, cert.IsCA)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		for _, name := range []string{"a", "10.99.0.11"} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("usage %v name %s: %v", usage, name, err)
			}
		}
	}
	if err := cert.VerifyHostname("b"); err == nil {
		t.Error("verifies for a name it does not carry")
	}
	if _, err := ca.Issue(Subject{User: "x", IPs: []string{"not an address"}}); err == nil {
		t.Error("a wrong address must be an error")
	}
}

func TestKubeconfigCarriesTheCredentials(t *testing.T) {
	k := string(Kubeconfig("https://127.0.0.1:1", []byte("CA"), Pair{Cert: []byte("C"), Key: []byte("K")}))
	for _, want := range []string{`server: "https://127.0.0.1:1"`, base64.StdEncoding.EncodeToString([]byte("CA")), "client-key-data: " + base64.StdEncoding.EncodeToString([]byte("K"))} {
		if !strings.Contains(k, want) {
			t.Errorf("%q is missing in\n%s", want, k)
		}
	}
}

func TestServiceAccountKeysBelongTogether(t *testing.T) {
	p, err := ServiceAccountKey()
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := pem.Decode(p.Cert)
	key, _ := pem.Decode(p.Key)
	if pub == nil || key == nil {
		t.Fatal("not PEM")
	}
	private, err := x509.ParseECPrivateKey(key.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.ParsePKIXPublicKey(pub.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !private.PublicKey.Equal(public) {
		t.Error("the public key is not the private key's")
	}
}

// An authority that was written signs on.
func TestAnAuthorityIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	path := func(f string) string { return filepath.Join(dir, f) }
	ca, err := NewCA("again")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(path, "ca"); err != nil {
		t.Fatal(err)
	}
	again, err := ReadCA(path, "ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := again.Issue(Subject{User: "late", IPs: []string{"10.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path("ca.key"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCA(path, "ca"); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("a key that is none: %v", err)
	}
}
