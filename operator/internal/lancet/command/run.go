// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

// wall is the coordinator's clock outside simulations.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// run makes the experiments of the definition with the agents of the options.
func run(ctx context.Context, o options, log io.Writer) (report.Document, error) {
	if o.quiet {
		log = io.Discard
	}
	links, err := o.connect(ctx)
	defer func() {
		for _, l := range links {
			_ = l.Close() // the load ends with the connection, however that ends
		}
	}()
	if err != nil {
		return report.Document{}, err
	}
	end, err := o.trace(ctx, links, log)
	if err != nil {
		return report.Document{}, err
	}
	defer end()
	document := o.document()
	agents := make([]lancet.Agent, len(links))
	for i, l := range links {
		c := o.definition.Configuration(i)
		c.TraceNanoseconds = o.definition.GapsOf(i, len(links))
		if err := l.Configure(ctx, c, o.definition.LatencyMeant()); err != nil {
			return document, err
		}
		agents[i] = l
		document.Agents = append(document.Agents, l.Name)
		document.Timestamps = append(document.Timestamps, l.Timestamps())
		document.BusyPoll = append(document.BusyPoll, l.BusyPoll())
	}
	if phases := o.definition.Phases(); phases != nil {
		return followed(ctx, o, document, phases, agents)
	}
	return qualified(ctx, o, document, agents, log)
}

// qualified runs one experiment a load. A load that cannot be measured at all ends
// the run; one that is inconclusive does not.
func qualified(ctx context.Context, o options, d report.Document, agents []lancet.Agent, log io.Writer) (report.Document, error) {
	for _, e := range o.definition.Experiments() {
		fmt.Fprintf(log, "lancet: %.0f requests/s …\n", e.Load)
		result, err := lancet.Run(ctx, e, agents, wall{})
		if len(result.Percentiles) > 0 {
			d.Points = append(d.Points, report.NewPoint(e.Load, result))
		}
		if err != nil {
			return d, fmt.Errorf("at %.0f requests/s: %w", e.Load, err)
		}
		fmt.Fprintf(log, "lancet: %.0f requests/s: %d round(s), %.0f s, conclusive: %v\n", e.Load, len(result.Rounds), result.Elapsed.Seconds(), result.Conclusive)
	}
	return d, nil
}

func followed(ctx context.Context, o options, d report.Document, phases []lancet.Phase, agents []lancet.Agent) (report.Document, error) {
	d.Changing = true
	intervals, err := lancet.Follow(ctx, o.definition.Template(), phases, agents)
	for _, i := range intervals {
		p := report.NewPoint(i.Load, i.Result)
		p.StartSeconds = i.Start.Seconds()
		d.Points = append(d.Points, p)
	}
	return d, err
}

func (o options) document() report.Document {
	e := o.definition.Template()
	d := report.Document{
		Protocol: o.definition.Protocol, Latency: string(o.definition.LatencyMeant()),
		Percentile: report.Percent(e.Percentile), Confidence: report.Percent(e.Confidence), LatencyAgents: e.LatencyAgents,
	}
	for _, t := range o.definition.Targets {
		d.Targets = append(d.Targets, t.Address())
	}
	return d
}

// connect dials the agents that were named and starts those of this machine.
func (o options) connect(ctx context.Context) ([]*agentlink.Link, error) {
	var token []byte
	if o.tokenFile != "" {
		raw, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--agent-token-file: %w", err)
		}
		token = bytes.TrimSuffix(raw, []byte("\n"))
	}
	// All at once: agents that wait for a coordinator do so at the same time.
	links, failed := make([]*agentlink.Link, len(o.agents)+o.local), make([]error, len(o.agents)+o.local)
	var wait sync.WaitGroup
	for i := range links {
		wait.Go(func() {
			if i < len(o.agents) {
				links[i], failed[i] = agentlink.DialWithin(ctx, o.agents[i], token, time.Duration(o.wait*float64(time.Second)))
			} else {
				links[i], failed[i] = agentlink.Start(ctx, o.program)
			}
		})
	}
	wait.Wait()
	links = slices.DeleteFunc(links, func(l *agentlink.Link) bool { return l == nil })
	return links, errors.Join(failed...)
}
