// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"encoding/base64"
	"fmt"
)

// Kubeconfig renders a kubeconfig that carries its credentials inside.
func Kubeconfig(server string, ca []byte, p Pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: bobtail
  cluster:
    server: %q
    certificate-authority-data: %s
users:
- name: user
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: bobtail
  context: {cluster: bobtail, user: user}
current-context: bobtail
`, server, b64(ca), b64(p.Cert), b64(p.Key)))
}
