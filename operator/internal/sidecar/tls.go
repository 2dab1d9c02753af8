// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// identity is the serving certificate and the CA that signs the operator's,
// read again at every handshake: the kubelet replaces the files when the
// operator rotates them, and handshakes are rare.
type identity struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	text   [3][]byte // what config was made from
	config *tls.Config
}

// The files in the TLS directory, as `kubernetes.io/tls` secrets name them.
var identityFiles = [3]string{"tls.crt", "tls.key", "ca.crt"}

// serverConfig returns the listener's configuration, which asks identity at
// each handshake. It fails when the files are unusable now, so that a broken
// mount shows at start.
func (i *identity) serverConfig() (*tls.Config, error) {
	if _, err := i.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return i.current()
		},
	}, nil
}

// current returns the newest usable configuration. Between two of the three
// files being replaced they do not match; then the last good one serves on.
func (i *identity) current() (*tls.Config, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var text [3][]byte
	for n, name := range identityFiles {
		data, err := os.ReadFile(filepath.Join(i.dir, name))
		if err != nil {
			return i.lastGood(fmt.Errorf("read the sidecar's certificate: %w", err))
		}
		text[n] = data
	}
	same := i.config != nil
	for n := range text {
		same = same && bytes.Equal(text[n], i.text[n])
	}
	if same {
		return i.config, nil
	}
	c, err := newServerConfig(text)
	if err != nil {
		return i.lastGood(fmt.Errorf("%s: %w", i.dir, err))
	}
	i.text, i.config = text, c
	return c, nil
}

func (i *identity) lastGood(err error) (*tls.Config, error) {
	if i.config == nil {
		return nil, err
	}
	i.log.Warn("certificate files unusable, the last good ones serve on", "error", err)
	return i.config, nil
}

func newServerConfig(text [3][]byte) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return nil, fmt.Errorf("tls.crt and tls.key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text[2]) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{cert},
		ClientAuth:       tls.RequireAndVerifyClientCert,
		ClientCAs:        roots,
		VerifyConnection: onlyTheOperator,
		// A resumed session would outlive a rotated CA.
		SessionTicketsDisabled: true,
	}, nil
}

// onlyTheOperator keeps out the other certificates of the same CA, those of
// the sidecars of every service.
func onlyTheOperator(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("a client certificate is required")
	}
	if cn := s.PeerCertificates[0].Subject.CommonName; cn != dataplane.OperatorCommonName {
		return fmt.Errorf("client certificate is for %q, only %q may read", cn, dataplane.OperatorCommonName)
	}
	return nil
}
