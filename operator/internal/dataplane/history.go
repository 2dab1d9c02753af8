// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"time"
)

// History is the answer of GET /v1/history: what a sidecar has seen its
// dataplane measure since it began to look, and over the windows of the error
// budgets (one hour, one day).
type History struct {
	// Started is when the record began, by the clock of the sidecar's node;
	// zero while nothing was recorded. It tells records apart: a sidecar that
	// was restarted begins anew.
	Started time.Time `json:"started"`
	// All is everything since then; WindowSeconds is 0.
	All HistoryWindow `json:"all"`
	// Windows, the shortest first.
	Windows []HistoryWindow `json:"windows"`
}

// HistoryWindow is one span of time up to now.
type HistoryWindow struct {
	WindowSeconds int `json:"windowSeconds"`
	// CoveredSeconds is how far back this one reaches: less than the window
	// while the record is young, up to five minutes more later.
	CoveredSeconds int        `json:"coveredSeconds"`
	Latency        *Histogram `json:"latency"`
	Requests       uint64     `json:"requests"` // arrived
	Rejected       uint64     `json:"rejected"` // answered by DROP
}

// History reads the long record of one sidecar.
func (c *Client) History(ctx context.Context, t Target) (*History, error) {
	out := &History{}
	if err := c.get(ctx, t, "/v1/history", nil, out); err != nil {
		return nil, err
	}
	if err := out.check(); err != nil {
		return nil, &ReadError{Kind: Garbled, Target: t, Err: err}
	}
	return out, nil
}

// check refuses an answer whose histograms a caller would trip over.
func (h *History) check() error {
	if h.Started.IsZero() {
		return nil
	}
	if h.All.Latency == nil {
		return errors.New("the answer's `all` holds no histogram")
	}
	for _, w := range h.Windows {
		if w.Latency == nil {
			return errors.New("one of the answer's `windows` holds no histogram")
		}
	}
	return nil
}
