// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ctl

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/config"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Options of Serve; the zero value is what a pod of an RpcService wants.
type Options struct {
	// Socket to listen on; default $BOBTAIL_CTL, else DefaultSocket.
	Socket string
	// KeyDir holds the service's keys; default $BOBTAIL_KEY_DIR, else
	// DefaultKeyDir.
	KeyDir string
	// Cache is the file that keeps the last good configuration, so that a
	// restarted container serves with no control plane; default
	// $BOBTAIL_CONFIG_CACHE, else none is kept.
	Cache string
	// Version of the program, shown to the sidecar.
	Version string
	// Log gets what has no other way to be told; default slog.Default.
	Log *slog.Logger
}

// DefaultKeyDir is where the key Secret is mounted in a pod.
const DefaultKeyDir = "/etc/bobtail/keys"

func (o Options) withDefaults() Options {
	o.Socket = firstOf(o.Socket, os.Getenv("BOBTAIL_CTL"), DefaultSocket)
	o.KeyDir = firstOf(o.KeyDir, os.Getenv("BOBTAIL_KEY_DIR"), DefaultKeyDir)
	o.Cache = firstOf(o.Cache, os.Getenv("BOBTAIL_CONFIG_CACHE"))
	o.Version = firstOf(o.Version, "devel")
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Serve makes s configurable by the sidecar of its pod: routers, keys, queue
// depth and timers come from the RpcService, and its state, counters and
// histograms go back. A configuration kept from an earlier life is put in
// force before Serve returns.
func Serve(s *r2p2.Server, o Options) (*Listener, error) {
	o = o.withDefaults()
	d := &service{server: s, options: o}
	if o.Cache != "" {
		if err := d.load(); err != nil {
			o.Log.Warn("the kept configuration is not usable; waiting for the sidecar", "file", o.Cache, "error", err)
		}
	}
	return Listen(o.Socket, d)
}

// service answers for an r2p2.Server.
type service struct {
	server  *r2p2.Server
	options Options

	mu   sync.Mutex
	hash string
	keys r2p2.Keyring
}

func (d *service) Hello() Hello {
	return Hello{Role: RoleServer, Version: d.options.Version, Incarnation: uint64(d.server.Incarnation()), PID: os.Getpid()}
}

func (d *service) Apply(doc *config.Document, text []byte, hash string) (bool, error) {
	unchanged, err := d.apply(doc, hash)
	if err == nil && !unchanged && d.options.Cache != "" {
		if err := replaceFile(d.options.Cache, text); err != nil {
			// In force all the same; only a restart would miss it.
			d.options.Log.Warn("the configuration could not be kept", "error", err)
		}
	}
	return unchanged, err
}

func (d *service) apply(doc *config.Document, hash string) (unchanged bool, err error) {
	var keys r2p2.Keyring
	for i, id := range doc.KeyIDs {
		ring, err := r2p2.ReadKeyring(d.options.KeyDir, []int{id})
		if err != nil {
			return false, &Error{CodeInvalidConfig, fmt.Sprintf("keyIds[%d]", i), err.Error()}
		}
		keys = append(keys, ring...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if hash == d.hash && equalKeys(keys, d.keys) {
		return true, nil
	}
	set := r2p2.Settings{Keys: keys, QueueDepth: doc.Service.WorkerQueueDepth, Profile: r2p2.Profile(doc.Service.DeviceProfile)}
	for _, r := range doc.Routers {
		ip, err := netip.ParseAddr(r.Address)
		if err != nil {
			return false, fmt.Errorf("router address %q: %w", r.Address, err)
		}
		set.Routers = append(set.Routers, r2p2.Router{
			Request: netip.AddrPortFrom(ip, uint16(r.RequestPort)), Feedback: netip.AddrPortFrom(ip, uint16(r.FeedbackPort)),
		})
	}
	if err := d.server.Apply(set); err != nil {
		return false, &Error{CodeInvalidConfig, "service", err.Error()}
	}
	d.hash, d.keys = hash, keys
	return false, nil
}

func equalKeys(a, b r2p2.Keyring) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (d *service) load() error {
	text, err := os.ReadFile(d.options.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	doc, err := config.Parse(text)
	if err != nil {
		return err
	}
	_, err = d.apply(doc, config.Hash(text))
	return err
}

// replaceFile writes a file so that a crash leaves the old or the new one.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(text); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (d *service) State() State {
	d.mu.Lock()
	hash := d.hash
	d.mu.Unlock()
	backlog := d.server.Backlog()
	st := State{Hash: hash, Draining: d.server.Leaving(), UptimeSeconds: d.server.Uptime().Seconds(), Backlog: &backlog}
	heard := map[netip.AddrPort]time.Time{}
	for i, a := range d.server.Addrs() {
		st.Workers = append(st.Workers, ServedWorker{Port: int(a.Port()), Backlog: d.server.WorkerBacklog(i)})
		for _, r := range d.server.Routers(i) {
			if last, seen := heard[r.Request]; !seen || r.Heard.After(last) {
				if !seen {
					st.Routers = append(st.Routers, RouterHeard{Address: r.Request.String()})
				}
				heard[r.Request] = r.Heard
			}
		}
	}
	for i := range st.Routers {
		r := &st.Routers[i]
		r.HeardMillisecondsAgo = -1
		if last := heard[netip.MustParseAddrPort(r.Address)]; !last.IsZero() {
			r.HeardMillisecondsAgo = time.Since(last).Milliseconds()
		}
	}
	return st
}

func (d *service) Counters() Counters {
	out := Counters{Counters: []Sample{}, Gauges: []Sample{
		{Name: "server_backlog", Value: float64(d.server.Backlog())},
		{Name: "server_workers", Value: float64(len(d.server.Addrs()))},
		{Name: "server_draining", Value: bit(d.server.Leaving())},
	}}
	for _, c := range d.server.Counters() {
		s := Sample{Name: c.Name, Value: float64(c.Count)}
		if c.Label != "" {
			s.Labels = map[string]string{c.Label: c.Value}
		}
		out.Counters = append(out.Counters, s)
	}
	return out
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (d *service) Histogram(name string, windowSeconds int, endSecond uint64) (Histogram, error) {
	var w *ll7.Window
	switch name {
	case HistogramLatency:
		w = d.server.Latency()
	case HistogramService:
		w = d.server.Service()
	default:
		return Histogram{}, &Error{CodeUnknownHistogram, "name", fmt.Sprintf("must be one of latency, service; got %q", name)}
	}
	sum := w.Last(windowSeconds, endSecond)
	return Histogram{
		Name: name, Source: SourceServer, WindowSeconds: windowSeconds, CoveredSeconds: sum.Covered, Histogram: sum.Histogram,
		Requests: sum.Arrived, Rejected: sum.Rejected, Second: w.Second(),
	}, nil
}

func (d *service) Leave() { d.server.Leave() }

// Traces are the server's traced requests.
func (d *service) Traces(after uint64) Traces {
	traces, next, lost := d.server.Traces(after, MaxTraces)
	out := Traces{Traces: []Trace{}, Next: next, Lost: lost, NowNanoseconds: uint64(d.server.Uptime())}
	for _, t := range traces {
		out.Traces = append(out.Traces, Trace{
			ID: fmt.Sprintf("%016x", t.ID), StartNanoseconds: uint64(t.Start), MiddleNanoseconds: uint64(t.Handed), EndNanoseconds: uint64(t.End),
			Client: t.Client.String(), Worker: t.Worker.String(), Request: t.Request, Routed: t.Routed, Dropped: t.Dropped,
		})
	}
	return out
}
