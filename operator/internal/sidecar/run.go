// SPDX-License-Identifier: Apache-2.0

// Package sidecar is the program between the API server and one dataplane: it
// follows the one ConfigMap its Role allows, hands each configuration to the
// dataplane over the control socket, answers the operator over mutual TLS and
// Prometheus in plain text. RPCs never wait for it: without a sidecar the
// dataplane serves on with what it has.
package sidecar

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/spans"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// version is set by the linker (-X); see Version.
var version = ""

// Version of this program: what the linker set, else "devel".
func Version() string {
	if version == "" {
		return "devel"
	}
	return version
}

// Options of the program.
type Options struct {
	Socket        string // control socket
	Namespace     string // of the ConfigMap
	Name          string // of the ConfigMap
	TLSDir        string // tls.crt, tls.key, ca.crt
	Listen        string // mutual TLS read
	MetricsListen string // metrics and health
	Network       NetworkOptions
	OTLPEndpoint  string // where spans of traced requests go; "" is nowhere
	NameFile      string // of a member of a group: give it a name, and nothing else
	Member        string // what that name begins with
	Cluster       Cluster
	Log           *slog.Logger

	// Ready, when set, learns the two addresses once they listen (tests).
	Ready func(read, metrics net.Addr)
}

// serviceName is that of the RpcService, whose ConfigMap is named after it.
func (o Options) serviceName() string { return strings.TrimSuffix(o.Name, "-dataplane") }

// ErrUsage marks a wrong command line: exit code 2.
var ErrUsage = errors.New("usage")

// ParseFlags reads the command line. It returns flag.ErrHelp for --help and
// --version after having printed.
func ParseFlags(args []string, out io.Writer) (Options, error) {
	var o Options
	var target string
	var showVersion bool
	f := flag.NewFlagSet("bobtail-sidecar", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.Socket, "ctl", ctl.DefaultSocket, "control socket of the dataplane")
	f.StringVar(&target, "configmap", "", "the ConfigMap to follow, as namespace/name (required)")
	f.StringVar(&o.TLSDir, "tls-dir", "/etc/bobtail/tls", "directory with tls.crt, tls.key and ca.crt")
	f.StringVar(&o.Listen, "listen", ":9443", "address of the read for the operator (mutual TLS)")
	f.StringVar(&o.MetricsListen, "metrics-listen", ":9464", "address of /metrics, /healthz, /readyz and, for kubectl bobtail, /v1/ (plain HTTP)")
	f.StringVar(&o.OTLPEndpoint, "otlp-endpoint", "", "`URL` of an OTLP receiver for the spans of traced requests, http://collector:4318; none are sent without")
	f.StringVar(&o.Network.Network, "network", "", "the network on which the pod is reached, as namespace/name; none: the pod network")
	f.StringVar(&o.Network.StatusFile, "network-status", "", "`file` with the annotation that tells its address there")
	f.StringVar(&o.Network.AddressFile, "address-file", "", "`file` to write that address to")
	f.BoolVar(&o.Network.PCIOptional, "pci-optional", false, "the annotation need not tell the PCI address: the program learns it from its device plugin, and compares")
	f.StringVar(&o.Network.PCIFile, "pci-file", "", "`file` to write the PCI address of the device to; none: it is not asked for")
	f.StringVar(&o.NameFile, "name-file", "", "give the disk that this `file` is on a name of its own, unless it has one, and exit")
	f.StringVar(&o.Member, "member", "", "what that name begins with: the name of the pod")
	f.BoolVar(&showVersion, "version", false, "print the version and exit")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if showVersion {
		fmt.Fprintln(out, "bobtail-sidecar", Version())
		return o, flag.ErrHelp
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected argument %q", ErrUsage, f.Arg(0))
	}
	if o.NameFile != "" {
		return o, o.checkName()
	}
	var ok bool
	o.Namespace, o.Name, ok = strings.Cut(target, "/")
	if !ok || o.Namespace == "" || o.Name == "" || strings.Contains(o.Name, "/") {
		return o, fmt.Errorf("%w: --configmap: must be namespace/name; got %q", ErrUsage, target)
	}
	return o, o.Network.check()
}

// Main is the whole program; it returns the exit code: 0 after a signal, 1
// when it cannot run, 2 for a wrong command line.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := ParseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && o.NameFile != "" {
		if err = giveName(o.NameFile, o.Member); err == nil {
			return 0
		}
	}
	if err == nil {
		o.Log = slog.New(slog.NewJSONHandler(stderr, nil))
		o.Cluster, err = InCluster()
	}
	if err == nil {
		// The heap is small and mostly short-lived answers: collect early
		// rather than hold memory in every pod.
		debug.SetGCPercent(50)
		err = Run(ctx, o)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrUsage):
		fmt.Fprintln(stderr, "bobtail-sidecar:", err, "(see --help)")
		return 2
	}
	fmt.Fprintln(stderr, "bobtail-sidecar:", err)
	return 1
}

type service struct {
	link          *link
	applier       *applier
	latency       *accumulator
	callers       *callers          // of the metrics port
	whose         map[string]string // labels of every series: the service's namespace and name
	watchFailures atomic.Uint64
	health        *health // of the watch
	tracer        *tracer // nil: off
	placer        *placer
	log           *slog.Logger
}

// Run serves until ctx ends, then finishes the requests in progress.
func Run(ctx context.Context, o Options) error {
	kube, err := newKubeClient(o.Cluster, o.Namespace, o.Name)
	if err != nil {
		return err
	}
	id := &dataplane.Identity{Dir: o.TLSDir, Log: o.Log}
	if err := id.Check(); err != nil {
		return err
	}
	l := &link{path: o.Socket}
	defer l.close()
	s := &service{
		link: l, applier: newApplier(l, o.Log), latency: newAccumulator(l), callers: newCallers(), log: o.Log,
		health: &health{now: time.Now}, placer: newPlacer(o.Network, o.Log),
		whose: map[string]string{"namespace": o.Namespace, "service": o.serviceName()},
	}
	read := &http.Server{Handler: s.readHandler(), TLSConfig: id.ServerConfig()}
	metrics := &http.Server{Handler: paced(s.callers, s.metricsHandler())}
	w := &watcher{
		kube: kube, log: o.Log, out: s.applier.set, health: s.health, failed: func() { s.watchFailures.Add(1) },
		minWait: time.Second, maxWait: 10 * time.Second,
	}
	loops := []func(context.Context){w.run, s.applier.run, s.latency.run, s.placer.run}
	if o.OTLPEndpoint != "" {
		exporter, err := spans.NewExporter(ctx, o.OTLPEndpoint, o.serviceName(), attribute.String("service.namespace", o.Namespace))
		if err != nil {
			return fmt.Errorf("%w: --otlp-endpoint: %w", ErrUsage, err)
		}
		s.tracer = &tracer{link: l, exporter: exporter, log: o.Log}
		loops = append(loops, s.tracer.run)
	}
	return s.serve(ctx, o, read, metrics, loops...)
}

// shutdownTime is what requests in progress get to finish.
const shutdownTime = 5 * time.Second

func (s *service) serve(ctx context.Context, o Options, read, metrics *http.Server, loops ...func(context.Context)) error {
	readOn, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	metricsOn, err := net.Listen("tcp", o.MetricsListen)
	if err != nil {
		readOn.Close()
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(func() { loop(ctx) })
	}
	for _, srv := range []*http.Server{read, metrics} {
		srv.ReadHeaderTimeout, srv.ReadTimeout = 5*time.Second, 5*time.Second
		srv.WriteTimeout, srv.IdleTimeout = 15*time.Second, 60*time.Second
		srv.MaxHeaderBytes = 16 << 10
		srv.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	}
	running.Go(func() { cancel(read.ServeTLS(readOn, "", "")) })
	running.Go(func() { cancel(metrics.Serve(limited{metricsOn, s.callers})) })
	if o.Ready != nil {
		o.Ready(readOn.Addr(), metricsOn.Addr())
	}
	o.Log.Info("sidecar started", "version", Version(), "read", readOn.Addr().String(), "metrics", metricsOn.Addr().String(),
		"configMap", o.Namespace+"/"+o.Name, "pid", os.Getpid())
	<-ctx.Done()
	end, done := context.WithTimeout(context.Background(), shutdownTime)
	defer done()
	_ = read.Shutdown(end)
	_ = metrics.Shutdown(end)
	cause := context.Cause(ctx)
	cancel(nil)
	running.Wait()
	if errors.Is(cause, context.Canceled) || errors.Is(cause, http.ErrServerClosed) {
		return nil
	}
	return cause
}
