// SPDX-License-Identifier: Apache-2.0

package config

import (
	_ "embed" // for the manifest
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/cluster/netns"
)

//go:embed coredns.yaml
var corednsManifest string

// CoreDNSImage is the name under which nodes know the DNS server's image.
func CoreDNSImage(version string) string { return "localhost/bobtail/embedded-coredns:" + version }

// CoreDNS renders the manifests of the cluster DNS.
func CoreDNS(version string) string {
	return strings.NewReplacer("IMAGE", CoreDNSImage(version), "DNSIP", netns.DNSServiceIP).Replace(corednsManifest)
}
