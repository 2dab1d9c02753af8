// SPDX-License-Identifier: Apache-2.0

// Package definition is the YAML load definition: what is sent where, how much of
// it, and how well the answer must be known. Its targets, interarrival and load
// are read by every generator; protocol, connections, requests and measurement are
// Lancet's, switch is that of a switch that generates load (SLOG). One file may have
// both. docs/guides/lancet.md shows every field.
package definition

import (
	"fmt"
	"net"
	"strconv"

	"sigs.k8s.io/yaml"
)

// Definition is one file.
type Definition struct {
	Targets      []Target     `json:"targets,omitzero"`
	Protocol     string       `json:"protocol,omitzero"`
	Load         Load         `json:"load,omitzero"`
	Interarrival Interarrival `json:"interarrival,omitzero"`
	Connections  Connections  `json:"connections,omitzero"`
	Requests     Requests     `json:"requests,omitzero"`
	Measurement  Measurement  `json:"measurement,omitzero"`
	Traces       Traces       `json:"traces,omitzero"`
	Switch       *Switch      `json:"switch,omitzero"`
	Seed         uint64       `json:"seed,omitzero"` // 0: another one every time
}

// Target is one address of the service.
type Target struct {
	Host   string `json:"host,omitzero"`
	Port   int    `json:"port,omitzero"`
	Weight int    `json:"weight,omitzero"` // share of the connections; default 1
}

// Load holds exactly one pattern.
type Load struct {
	RequestsPerSecond float64 `json:"requestsPerSecond,omitzero"` // one load, qualified
	Sweep             *Sweep  `json:"sweep,omitzero"`             // several, each qualified
	Steps             []Step  `json:"steps,omitzero"`             // a load that changes, followed
	Sine              *Sine   `json:"sine,omitzero"`              // the same, as a wave
}

// Sweep is evenly spaced loads from the first to the last.
type Sweep struct {
	From   float64 `json:"fromRequestsPerSecond,omitzero"`
	To     float64 `json:"toRequestsPerSecond,omitzero"`
	Points int     `json:"points,omitzero"`
}

// Step is one load for a while.
type Step struct {
	RequestsPerSecond float64 `json:"requestsPerSecond,omitzero"`
	Seconds           float64 `json:"seconds,omitzero"`
}

// Sine is mean + amplitude · sin(2πt ÷ period), in steps.
type Sine struct {
	Mean      float64 `json:"meanRequestsPerSecond,omitzero"`
	Amplitude float64 `json:"amplitudeRequestsPerSecond,omitzero"`
	Period    float64 `json:"periodSeconds,omitzero"`
	Seconds   float64 `json:"seconds,omitzero"`
	Step      float64 `json:"stepSeconds,omitzero"` // default 1
}

// Interarrival is the distribution of the gaps between requests.
type Interarrival struct {
	Kind            string   `json:"kind,omitzero"` // exponential (default), fixed, table, bimodal
	GapsNanoseconds []int64  `json:"gapsNanoseconds,omitzero"`
	Bimodal         *Bimodal `json:"bimodal,omitzero"`
}

// Bimodal is gaps of two lengths, one drawn for each request; how long they are
// follows from the load.
type Bimodal struct {
	LongShare float64 `json:"longShare,omitzero"` // of the gaps
	Ratio     float64 `json:"ratio,omitzero"`     // of a long gap to a short one
}

// Connections are those of each agent.
type Connections struct {
	Count               int    `json:"count,omitzero"`
	Outstanding         int    `json:"outstanding,omitzero"`
	Threads             int    `json:"threads,omitzero"`
	TimeoutMicroseconds int64  `json:"timeoutMicroseconds,omitzero"`
	Polling             string `json:"polling,omitzero"`
	Timestamps          string `json:"timestamps,omitzero"`
	Device              string `json:"device,omitzero"`
}

// Requests is the workload. Distributions are written as in docs/reference/lancet-agent.md:
// "fixed:64", "exp:1000", "fb-value" …
type Requests struct {
	RequestBytes string   `json:"requestBytes,omitzero"`
	ReplyBytes   string   `json:"replyBytes,omitzero"`
	ServiceTime  string   `json:"serviceTimeNanoseconds,omitzero"`
	Path         string   `json:"path,omitzero"`
	Host         string   `json:"host,omitzero"`
	Keys         int      `json:"keys,omitzero"`
	KeyOrder     string   `json:"keyOrder,omitzero"`
	KeyBytes     string   `json:"keyBytes,omitzero"`
	ValueBytes   string   `json:"valueBytes,omitzero"`
	Mix          string   `json:"mix,omitzero"`
	ReadRatio    *float64 `json:"readRatio,omitzero"`
	ScanLength   string   `json:"scanLength,omitzero"`
	Preload      bool     `json:"preload,omitzero"`
}

// Traces are spans of some of the measured requests; off when left out.
type Traces struct {
	Share        float64 `json:"share,omitzero"`        // of the samples that carry a trace id
	OTLPEndpoint string  `json:"otlpEndpoint,omitzero"` // where their spans go
}

// Measurement says how well the answer must be known. Zero fields take the
// method's constants (docs/reference/protocol.md, L-20…L-49).
type Measurement struct {
	Latency           string  `json:"latency,omitzero"`    // response (default), service
	Percentile        float64 `json:"percentile,omitzero"` // of 100; default 99
	ConfidencePercent float64 `json:"confidencePercent,omitzero"`
	WidthMicroseconds float64 `json:"widthMicroseconds,omitzero"`
	Samples           int     `json:"samples,omitzero"`
	SamplingRate      float64 `json:"samplingRate,omitzero"`
	Rounds            int     `json:"rounds,omitzero"`
	LimitSeconds      float64 `json:"limitSeconds,omitzero"`
	SettleSeconds     float64 `json:"settleSeconds,omitzero"`
	ArrivalGaps       int     `json:"arrivalGaps,omitzero"` // of each agent that are compared with the distribution; default 500
	// LatencyAgents only measure, the other agents only make the load; 0: all do both.
	LatencyAgents            int     `json:"latencyAgents,omitzero"`
	LatencyRequestsPerSecond float64 `json:"latencyRequestsPerSecond,omitzero"` // of each at most; default 4,000
}

// Parse reads a definition; a field it does not know is an error.
func Parse(raw []byte) (Definition, error) {
	var d Definition
	if err := yaml.UnmarshalStrict(raw, &d); err != nil {
		return d, fmt.Errorf("load definition: %w (docs/guides/lancet.md lists the fields)", err)
	}
	return d, nil
}

// Address is what an agent is given.
func (t Target) Address() string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }

// ParseTarget reads "HOST:PORT".
func ParseTarget(text string) (Target, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w; write HOST:PORT, an IPv6 address in brackets", text, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || host == "" {
		return Target{}, fmt.Errorf("target %q: write HOST:PORT with a number as the port", text)
	}
	return Target{Host: host, Port: n}, nil
}
