// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Seen is what the routers of a service measured in one window, all of them
// together: histograms are merged, never percentiles.
type Seen struct {
	Latency            *ll7.Histogram   // REQ0 to FEEDBACK, of what was admitted
	BySecond           []*ll7.Histogram // the same by seconds, the oldest first, if asked for
	Requests, Rejected uint64
}

// routerReply is what a router's sidecar answers on /v1/histogram.
type routerReply struct {
	CoveredSeconds int            `json:"coveredSeconds"`
	Histogram      *ll7.Histogram `json:"histogram"`
	Requests       uint64         `json:"requests"`
	Rejected       uint64         `json:"rejected"`
	// Parts of the window, if asked for: equal ones, the newest first.
	Parts []*ll7.Histogram `json:"parts"`
}

// Routers asks every router of a service for its last seconds.
func (e *Env) Routers(ctx context.Context, namespace, service string, window time.Duration) (Seen, error) {
	return e.routers(ctx, namespace, service, window, "")
}

// RoutersBySecond asks for the same and for each second of it, of at most 60.
func (e *Env) RoutersBySecond(ctx context.Context, namespace, service string, window time.Duration) (Seen, error) {
	seen, err := e.routers(ctx, namespace, service, window, fmt.Sprintf("&parts=%d", int(window.Seconds())))
	if err == nil && len(seen.BySecond) != int(window.Seconds()) {
		err = fmt.Errorf("the routers tell %d seconds of %s", len(seen.BySecond), window)
	}
	return seen, err
}

func (e *Env) routers(ctx context.Context, namespace, service string, window time.Duration, more string) (Seen, error) {
	pods, err := e.pods(ctx, namespace, "bobtail.dev/component=router,bobtail.dev/service="+service)
	if err != nil {
		return Seen{}, err
	}
	var texts [][]byte
	for _, pod := range pods {
		if pod.Status.Phase != "Running" {
			continue
		}
		text, err := e.ask(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:9464/proxy/v1/histogram?name=latency&windowSeconds=%d%s",
			namespace, pod.Metadata.Name, int(window.Seconds()), more))
		if err != nil {
			return Seen{}, fmt.Errorf("read the histogram of router %s: %w", pod.Metadata.Name, err)
		}
		texts = append(texts, text)
	}
	return mergeRouters(texts, window)
}

// mergeRouters adds up the answers of all routers to one question.
func mergeRouters(texts [][]byte, window time.Duration) (Seen, error) {
	if len(texts) == 0 {
		return Seen{}, errors.New("no router runs")
	}
	all := Seen{Latency: &ll7.Histogram{}}
	for i, text := range texts {
		var r routerReply
		if err := json.Unmarshal(text, &r); err != nil {
			return Seen{}, fmt.Errorf("router %d: decode its histogram: %w", i, err)
		}
		if r.Histogram == nil || r.CoveredSeconds < int(window.Seconds()) {
			return Seen{}, fmt.Errorf("router %d covers %d s of the %s asked for", i, r.CoveredSeconds, window)
		}
		all.Latency.Merge(r.Histogram)
		if i == 0 {
			all.BySecond = make([]*ll7.Histogram, len(r.Parts))
		}
		if len(r.Parts) != len(all.BySecond) {
			return Seen{}, fmt.Errorf("router %d tells %d parts of the %s asked for, others %d", i, len(r.Parts), window, len(all.BySecond))
		}
		mergeSeconds(all.BySecond, r.Parts)
		all.Requests += r.Requests
		all.Rejected += r.Rejected
	}
	return all, nil
}

// mergeSeconds adds those of one router, which come the newest first.
func mergeSeconds(all, newest []*ll7.Histogram) {
	for back, part := range newest {
		at := len(newest) - 1 - back
		if all[at] == nil {
			all[at] = &ll7.Histogram{}
		}
		all[at].Merge(part)
	}
}

// Microseconds of a percentile; +Inf when it falls on unanswered requests, NaN of
// nothing.
func Microseconds(h *ll7.Histogram, percentile string) float64 {
	if h == nil {
		h = &ll7.Histogram{}
	}
	v, err := h.Percentile(percentile)
	if err != nil {
		panic(err) // the percentile is written in the tests
	}
	return v.Microseconds()
}
