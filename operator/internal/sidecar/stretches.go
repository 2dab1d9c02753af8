// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// maxParts is in how many stretches a window may be asked for.
const maxParts = 60

// histogram reads a window, and its parts in the same exchange where the dataplane
// tells them so.
func (s *service) histogram(ctx context.Context, name string, window, parts int) (*dataplane.HistogramReply, error) {
	if parts > 0 && parts <= ctl.MaxParts {
		out, err := ask(ctx, s.link, func(d *dataplane.Socket, ctx context.Context) (*dataplane.HistogramReply, error) {
			return d.HistogramInParts(ctx, name, window, parts)
		})
		var older *dataplane.CtlError
		if !errors.As(err, &older) || older.Field != "parts" {
			return out, err
		}
	}
	out, err := ask(ctx, s.link, histogramOf(name, window))
	if err == nil && parts > 0 {
		err = s.stretches(ctx, out, parts)
	}
	return out, err
}

// stretches reads a window again, in equal parts, the newest first, so that the
// reader sees how much they differ. They end where the dataplane's life began; one
// that keeps no seconds has none. The newest part holds what came in since the window
// was read, so the window becomes the sum of its parts: who compares them finds no
// difference that is none of theirs.
func (s *service) stretches(ctx context.Context, whole *dataplane.HistogramReply, parts int) error {
	sum := &dataplane.HistogramReply{Histogram: &ll7.Histogram{}}
	window := whole.WindowSeconds
	parts = min(parts, window)
	for i := range parts {
		from, to := window*i/parts, window*(i+1)/parts // seconds back
		if whole.Second <= uint64(from) {
			break
		}
		one, err := ask(ctx, s.link, func(d *dataplane.Socket, ctx context.Context) (*dataplane.HistogramReply, error) {
			return d.HistogramUntil(ctx, whole.Name, to-from, whole.Second-uint64(from))
		})
		if err != nil {
			return err
		}
		if one.CoveredSeconds == 0 {
			break
		}
		sum.Parts = append(sum.Parts, one.Histogram)
		sum.Histogram.Merge(one.Histogram)
		sum.Requests += one.Requests
		sum.Rejected += one.Rejected
	}
	if sum.Parts != nil {
		whole.Parts, whole.Histogram, whole.Requests, whole.Rejected = sum.Parts, sum.Histogram, sum.Requests, sum.Rejected
	}
	return nil
}
