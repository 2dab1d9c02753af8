// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/latencyexperiment"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/programmableswitch"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/slo"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/switchboard"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
	"github.com/bobtail-dev/bobtail/operator/internal/features"
	"github.com/bobtail-dev/bobtail/operator/internal/switches"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/keeper"
	"github.com/bobtail-dev/bobtail/operator/internal/switches/link"
)

// newsOfSwitches is how many switches may have news at once; what finds no room is seen
// when the controller looks by itself.
const newsOfSwitches = 256

// switchKeeper looks after switches while this process leads, and has news of them.
type switchKeeper struct {
	keeper.Keeper
	news chan event.GenericEvent
}

func keeperOf(mgr ctrl.Manager, o Options) (*switchKeeper, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("ask for the name of this host: %w", err)
	}
	lead := &leadership{reader: mgr.GetAPIReader(), namespace: o.Namespace, host: host, alone: !o.LeaderElect, now: time.Now}
	k := &switchKeeper{news: make(chan event.GenericEvent, newsOfSwitches)}
	k.Keeper.Term, k.Keeper.Now, k.Keeper.Patience = lead.Term, time.Now, link.Usual
	k.Keeper.Period, k.Keeper.First, k.Keeper.Longest = keeper.Period, keeper.First, keeper.Longest
	k.Keeper.Notify = func(name string) {
		select {
		case k.news <- event.GenericEvent{Object: &v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
		default:
		}
	}
	return k, nil
}

// refusals is what a switch refused of a service, for objectives.
func (k *switchKeeper) refusals(name, namespace, service string) (slo.SwitchRefusals, bool) {
	c, known := k.Counts(name)[namespace+"/"+service]
	return slo.SwitchRefusals{Since: c.Since, Count: c.Refused()}, known
}

// measured is what a switch measured of a service, for objectives. It has no windows of the past: what was before this
// process began to read is not known.
func (k *switchKeeper) measured(name, namespace, service string, window time.Duration, parts int) (slo.SwitchMeasured, bool) {
	m, known := k.Measured(name)[namespace+"/"+service]
	if !known {
		return slo.SwitchMeasured{}, false
	}
	w := m.Window(time.Now(), window, parts)
	return slo.SwitchMeasured{
		Window: &dataplane.HistogramReply{WindowSeconds: int(window / time.Second), CoveredSeconds: int(w.Covered / time.Second),
			Histogram: w.Latency, Requests: w.Requests, Rejected: w.Refused, Parts: w.Parts},
		History: &dataplane.History{Started: m.Since, All: dataplane.HistoryWindow{Latency: m.Latency, Requests: m.Requests, Rejected: m.Refused}},
	}, true
}

// counted is what a switch counted of an experiment's load.
func (k *switchKeeper) counted(name, experiment string) (latencyexperiment.Reading, bool) {
	m, measured := k.Measured(name)[experiment]
	c, counted := k.Counts(name)[experiment]
	return latencyexperiment.Reading{At: m.At, Sent: c.By[switches.Sent], Received: c.By[switches.Received], Range: c.By[switches.OutOfRange],
		Strange: c.By[switches.Unmatched], Latency: m.Latency}, measured && counted
}

// addSwitches adds the controller of ProgrammableSwitches, and who looks after them.
func addSwitches(mgr ctrl.Manager, o Options, looksAfter *switchKeeper, board *switchboard.Board) error {
	if !o.CRAB {
		board.Ask(nil) // nobody redirects anything
	}
	shown, err := instrumentSwitches(&looksAfter.Keeper)
	if err != nil {
		return err
	}
	if err := mgr.Add(&looksAfter.Keeper); err != nil {
		return fmt.Errorf("look after switches: %w", err)
	}
	r := &programmableswitch.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Switches: &looksAfter.Keeper, News: looksAfter.news, Board: board,
		Events: mgr.GetEventRecorder("bobtail-operator"), Observe: shown.observe, Now: time.Now, Namespace: o.Namespace,
	}
	_, err = await(mgr, features.Switches, r.SetupWithManager)
	return err
}

// switchStates shows switches: it keeps what was observed last.
type switchStates struct {
	mu  sync.Mutex
	all map[string]keeper.State
	// readings are what a switch has counted and measured of its services, by namespace/name.
	readings readings
}

// readings of switches.
type readings interface {
	Counts(name string) map[string]keeper.Counted
	Measured(name string) map[string]keeper.Measured
}

func switchMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bobtail_switch_"+name, help, append([]string{"switch"}, labels...), nil)
}

var (
	switchConnected  = switchMetric("connected", "1 while the operator has a session with the switch.")
	switchPrimary    = switchMetric("primary", "1 while the operator is the switch's primary controller.")
	switchProgrammed = switchMetric("programmed", "1 when the last read-back found what is wanted.")
	switchEntries    = switchMetric("entries", "Entries of the switch by table, whoever wrote them.", "table")
	switchOthers     = switchMetric("entries_of_others", "Entries that are not the operator's.")
	switchRepaired   = switchMetric("entries_repaired_total", "Entries written again because the switch had lost or changed them.")
	switchPushes     = switchMetric("pipeline_pushes_total", "Pipelines pushed, each of which interrupts the switch.")
	switchShare      = switchMetric("refused_share", "Share of a class of a service that admission control has the switch refuse.", "namespace", "service", "class")
	switchRequests   = switchMetric("requests_total", "Packets of a service by what became of them at the switch, as it counted them.", "namespace", "service", "fate")
)

var switchMetrics = []*prometheus.Desc{switchConnected, switchPrimary, switchProgrammed, switchEntries, switchOthers, switchRepaired, switchPushes, switchRequests, switchShare}

// instrumentSwitches registers the metrics of switches.
func instrumentSwitches(from readings) (*switchStates, error) {
	s := &switchStates{all: map[string]keeper.State{}, readings: from}
	var already prometheus.AlreadyRegisteredError
	err := metrics.Registry.Register(s)
	if errors.As(err, &already) {
		if before, is := already.ExistingCollector.(*switchStates); is {
			before.mu.Lock()
			defer before.mu.Unlock()
			before.readings = from
			return before, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of switches: %w", err)
	}
	return s, nil
}

func (s *switchStates) observe(name string, state keeper.State, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known {
		delete(s.all, name)
		return
	}
	s.all[name] = state
}

// Describe is of prometheus.Collector.
func (s *switchStates) Describe(to chan<- *prometheus.Desc) {
	for _, d := range switchMetrics {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (s *switchStates) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, state := range s.all {
		for d, v := range map[*prometheus.Desc]float64{
			switchConnected: one(state.Connected), switchPrimary: one(state.Role.Primary), switchProgrammed: one(state.Settled),
			switchOthers: float64(state.Strange),
		} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
		}
		to <- prometheus.MustNewConstMetric(switchRepaired, prometheus.CounterValue, float64(state.Repaired), name)
		to <- prometheus.MustNewConstMetric(switchPushes, prometheus.CounterValue, float64(state.Pushes), name)
		for table, n := range state.Used {
			to <- prometheus.MustNewConstMetric(switchEntries, prometheus.GaugeValue, float64(n), name, table)
		}
		for of, counted := range s.readings.Counts(name) {
			namespace, service, _ := strings.Cut(of, "/")
			for fate, n := range counted.By {
				to <- prometheus.MustNewConstMetric(switchRequests, prometheus.CounterValue, float64(n), name, namespace, service, string(fate))
			}
		}
		for of, measured := range s.readings.Measured(name) {
			namespace, service, _ := strings.Cut(of, "/")
			for class, share := range measured.Shares {
				if share > 0 { // most are never refused
					to <- prometheus.MustNewConstMetric(switchShare, prometheus.GaugeValue, float64(share)/(1<<16), name, namespace, service, strconv.Itoa(class))
				}
			}
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
