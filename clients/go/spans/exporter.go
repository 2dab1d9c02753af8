// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Exporter sends spans to an OTLP receiver, in batches, in the background. What the
// receiver does not take is retried for a while, then lost and counted; requests
// never wait.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	out      *otlptrace.Exporter
	pile     *pile
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// NewExporter sends by HTTP with protobuf to a URL such as http://collector:4318;
// without a path it is /v1/traces. Service names the program in every span.
func NewExporter(ctx context.Context, endpoint, service string, attributes ...attribute.KeyValue) (*Exporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("OTLP endpoint %q: must be a URL such as http://collector:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("OTLP endpoint %q: %w", endpoint, err)
	}
	attributes = append(attributes, attribute.String("service.name", service))
	p := &pile{out: out}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(p), sdktrace.WithIDGenerator(fromContext{}), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(attributes...)),
	)
	life, stop := context.WithCancel(context.Background())
	e := &Exporter{provider: provider, tracer: provider.Tracer("github.com/bobtail-dev/bobtail"), out: out, pile: p, stop: stop}
	e.running.Go(func() { p.run(life) })
	return e, nil
}

// Close sends what is left, as long as ctx allows.
func (e *Exporter) Close(ctx context.Context) error {
	e.stop()
	e.running.Wait()
	return errors.Join(e.provider.Shutdown(ctx), e.out.Shutdown(ctx))
}

// Lost is how many spans the receiver did not take.
func (e *Exporter) Lost() uint64 { return e.pile.lost.Load() }

// span is one to be sent.
type span struct {
	id         uint64
	self       trace.SpanID
	parent     trace.SpanID // zero: the root
	name       string
	kind       trace.SpanKind
	start, end time.Time
	attributes []attribute.KeyValue
	failure    string // "" is none
	links      []trace.Link
}

func (e *Exporter) send(s span) {
	ctx := context.WithValue(context.Background(), idsKey{}, s)
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: TraceID(s.id), SpanID: s.parent, TraceFlags: trace.FlagsSampled, Remote: true,
		}))
	}
	_, out := e.tracer.Start(ctx, s.name, trace.WithTimestamp(s.start), trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes...), trace.WithLinks(s.links...))
	if s.failure != "" {
		out.SetStatus(codes.Error, s.failure)
	}
	out.End(trace.WithTimestamp(s.end))
}

// fromContext gives a span the ids that follow from its request.
type fromContext struct{}

type idsKey struct{}

func (fromContext) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s, _ := ctx.Value(idsKey{}).(span) // send alone starts spans here
	return TraceID(s.id), s.self
}

func (fromContext) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	s, _ := ctx.Value(idsKey{}).(span)
	return s.self
}
