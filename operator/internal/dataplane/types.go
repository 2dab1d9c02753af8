// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the operator's and the sidecar's view of the dataplane:
// the configuration document, the control socket and the sidecar's HTTPS read.
//
// Document, histogram and messages are the public Go client's own types,
// because Go services in pods read and answer the same texts; one
// implementation keeps the two from drifting apart.
package dataplane

import (
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// The configuration document and its parts; see package config.
type (
	Config    = config.Document
	Source    = config.Source
	Service   = config.Service
	HoldBack  = config.HoldBack
	Admission = config.Admission
	Hedging   = config.Hedging
	// FlowControl is flow control by waiting time.
	FlowControl = config.FlowControl
	// Scheduling is how servers use their cores.
	Scheduling = config.Scheduling
	Member     = config.Member
	Router     = config.Router
	FieldError = config.FieldError
)

// ConfigAPIVersion is the only version of the document in use.
const ConfigAPIVersion = config.APIVersion

// Keys of the ConfigMap `<service>-dataplane`.
const (
	ConfigMapKeyConfig = "config.json"
	ConfigMapKeyHash   = "hash"
)

// AnnotationSameGeneration on that ConfigMap lists the hashes of earlier
// documents made from the same sources, newest first, with commas between them.
const AnnotationSameGeneration = "bobtail.dev/same-generation"

// Ports of a sidecar.
const (
	SidecarPort        = 9443
	SidecarMetricsPort = 9464
	// OperatorCommonName is the only client name the sidecar lets in.
	OperatorCommonName = "bobtail-operator"
)

// Histograms and the dataplane's answers; see packages ll7 and ctl.
type (
	Histogram     = ll7.Histogram
	Value         = ll7.Value
	State         = ctl.State
	WorkerState   = ctl.WorkerState
	RouterHeard   = ctl.RouterHeard
	HedgingState  = ctl.HedgingState
	FastPathState = ctl.FastPathState
	FlowState     = ctl.FlowState
	// SchedulingState is what the cores of a server do.
	SchedulingState = ctl.SchedulingState
	DeviceState     = ctl.DeviceState
	Hello           = ctl.Hello
	Counters        = ctl.Counters
	Sample          = ctl.Sample
	HistogramReply  = ctl.Histogram
	CtlError        = ctl.Error
)

// Words of DeviceState.Link that say something is amiss.
const (
	LinkDown = ctl.LinkDown
	LinkLost = ctl.LinkLost
)

// RenderConfig validates a document and returns its canonical text and the
// text's hash, the two values of the ConfigMap. The error is a *FieldError
// when the document breaks a bound.
func RenderConfig(c *Config) (text []byte, hash string, err error) {
	if err := c.Validate(); err != nil {
		return nil, "", err
	}
	text, err = c.Canonical()
	if err != nil {
		return nil, "", err
	}
	return text, config.Hash(text), nil
}

// ParseConfig reads and validates a document; the error is a *FieldError.
func ParseConfig(text []byte) (*Config, error) { return config.Parse(text) }

// HashConfig is the hash of a document's exact text.
func HashConfig(text []byte) string { return config.Hash(text) }

// ApplyError is the last configuration a dataplane (or the sidecar before it)
// refused.
type ApplyError struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
	// Hash of the refused configuration.
	Hash string `json:"hash"`
}

// SidecarState is the answer of GET /v1/state.
type SidecarState struct {
	Role string `json:"role"` // router or server, empty until the dataplane answered once
	// AppliedHash is the configuration the dataplane last acknowledged in its
	// present life; empty when none.
	AppliedHash string      `json:"appliedHash"`
	LastError   *ApplyError `json:"lastError"`
	// Dataplane is nil while the dataplane does not answer its socket.
	Dataplane      *State `json:"dataplane"`
	Incarnation    uint64 `json:"incarnation,omitempty"`
	SidecarVersion string `json:"sidecarVersion"`
	// KeyIDs are the packet keys that the acknowledged configuration names.
	KeyIDs []int `json:"keyIds,omitempty"`
	// Watch is how the sidecar fares with its ConfigMap; nil from sidecars older than
	// this field.
	Watch *WatchState `json:"watch,omitempty"`
}

// WatchState is how a sidecar fares with the ConfigMap it follows. Times are spans, so
// that no two clocks need agree.
type WatchState struct {
	// Hash of the document it read last; empty before the first one.
	Hash string `json:"hash"`
	// ReadSecondsAgo is when the API server last answered; -1: never.
	ReadSecondsAgo int64 `json:"readSecondsAgo"`
	// FailingSeconds is for how long every attempt has failed; 0 when the last did not.
	FailingSeconds int64 `json:"failingSeconds,omitempty"`
	// Status is the HTTP status of the last failure, 0 without an answer; Error is what
	// it said. Both are empty when the last attempt did not fail.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Failing says that the last attempt to read the ConfigMap failed.
func (w *WatchState) Failing() bool { return w != nil && w.Error != "" }
