// SPDX-License-Identifier: Apache-2.0

// Package ctl is the control protocol of Bobtail dataplanes: one JSON object
// per packet on a SOCK_SEQPACKET Unix socket. It holds the messages, shared
// with the sidecar and the operator, and the Server that makes a Go service
// configurable by its sidecar exactly as the C programs are.
package ctl

import (
	"encoding/json"
	"fmt"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

const (
	// Version is the "v" of every message.
	Version = 1
	// DefaultSocket is where a dataplane listens in a pod.
	DefaultSocket = "/run/bobtail/ctl.sock"
	// MaxInline is the longest message sent as plain text; a longer
	// configuration travels in a sealed memfd.
	MaxInline = 60 * 1024
	// MaxConfig is the longest configuration accepted at all.
	MaxConfig = 1 << 20
)

// Operations.
const (
	OpHello     = "hello"
	OpApply     = "apply"
	OpState     = "state"
	OpCounters  = "counters"
	OpHistogram = "histogram"
	OpLeave     = "leave"
	OpTraces    = "traces"
)

// Error codes; InvalidConfig is config.CodeInvalid.
const (
	CodeInvalidConfig      = config.CodeInvalid
	CodeInvalidRequest     = "InvalidRequest"
	CodeUnsupportedVersion = "UnsupportedVersion"
	CodeUnknownOperation   = "UnknownOperation"
	CodeUnknownHistogram   = "UnknownHistogram"
	CodeHashMismatch       = "HashMismatch"
	CodeInternal           = "Internal"
)

// Request is any message to a dataplane.
type Request struct {
	V             int             `json:"v"`
	Op            string          `json:"op"`
	Hash          string          `json:"hash,omitempty"`
	Config        json.RawMessage `json:"config,omitempty"`
	Memfd         bool            `json:"memfd,omitempty"`
	Size          int             `json:"size,omitempty"`
	Name          string          `json:"name,omitempty"`
	WindowSeconds int             `json:"windowSeconds,omitempty"`
	// EndSecond makes the window end with that second of the dataplane's clock,
	// included; 0 means the present one. A reader that adds windows up asks for
	// seconds that are over, each exactly once.
	EndSecond uint64 `json:"endSecond,omitempty"`
	// Parts asks for the window in so many equal stretches too, MaxParts at most; the
	// whole is their sum. A dataplane older than this field refuses it.
	Parts int `json:"parts,omitempty"`
	// After is how many traces the reader has had: "next" of the last answer.
	After uint64 `json:"after,omitempty"`
}

// Error is a refusal. Field is the path in the configuration or the name of
// the request's own field, empty when neither is at fault.
type Error struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %s", e.Code, e.Field, e.Message)
}

// Reply is the part every answer has.
type Reply struct {
	V     int    `json:"v"`
	OK    bool   `json:"ok"`
	Error *Error `json:"error,omitempty"`
}

// Outcome is that part, of whichever answer.
func (r Reply) Outcome() Reply { return r }

// Hello identifies a dataplane process. Incarnation changes at every start.
type Hello struct {
	Reply
	Role        string `json:"role"`
	Version     string `json:"version"`
	Incarnation uint64 `json:"incarnation"`
	PID         int    `json:"pid"`
}

// Roles.
const (
	RoleRouter = "router"
	RoleServer = "server"
	RoleLoad   = "load"
)

// Applied acknowledges a configuration.
type Applied struct {
	Reply
	Hash      string `json:"hash"`
	Unchanged bool   `json:"unchanged"`
}

// State is what a dataplane is doing now.
type State struct {
	Reply
	// Hash of the configuration in force, empty before the first one.
	Hash          string         `json:"hash"`
	Draining      bool           `json:"draining"`
	UptimeSeconds float64        `json:"uptimeSeconds"`
	Routers       []RouterHeard  `json:"routers,omitempty"` // server only
	Device        *DeviceState   `json:"device,omitempty"`  // absent on Linux sockets
	Members       []WorkerState  `json:"members,omitempty"` // router only, one entry per worker
	Queue         *QueueState    `json:"queue,omitempty"`
	Hedging       *HedgingState  `json:"hedging,omitempty"`     // router only
	FastPath      *FastPathState `json:"fastPath,omitempty"`    // router only, absent when nobody asked for it
	Backlog       *int           `json:"backlog,omitempty"`     // server only: requests accepted and not finished
	Workers       []ServedWorker `json:"workers,omitempty"`     // server only
	FlowControl   *FlowState     `json:"flowControl,omitempty"` // server only, absent without it
	// Scheduling is of a server whose threads schedule requests as it was asked to.
	Scheduling *SchedulingState `json:"scheduling,omitempty"`
}

// SchedulingState is what the threads of a server do. Cores are of all lanes.
type SchedulingState struct {
	Mode  string `json:"mode"`
	Lanes int    `json:"lanes"`
	// ActiveCores run now. At least MinCores and at most MaxCores may: what was asked
	// for, and no more than there are Processors.
	ActiveCores int `json:"activeCores"`
	MinCores    int `json:"minCores"`
	MaxCores    int `json:"maxCores"`
	Processors  int `json:"processors"`
	// Steals are turns in which a core took what another one had, Parks times that a
	// core was put to sleep, SlowHandlers those above 10 ms.
	Steals             uint64 `json:"steals"`
	Parks              uint64 `json:"parks"`
	SlowHandlers       uint64 `json:"slowHandlers"`
	LongestNanoseconds uint64 `json:"longestNanoseconds"`
}

// FlowState is what a server's flow control decided last, of the port that is
// closest to its limit; Refused, Silences and Clients are sums over all ports.
type FlowState struct {
	Throttling bool `json:"throttling"`
	// Alarm: service times differ so much that AdmittedMillionths says little (F-8).
	Alarm bool `json:"alarm"`
	// LoadMillionths is the load of a core, AdmittedMillionths the one at which the
	// objective is just met; 0: nothing is decided yet.
	LoadMillionths       uint64 `json:"loadMillionths"`
	AdmittedMillionths   uint64 `json:"admittedMillionths"`
	ServiceNanoseconds   uint64 `json:"serviceNanoseconds"`
	VariationThousandths uint64 `json:"variationThousandths"`
	Refused              uint64 `json:"refused"`
	Silences             uint64 `json:"silences"`
	Clients              uint64 `json:"clients"`
}

// HedgingState is what a router knows of the hedged requests it sends,
// and of how two executions of one request differ.
type HedgingState struct {
	Mode   string `json:"mode"`
	Copies uint64 `json:"copies"`
	Won    uint64 `json:"won"`
	// Cancelled copies were taken back; Preempted were asked for to make room
	// for a newcomer.
	Cancelled        uint64 `json:"cancelled"`
	Preempted        uint64 `json:"preempted"`
	DelayNanoseconds uint64 `json:"delayNanoseconds"`
	// BusyMillionths of the workers were busy with first copies of this router's,
	// in the mean over its last 256 arrivals or so.
	BusyMillionths     uint64 `json:"busyMillionths"`
	Compared           uint64 `json:"compared"`
	HiccupMillionths   uint64 `json:"hiccupMillionths"`
	HiccupNanoseconds  uint64 `json:"hiccupNanoseconds"`
	ServiceNanoseconds uint64 `json:"serviceNanoseconds"`
}

// DeviceState is the device that a program drives, as it found it. Nodes are those
// of NUMA; -1: nobody knows, or CPUs lie on several.
type DeviceState struct {
	Driver             string `json:"driver"`     // of DPDK
	PCIAddress         string `json:"pciAddress"` // empty: no PCI device
	MAC                string `json:"mac"`
	Link               string `json:"link"` // LinkUp, LinkDown or LinkLost; empty: an older program's
	MTU                int    `json:"mtu"`
	DeviceNode         int    `json:"deviceNode"`
	MemoryNode         int    `json:"memoryNode"`
	CPUNode            int    `json:"cpuNode"`
	HugepagesMebibytes int    `json:"hugepagesMebibytes"` // 0: ordinary memory
	CPUs               string `json:"cpus"`               // that it may run on: "2-3,6"
}

// Words of DeviceState.Link. Lost is a device that was taken away: the program is about to end.
const (
	LinkUp   = "Up"
	LinkDown = "Down"
	LinkLost = "Lost"
)

// FastPathState says whether a program in the kernel decides requests for a
// router. Reason is one word, Active or what stands against it.
type FastPathState struct {
	Active  bool   `json:"active"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// RouterHeard is a router as a server sees it; HeardMillisecondsAgo is -1 when
// it was never heard.
type RouterHeard struct {
	Address              string `json:"address"`
	HeardMillisecondsAgo int64  `json:"heardMillisecondsAgo"`
}

// ServedWorker is one worker of a server.
type ServedWorker struct {
	Port    int `json:"port"`
	Backlog int `json:"backlog"`
}

// WorkerState is one worker as a router sees it.
type WorkerState struct {
	Address                 string `json:"address"`
	Port                    int    `json:"port"`
	Joined                  bool   `json:"joined"`
	Eligible                bool   `json:"eligible"`
	Suspect                 bool   `json:"suspect"`
	Ejected                 bool   `json:"ejected"`
	N                       int    `json:"n"`
	Outstanding             int64  `json:"outstanding"`
	Sent                    uint64 `json:"sent"`
	Done                    uint64 `json:"done"`
	Lost                    uint64 `json:"lost"`
	Incarnation             uint64 `json:"incarnation"`
	FeedbackAgeMilliseconds int64  `json:"feedbackAgeMilliseconds"`
}

// QueueState is the central queue of a router.
type QueueState struct {
	Held  int `json:"held"`
	Limit int `json:"limit"`
}

// Sample is one counter or gauge.
type Sample struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

// Counters is every counter and gauge of a dataplane.
type Counters struct {
	Reply
	Counters []Sample `json:"counters"`
	Gauges   []Sample `json:"gauges"`
}

// MaxTraces is how many traces an answer holds at most.
const MaxTraces = 128

// Trace is one request that carried a trace id, in nanoseconds of the
// dataplane's clock. A router's: it arrived, it was forwarded, its FEEDBACK came. A
// server's: its first packet arrived, it was handed to the application, the last
// packet of the answer left.
type Trace struct {
	ID                string `json:"id"` // 16 hexadecimal digits
	StartNanoseconds  uint64 `json:"startNanoseconds"`
	MiddleNanoseconds uint64 `json:"middleNanoseconds"`
	EndNanoseconds    uint64 `json:"endNanoseconds"`
	Client            string `json:"client"`
	Worker            string `json:"worker"`
	Request           uint16 `json:"request"`
	Routed            bool   `json:"routed"`  // a server's: it came through a router
	Dropped           bool   `json:"dropped"` // it was not executed
}

// Traces are those behind the first After of the request. Next is the After of the
// next one; Lost is how many were overwritten before anybody asked.
type Traces struct {
	Reply
	Traces         []Trace `json:"traces"`
	Next           uint64  `json:"next"`
	Lost           uint64  `json:"lost"`
	NowNanoseconds uint64  `json:"nowNanoseconds"`
}

// Histogram names and sources.
const (
	HistogramLatency = "latency"
	HistogramHold    = "hold"
	HistogramService = "service"

	SourceRouter = "Router"
	SourceServer = "Server"
	SourceClient = "Client"
)

// Histogram is one histogram over the last WindowSeconds whole seconds.
// CoveredSeconds is less when the dataplane is younger than the window.
type Histogram struct {
	Reply
	Name           string         `json:"name"`
	Source         string         `json:"source"`
	WindowSeconds  int            `json:"windowSeconds"`
	CoveredSeconds int            `json:"coveredSeconds"`
	Histogram      *ll7.Histogram `json:"histogram"`
	Requests       uint64         `json:"requests"` // arrived in the window
	Rejected       uint64         `json:"rejected"` // answered by DROP in the window
	// Second is the dataplane's clock, the present second; it is 0 from a
	// dataplane that does not take EndSecond.
	Second uint64 `json:"second,omitempty"`
	// Parts are the same requests in equal stretches of the window, the newest
	// first, as far back as the dataplane lives. No dataplane sends them: a sidecar
	// reads them one by one for a reader that asks for them.
	Parts []*ll7.Histogram `json:"parts,omitempty"`
}

// MaxParts is in how many stretches a dataplane tells a window.
const MaxParts = 20

// MaxWindowSeconds is how far back the dataplane's slices reach.
const MaxWindowSeconds = 600

// Draining acknowledges leave.
type Draining struct {
	Reply
	Draining bool `json:"draining"`
}
