// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
)

// AgentServerName is the subject alternative name of the agents' certificate. No
// sidecar of any service can have it (SidecarServerName).
const AgentServerName = "agent.bobtail.dev"

// ConnectsPath is where agents answer, with ?namespace=…&service=…&windowSeconds=…&parts=….
const ConnectsPath = "/v1/connects"

// Connects is that answer: how long the clients of one node waited for
// connections to one Service (SYN to established). Those that never came to stand
// are in no bucket but +Inf.
type Connects struct {
	// Node is whose clients these are; agents older than this field leave it out.
	Node string `json:"node,omitempty"`
	// Lost is how many waits of the window found no room to be counted: of clients of
	// the node, for connections to any Service.
	Lost uint64 `json:"lost,omitempty"`
	// Window is what was measured over the last seconds asked for, as far as this
	// life of the agent reaches, with its equal parts.
	Window HistogramReply `json:"window"`
	// Record is everything since the node's state was made, which outlives the
	// agent; it has no windows.
	Record History `json:"record"`
}

// AgentTarget is the agent of the node with that address.
func AgentTarget(nodeIP string, port int) Target {
	return Target{Address: net.JoinHostPort(nodeIP, strconv.Itoa(port)), ServerName: AgentServerName}
}

// Connects reads what one node's agent has measured for a Service.
func (c *Client) Connects(ctx context.Context, t Target, namespace, service string, windowSeconds, parts int) (*Connects, error) {
	q := url.Values{"namespace": {namespace}, "service": {service}, "windowSeconds": {strconv.Itoa(windowSeconds)}, "parts": {strconv.Itoa(parts)}}
	out := &Connects{}
	if err := c.get(ctx, t, ConnectsPath, q, out); err != nil {
		return nil, err
	}
	err := out.Record.check()
	if out.Window.Histogram == nil || slices.Contains(out.Window.Parts, nil) || out.Record.Started.IsZero() {
		err = errors.New("the answer's `window` or a part of it holds no histogram, or its `record` no beginning")
	}
	if err != nil {
		return nil, &ReadError{Kind: Garbled, Target: t, Err: err}
	}
	return out, nil
}
