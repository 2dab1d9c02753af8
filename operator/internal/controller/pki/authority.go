// SPDX-License-Identifier: Apache-2.0

// Package pki is the operator's own certificate authority: it lets sidecars
// know the operator and the operator know sidecars, and nobody else. Nothing
// here serves users, so no other authority is involved.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Lifetimes. A certificate is renewed when a third of its life is left.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 90 * 24 * time.Hour
	clientLife    = 24 * time.Hour
	// backdate forgives clocks that disagree.
	backdate = 10 * time.Minute
)

// Keys of the Secrets, the ones of type kubernetes.io/tls.
const (
	KeyCertificate = "tls.crt"
	KeyPrivateKey  = "tls.key"
	KeyBundle      = "ca.crt"
)

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// bundle is what to trust: this authority first, then the ones before it
	// that have not expired.
	bundle []byte
}

// NewAuthority makes an authority valid from now on. What `previous` holds
// (PEM, may be empty) stays trusted until it expires.
func NewAuthority(now time.Time, previous []byte) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the authority's key: %w", err)
	}
	template := template("bobtail-ca", now, authorityLife)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the authority's certificate: %w", err)
	}
	bundle := append(encode("CERTIFICATE", der), unexpired(previous, now)...)
	return &Authority{certificate: certificate, key: key, bundle: bundle}, nil
}

// ParseAuthority reads what Data wrote.
func ParseAuthority(data map[string][]byte) (*Authority, error) {
	certificate, err := firstCertificate(data[KeyCertificate])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KeyCertificate, err)
	}
	block, _ := pem.Decode(data[KeyPrivateKey])
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", KeyPrivateKey)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", KeyPrivateKey, err)
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("%s does not belong to %s", KeyPrivateKey, KeyCertificate)
	}
	if !bytes.Contains(data[KeyBundle], encode("CERTIFICATE", certificate.Raw)) {
		return nil, fmt.Errorf("%s does not contain %s", KeyBundle, KeyCertificate)
	}
	return &Authority{certificate: certificate, key: key, bundle: data[KeyBundle]}, nil
}

// Data is the content of the authority's Secret.
func (a *Authority) Data() (map[string][]byte, error) {
	key, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("encode the authority's key: %w", err)
	}
	return map[string][]byte{
		KeyCertificate: encode("CERTIFICATE", a.certificate.Raw),
		KeyPrivateKey:  encode("EC PRIVATE KEY", key),
		KeyBundle:      a.bundle,
	}, nil
}

// Bundle is what peers trust, PEM.
func (a *Authority) Bundle() []byte { return a.bundle }

// Expiring says that a successor should be made.
func (a *Authority) Expiring(now time.Time) bool { return renewalDue(a.certificate, now) }

// Pool is the bundle for verification.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.bundle)
	return pool
}

// IssueServer makes the content of a sidecar's Secret for one DNS name.
func (a *Authority) IssueServer(name string, now time.Time) (map[string][]byte, error) {
	template := template(name, now, serverLife)
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	certificate, key, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{KeyCertificate: certificate, KeyPrivateKey: key, KeyBundle: a.bundle}, nil
}

// IssueClient makes a certificate that never leaves this process.
func (a *Authority) IssueClient(commonName string, now time.Time) (tls.Certificate, error) {
	template := template(commonName, now, clientLife)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	certificate, key, err := a.issue(template)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// Stale says why the content of a sidecar's Secret must be issued anew, and is
// empty when it need not.
func (a *Authority) Stale(data map[string][]byte, name string, now time.Time) string {
	certificate, err := firstCertificate(data[KeyCertificate])
	if err != nil {
		return "there is no certificate"
	}
	if _, err := tls.X509KeyPair(data[KeyCertificate], data[KeyPrivateKey]); err != nil {
		return "certificate and key do not belong together"
	}
	if certificate.CheckSignatureFrom(a.certificate) != nil {
		return "the authority has changed"
	}
	if certificate.VerifyHostname(name) != nil {
		return "the certificate is for another name"
	}
	if !bytes.Equal(data[KeyBundle], a.bundle) {
		return "the trusted authorities have changed"
	}
	if renewalDue(certificate, now) {
		return "the certificate nears its end"
	}
	return ""
}

func (a *Authority) issue(template *x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key for %s: %w", template.Subject.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key of %s: %w", template.Subject.CommonName, err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", raw), nil
}

func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("crypto/rand failed, which the Go runtime excludes: " + err.Error())
	}
	// A common name holds at most 64 characters; the DNS name is what counts.
	if len(name) > 64 {
		name = name[:64]
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"bobtail.dev"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
	}
}

func renewalDue(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3))
}

func unexpired(bundle []byte, now time.Time) []byte {
	var kept []byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept = append(kept, encode("CERTIFICATE", block.Bytes)...)
		}
	}
	return kept
}

func firstCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	return x509.ParseCertificate(block.Bytes)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
