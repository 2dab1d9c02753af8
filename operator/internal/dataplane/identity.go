// SPDX-License-Identifier: Apache-2.0

package dataplane

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
	"time"
)

// Identity is the serving certificate of whoever the operator reads, and the CA
// that signs the operator's own. The files are read again at every handshake: the
// kubelet replaces them when the operator rotates them, and handshakes are rare.
type Identity struct {
	Dir string // with the files of a Secret of type kubernetes.io/tls
	Log *slog.Logger

	mu     sync.Mutex
	text   [3][]byte // what config was made from
	config *tls.Config
	said   time.Time // when the log was last told that files are unusable
}

// sayEvery keeps callers, who may be anybody, from filling the log.
const sayEvery = time.Minute

// The files in the TLS directory, as `kubernetes.io/tls` secrets name them.
var identityFiles = [3]string{"tls.crt", "tls.key", "ca.crt"}

// Check fails when the files are unusable now, so that a broken mount shows at
// start.
func (i *Identity) Check() error {
	_, err := i.current()
	return err
}

// ServerConfig returns the listener's configuration. While there are no usable
// files, every handshake fails.
func (i *Identity) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return i.current()
		},
	}
}

// current returns the newest usable configuration. Between two of the three
// files being replaced they do not match; then the last good one serves on.
func (i *Identity) current() (*tls.Config, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var text [3][]byte
	for n, name := range identityFiles {
		data, err := os.ReadFile(filepath.Join(i.Dir, name))
		if err != nil {
			return i.lastGood(fmt.Errorf("read the serving certificate: %w", err))
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
		return i.lastGood(fmt.Errorf("%s: %w", i.Dir, err))
	}
	i.text, i.config = text, c
	return c, nil
}

func (i *Identity) lastGood(err error) (*tls.Config, error) {
	if now := time.Now(); i.said.IsZero() || now.Sub(i.said) >= sayEvery {
		i.said = now
		if i.config == nil {
			i.Log.Warn("certificate files unusable: no handshake can succeed until they are there", "error", err)
		} else {
			i.Log.Warn("certificate files unusable, the last good ones serve on", "error", err)
		}
	}
	if i.config == nil {
		return nil, err
	}
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
// the sidecars of every service and of the agents.
func onlyTheOperator(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("a client certificate is required")
	}
	if cn := s.PeerCertificates[0].Subject.CommonName; cn != OperatorCommonName {
		return fmt.Errorf("client certificate is for %q, only %q may read", cn, OperatorCommonName)
	}
	return nil
}
