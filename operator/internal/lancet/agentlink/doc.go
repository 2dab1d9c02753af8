// SPDX-License-Identifier: Apache-2.0

// Package agentlink is the coordinator's end of the contract of
// docs/reference/lancet-agent.md: it starts bobtail-load on this machine or dials one
// elsewhere, proves that both know the secret, configures it, and offers it to
// the coordinator as a lancet.Agent.
package agentlink
