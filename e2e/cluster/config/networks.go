// SPDX-License-Identifier: Apache-2.0

package config

import _ "embed" // for the manifest

// Networks is the manifest of what pods' further networks need in the API server.
//
//go:embed networks.yaml
var Networks string

// NetworksUser is as whom the nodes' plugin for them asks it.
const NetworksUser = "embedded-networks"
