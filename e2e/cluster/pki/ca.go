// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificate authority, the certificates and the
// kubeconfigs of one cluster. They live as long as the cluster does.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// lifetime outlasts any test cluster; an hour back forgives clock steps.
const (
	lifetime  = 30 * 24 * time.Hour
	backdated = time.Hour
)

// Pair is a certificate and its key in PEM.
type Pair struct{ Cert, Key []byte }

// CA signs the cluster's certificates.
type CA struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject says whom a certificate names. Every certificate serves both ends of
// a connection, as a kubelet's does.
type Subject struct {
	User   string // common name
	Groups []string
	DNS    []string
	IPs    []string
}

func serial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}

// NewCA makes a self-signed authority.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	n, err := serial()
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-backdated), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pair, err := encode(der, key)
	return &CA{Pair: pair, cert: cert, key: key}, err
}

// ReadCA takes an authority up again that was written.
func ReadCA(path func(string) string, name string) (*CA, error) {
	var pair [2][]byte
	for i, suffix := range []string{".crt", ".key"} {
		b, err := os.ReadFile(path(name + suffix))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, fmt.Errorf("%s: not PEM", path(name+suffix))
		}
		pair[i] = block.Bytes
	}
	cert, err := x509.ParseCertificate(pair[0])
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(pair[1])
	if err != nil {
		return nil, err
	}
	whole, err := encode(pair[0], key)
	return &CA{Pair: whole, cert: cert, key: key}, err
}

// Issue signs a certificate for s.
func (ca *CA) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	n, err := serial()
	if err != nil {
		return Pair{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: s.User, Organization: s.Groups},
		NotBefore: time.Now().Add(-backdated), NotAfter: time.Now().Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    s.DNS, BasicConstraintsValid: true,
	}
	for _, text := range s.IPs {
		ip := net.ParseIP(text)
		if ip == nil {
			return Pair{}, fmt.Errorf("certificate of %s: %q is not an IP address", s.User, text)
		}
		tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, key.Public(), ca.key)
	if err != nil {
		return Pair{}, err
	}
	return encode(der, key)
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	k, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: k}),
	}, nil
}

// Write stores the pair as name.crt and name.key through the path function.
func (p Pair) Write(path func(string) string, name string) error {
	if err := os.WriteFile(path(name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path(name+".key"), p.Key, 0o600)
}

// ServiceAccountKey makes the key pair that signs service account tokens.
func ServiceAccountKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, err
	}
	pair, err := encode(nil, key)
	pair.Cert = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	return pair, err
}
