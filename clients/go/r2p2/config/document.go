// SPDX-License-Identifier: Apache-2.0

// Package config is the dataplane configuration document: the one JSON text
// that tells every router and server of an RpcService who belongs to it and
// how requests are balanced. The operator renders it into a ConfigMap, the
// sidecar hands it over the control socket, routers and servers (in C and in
// Go) apply it whole or reject it whole with the field at fault.
package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// APIVersion is the version of the document this package reads and writes.
const APIVersion = "dataplane.bobtail.dev/v1"

// Bounds of the document; the C parser enforces the same ones.
const (
	MaxWorkerQueueDepth     = 64
	MaxCentralQueueLimit    = 1048576
	MaxQueueMilliseconds    = 600000
	MaxTimeoutMilliseconds  = 600000
	MaxWorkersPerReplica    = 64
	MaxWorkers              = 1024 // over all members
	MaxRouters              = 16
	MaxSources              = 64
	MaxKeyIDs               = 2 // two keys are live during a rotation
	MaxHoldBackPackets      = 1024
	MaxHoldBackMicroseconds = 1000000
	MaxAdmissionMicros      = 100000000
	MinAdmissionPercentile  = 50000
	MaxAdmissionPercentile  = 99990
	MaxClass                = 7
	MaxProbePerMillion      = 1000000
	MaxWaitMicroseconds     = 10000000
	MaxBatchSize            = 1024
	MaxCores                = 64
)

// Document is the whole configuration of one RpcService.
type Document struct {
	APIVersion string   `json:"apiVersion"`
	Sources    []Source `json:"sources"`
	Service    Service  `json:"service"`
	Members    []Member `json:"members"`
	Routers    []Router `json:"routers"`
	// KeyIDs names the keys (files in the key directory) that must be present
	// before this document may be applied. 1..255, at most two. The first one
	// signs, all of them verify.
	KeyIDs []int `json:"keyIds"`
}

// Source is one API object the document was made from.
type Source struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Service says how requests are balanced. Durations carry their unit in the name.
type Service struct {
	Name                       string   `json:"name"`
	Namespace                  string   `json:"namespace"`
	Placement                  string   `json:"placement"`
	Policy                     string   `json:"policy"`
	WorkerQueueDepth           int      `json:"workerQueueDepth"`
	CentralQueueLimit          int      `json:"centralQueueLimit"`
	MaxQueueMilliseconds       int      `json:"maxQueueMilliseconds"`
	Forwarding                 string   `json:"forwarding"`
	DeviceProfile              string   `json:"deviceProfile"`
	LegacyPeers                string   `json:"legacyPeers"`
	RequestTimeoutMilliseconds int      `json:"requestTimeoutMilliseconds"`
	WorkersPerReplica          int      `json:"workersPerReplica"`
	HoldBack                   HoldBack `json:"holdBack"`
	// Admission is admission control at the routers; nil: none.
	Admission *Admission `json:"admission,omitempty"`
	// Hedging is when routers send hedged requests; nil: never.
	Hedging *Hedging `json:"hedging,omitempty"`
	// FlowControl is what servers tell clients that ask how much they may send; nil: nothing.
	FlowControl *FlowControl `json:"flowControl,omitempty"`
	// Scheduling is how a server's threads share its requests; nil: as the server is built.
	Scheduling *Scheduling `json:"scheduling,omitempty"`
}

// Scheduling is what servers that know of it do with their cores (D-3, D-4, D-6).
type Scheduling struct {
	Mode string `json:"mode"`
	// BatchSize is how many packets a thread takes at once.
	BatchSize int `json:"batchSize"`
	// MinCores run always, up to MaxCores as the load wants.
	MinCores int `json:"minCores"`
	MaxCores int `json:"maxCores"`
	// Ordering is PerRequest, or PerClient: requests of a client one after the other.
	Ordering string `json:"ordering"`
}

// FlowControl is how long requests may wait (F-1…F-8).
type FlowControl struct {
	// WaitMicroseconds is the longest wait, of the percentile
	// PercentilePer100000 (99000: p99).
	WaitMicroseconds    int `json:"waitMicroseconds"`
	PercentilePer100000 int `json:"percentilePer100000"`
	// Model is Refined, or Paper as published.
	Model string `json:"model"`
}

// Hedging says when a router sends a request a second time (R-249…R-252). It
// needs policy JBSQ.
type Hedging struct {
	Mode string `json:"mode"`
	// BusyPercent of the workers may be busy when a copy begins.
	BusyPercent int `json:"busyPercent"`
	// BudgetPercent is the most copies, of requests.
	BudgetPercent int `json:"budgetPercent"`
	// PercentilePer100000 of the response time is what mode Delayed waits
	// before a copy (95000: p95).
	PercentilePer100000 int `json:"percentilePer100000"`
	// ProbePerMillion requests are copied at once to measure jitter.
	ProbePerMillion int `json:"probePerMillion"`
	// Cancellation says when the other copy is taken back;
	// empty: never.
	Cancellation string `json:"cancellation,omitempty"`
}

// Admission is the objective that routers enforce, and how (R-205…R-225).
type Admission struct {
	Mode       string `json:"mode"`
	Controller string `json:"controller"`
	// LatencyMicroseconds is the objective, of the percentile
	// PercentilePer100000 (99000: p99).
	LatencyMicroseconds int `json:"latencyMicroseconds"`
	PercentilePer100000 int `json:"percentilePer100000"`
	// DroppableClasses may be refused, the lowest ones first: 0…3 are the
	// policies of the header, 4…7 priorities.
	DroppableClasses []int `json:"droppableClasses"`
}

// HoldBack bounds how many packets wait for an idle worker, and for how long
// zero packets turn it off.
type HoldBack struct {
	Packets      int `json:"packets"`
	Microseconds int `json:"microseconds"`
}

// Member is one server pod: Workers consecutive UDP ports from FirstPort, each
// of them one worker.
type Member struct {
	Address   string `json:"address"`
	FirstPort int    `json:"firstPort"`
	Workers   int    `json:"workers"`
	Name      string `json:"name"`
}

// Router is one router replica.
type Router struct {
	Address      string `json:"address"`
	RequestPort  int    `json:"requestPort"`
	FeedbackPort int    `json:"feedbackPort"`
	Name         string `json:"name"`
}

// DeviceProfiles are the kinds of device whose timers the dataplane knows. The words
// of the other enumerations are the API's (zz_generated_words.go).
var DeviceProfiles = []string{"Kernel", "AFXDP", "SRIOV"}

// FieldError is a rejection: the field at fault by its path ("members[2].address",
// empty when the text is no document at all) and what to do about it.
type FieldError struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// CodeInvalid is the Code of every FieldError made by this package.
const CodeInvalid = "InvalidConfig"

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

func invalid(field, format string, args ...any) *FieldError {
	return &FieldError{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Canonical returns the one text of the document: lists sorted (members by
// name and port, because that order gives the sticky policy its master) but
// for keyIds, whose order says which key signs; absent lists as [], no white space. Equal documents give equal bytes.
func (d *Document) Canonical() ([]byte, error) {
	c := *d
	c.Sources = sorted(d.Sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	c.Members = sorted(d.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.FirstPort, b.FirstPort))
	})
	c.Routers = sorted(d.Routers, func(a, b Router) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	if a := d.Service.Admission; a != nil {
		own := *a
		own.DroppableClasses = sorted(a.DroppableClasses, cmp.Compare[int])
		c.Service.Admission = &own
	}
	c.KeyIDs = append(make([]int, 0, len(d.KeyIDs)), d.KeyIDs...)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&c); err != nil {
		return nil, fmt.Errorf("render the dataplane configuration: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func sorted[T any](in []T, order func(a, b T) int) []T {
	out := append(make([]T, 0, len(in)), in...)
	slices.SortStableFunc(out, order)
	return out
}

// Hash is the lowercase hex SHA-256 of the exact text of a document.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
