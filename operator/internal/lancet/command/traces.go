// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/operator/internal/lancet/agentlink"
)

// exportTime is what the receiver of spans gets to take the last ones.
const exportTime = 10 * time.Second

// trace sends the client's spans of traced samples. What it returns is called
// when no more come; where nothing is traced it does nothing.
func (o options) trace(ctx context.Context, links []*agentlink.Link, log io.Writer) (end func(), err error) {
	if o.definition.Traces.Share == 0 {
		return func() {}, nil
	}
	exporter, err := spans.NewExporter(ctx, o.definition.Traces.OTLPEndpoint, "lancet")
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		l.OnTraced = func(t agentlink.Traced) { exporter.Request(t.ID, t.Start, t.End, t.Failure) }
	}
	return func() {
		rest, done := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
		defer done()
		if err := exporter.Close(rest); err != nil {
			fmt.Fprintf(log, "lancet: %d spans were not taken: %v\n", exporter.Lost(), err)
		}
	}, nil
}
