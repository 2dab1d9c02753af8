// SPDX-License-Identifier: Apache-2.0

package agentlink

import (
	"context"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
)

// Configuration is the agent's operation "configure"; docs/reference/lancet-agent.md says
// what each field may be. Fields left out take the agent's defaults.
type Configuration struct {
	Protocol           string   `json:"protocol"`
	Targets            []string `json:"targets"`
	Role               string   `json:"role,omitempty"`
	Timestamps         string   `json:"timestamps,omitempty"`
	Device             string   `json:"device,omitempty"`
	Polling            string   `json:"polling,omitempty"`
	Threads            int      `json:"threads,omitempty"`
	Connections        int      `json:"connections,omitempty"`
	Outstanding        int      `json:"outstanding,omitempty"`
	TimeoutNanoseconds int64    `json:"timeoutNanoseconds,omitempty"`
	Arrivals           string   `json:"arrivals,omitempty"`
	TraceNanoseconds   []int64  `json:"traceNanoseconds,omitempty"`
	Seed               uint64   `json:"seed,omitempty"`
	RequestBytes       string   `json:"requestBytes,omitempty"`
	ReplyBytes         string   `json:"replyBytes,omitempty"`
	ServiceTime        string   `json:"serviceTime,omitempty"`
	Path               string   `json:"path,omitempty"`
	Host               string   `json:"host,omitempty"`
	Keys               int      `json:"keys,omitempty"`
	KeyOrder           string   `json:"keyOrder,omitempty"`
	KeyBytes           string   `json:"keyBytes,omitempty"`
	ValueBytes         string   `json:"valueBytes,omitempty"`
	Mix                string   `json:"mix,omitempty"`
	ReadRatio          *float64 `json:"readRatio,omitempty"`
	ScanLength         string   `json:"scanLength,omitempty"`
	Preload            bool     `json:"preload,omitempty"`
	TraceShare         float64  `json:"traceShare,omitempty"`
}

// Roles of an agent (L-1, L-2); without one it loads and samples.
const (
	RoleThroughput = "throughput"
	RoleLatency    = "latency"
)

// configured is what the agent made of it.
type configured struct {
	Timestamps  string `json:"timestamps"`
	BusyPoll    string `json:"busyPoll"`
	Streams     int    `json:"streams"`
	Connections int    `json:"connections"`
	Seed        uint64 `json:"seed"`
}

// setup is the longest that connecting and preloading may take (L-12).
const setup = 5 * time.Minute

// Configure tells the agent what to send where, and which of its latencies the
// experiment is about.
func (l *Link) Configure(ctx context.Context, c Configuration, latency lancet.Latency) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	request := struct {
		Operation string `json:"op"`
		Configuration
	}{"configure", c}
	if err := l.call(ctx, setup, request, &l.ready); err != nil {
		return fmt.Errorf("agent %s: configure: %w", l.Name, err)
	}
	if l.ready.Streams < 1 {
		return fmt.Errorf("agent %s: configure: answer has %d streams", l.Name, l.ready.Streams)
	}
	l.latest, l.loadOnly = latency, c.Role == RoleThroughput
	l.slots = l.ready.Connections * max(c.Outstanding, 1)
	return nil
}

// Timestamps is whose clock stamps the samples: software, kernel or hardware (L-57).
func (l *Link) Timestamps() string { return l.ready.Timestamps }

// BusyPoll tells whether the kernel polls for its sockets (L-2): "on", "off" for
// roles that do not ask for it, or "refused: " and why.
func (l *Link) BusyPoll() string { return l.ready.BusyPoll }
