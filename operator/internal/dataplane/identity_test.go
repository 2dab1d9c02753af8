// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
)

// Of whoever the same authority signs for, the operator alone may read.
func TestOnlyTheOperator(t *testing.T) {
	of := func(name string) *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	for name, c := range map[string]struct {
		shown []*x509.Certificate
		may   bool
	}{
		"nobody": {nil, false}, "the operator": {[]*x509.Certificate{of(OperatorCommonName)}, true}, "a sidecar": {[]*x509.Certificate{of("sidecar")}, false},
		"a sidecar before the operator": {[]*x509.Certificate{of("sidecar"), of(OperatorCommonName)}, false},
	} {
		if err := onlyTheOperator(tls.ConnectionState{PeerCertificates: c.shown}); (err == nil) != c.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}
