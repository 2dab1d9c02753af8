// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

// planOptions are the flags of plan.
type planOptions struct {
	rate                   float64
	latency                time.Duration
	percentile             string
	service                string
	roundTrip              time.Duration
	perReplica             int
	simulator              string
	simulateFor            time.Duration
	router                 v1alpha1.RpcServiceRouter
	overhead               time.Duration
	overheadFrom           string // who says so
	samples                uint64 // service times that were measured
	distribution, meanText string
}

const planHelp = `Replicas, workers, cores and queue depth for a rate within an objective.

With slo/NAME the objective, the policy, the workers of a replica and the service
times that its servers measured over ten minutes are taken; flags override them.
Without it, --latency and --service say all there is to know.

The answer is three numbers of workers: "at least", below which even the best model
misses the objective, "surely", at which the worst one meets it, and "simulated",
which is what the policy itself needs in bobtail-sim with these service times; it
also finds n. Arrivals are taken as Poisson and workers as having a core each; keep
some room for bursts.`

func planCommand(s streams, connect connector) *cobra.Command {
	o := planOptions{percentile: "99", overheadFrom: "--overhead", perReplica: 1, router: v1alpha1.RpcServiceRouter{Policy: v1alpha1.PolicyJBSQ, WorkerQueueDepth: 3}}
	var form format
	cmd := &cobra.Command{
		Use: "plan [slo/NAME] --rate=RPS", Short: "Replicas, queue depth and cores for a target", Long: planHelp, Args: takes(0, 1, "slo/NAME, or nothing"),
		ValidArgsFunction: objectiveNames(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.check(); err != nil {
				return err
			}
			q, err := question(cmd, o, args, connect)
			if err != nil {
				return err
			}
			return plan(cmd.Context(), s, form, q)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.rate, "rate", 0, "requests a second (required)")
	f.DurationVar(&o.latency, "latency", 0, "the objective, such as 300us")
	f.StringVar(&o.percentile, "percentile", o.percentile, "percentile of the objective")
	f.StringVar(&o.service, "service", "", "service times as NAME:MEAN, such as exponential:10us; deterministic, exponential, bimodal1")
	f.DurationVar(&o.roundTrip, "round-trip", 0, "router to worker and back, such as 15us: for the queue depth n")
	f.DurationVar(&o.overhead, "overhead", 0, "what a request takes besides waiting and service, such as the network; default: as measured for the objective")
	f.IntVar(&o.perReplica, "workers-per-replica", o.perReplica, "workers of one server pod")
	f.StringVar((*string)(&o.router.Policy), "policy", string(o.router.Policy), v1alpha1.RouterPolicyNames())
	f.StringVar(&o.simulator, "simulator", "", "path of bobtail-sim, which simulates the policy; default: that of the PATH, none to leave it out")
	f.DurationVar(&o.simulateFor, "simulate-for", 2*time.Minute, "how long the simulator may take before the closed forms have to do")
	form.flag(cmd)
	return cmd
}

// planned is a question with everything resolved.
type planned struct {
	planOptions
	queueing.Question
	from string // where the service times come from
}

// question takes what the objective says and lets flags override it.
func question(cmd *cobra.Command, o planOptions, args []string, connect connector) (*planned, error) {
	out := &planned{planOptions: o}
	if len(args) == 1 {
		if err := out.fromObjective(cmd, args[0], connect); err != nil {
			return nil, err
		}
	}
	if o.service != "" {
		var err error
		if out.Service, err = out.named(o.service); err != nil {
			return nil, err
		}
		out.from, out.samples = o.service, 0
	}
	if err := out.check(); err != nil {
		return nil, err
	}
	var err error
	if out.Policy, out.Depth, err = queueing.OfRouter(out.router); err != nil {
		return nil, err
	}
	out.P, err = quantile(out.percentile)
	out.Limit, out.Overhead = out.latency.Seconds(), out.overhead.Seconds()
	return out, err
}

func (p *planned) check() error {
	switch {
	case !(p.rate > 0) || math.IsInf(p.rate, 1):
		return errors.New("--rate: must be above 0 requests a second, and finite")
	case p.latency <= 0:
		return errors.New("--latency: must be given, such as 300us, or an objective as slo/NAME")
	case len(p.Service.Seconds) == 0:
		return errors.New("--service: must be given, such as exponential:10us: no service time was measured")
	case p.overhead < 0 || p.roundTrip < 0:
		return errors.New("--overhead, --round-trip: must not be below 0")
	case p.perReplica < 1 || p.perReplica > 64:
		return fmt.Errorf("--workers-per-replica: must be 1 to 64; got %d", p.perReplica)
	}
	if _, known := p.router.Policy.Traits(); !known {
		return fmt.Errorf("--policy: must be %s; got %q", v1alpha1.RouterPolicyNames(), p.router.Policy)
	}
	return nil
}

func (p *planned) fromObjective(cmd *cobra.Command, arg string, connect connector) error {
	name, err := objectName(arg)
	if err != nil {
		return err
	}
	c, err := connect()
	if err != nil {
		return err
	}
	slo, service, err := c.objective(cmd.Context(), name)
	if err != nil {
		return err
	}
	if overTCP(service) {
		return fmt.Errorf("RpcService %s speaks TCP, and nobody measures its service times: leave out slo/%s, and give --latency and --service", service.Name, name)
	}
	o, err := c.observe(cmd.Context(), service, 600)
	if err != nil {
		return err
	}
	for _, u := range o.unread {
		fmt.Fprintln(cmd.ErrOrStderr(), "Service times are incomplete:", u)
	}
	given := cmd.Flags().Changed
	if !given("latency") {
		p.latency = time.Duration(slo.Spec.LatencyMicroseconds) * time.Microsecond
	}
	if !given("percentile") {
		p.percentile = slo.Spec.Percentile
	}
	if !given("workers-per-replica") {
		p.perReplica = int(service.Spec.WorkersPerReplica)
		if c := service.Spec.Scheduling; c != nil {
			p.perReplica = int(c.MaxCores)
		}
	}
	policy := p.router.Policy
	p.router = service.Spec.Router
	if given("policy") { // which needs a router
		p.router.Policy, p.router.Placement = policy, v1alpha1.PlacementSoftware
	}
	if e := slo.Status.Capacity; e != nil && e.OverheadMicroseconds != nil && !given("overhead") {
		p.overhead = time.Duration(*e.OverheadMicroseconds) * time.Microsecond
		p.overheadFrom = "status.capacity.overheadMicroseconds of " + slo.Name
	}
	p.Service, p.samples = queueing.FromHistogram(&o.service), o.service.Total()
	p.from = fmt.Sprintf("%d measured by the servers of %s", o.service.Total(), service.Name)
	return nil
}

// named makes one of the published distributions, as a sample large enough to
// leave no doubt about itself.
func (p *planned) named(text string) (queueing.Service, error) {
	name, mean, ok := strings.Cut(text, ":")
	d, err := time.ParseDuration(mean)
	if !ok || err != nil || d <= 0 {
		return queueing.Service{}, fmt.Errorf("--service: must be NAME:MEAN, such as exponential:10us; got %q", text)
	}
	p.distribution, p.meanText = name, fmt.Sprintf("%g", d.Seconds()*1e6)
	s := d.Seconds()
	switch name {
	case "deterministic":
		return queueing.Service{Seconds: []float64{s}, Weights: []float64{1e9}}, nil
	case "bimodal1":
		return queueing.Service{Seconds: []float64{0.5 * s, 5.5 * s}, Weights: []float64{9e8, 1e8}}, nil
	case "exponential":
		return exponentialTimes(s), nil
	}
	return queueing.Service{}, fmt.Errorf("--service: must be deterministic, exponential or bimodal1; got %q", name)
}

// exponentialTimes is cut into cells of equal width up to 1e-10 of the requests,
// each at the mean of its own: the mean stays exact, and p99.99 has cells beyond it.
func exponentialTimes(mean float64) (out queueing.Service) {
	const cells, width = 23 * 16, 1.0 / 16
	within := 1 - width/math.Expm1(width) // mean of a cell, from its lower end
	for i := range cells {
		from := float64(i) * width
		out.Seconds = append(out.Seconds, mean*(from+within))
		out.Weights = append(out.Weights, 1e10*math.Exp(-from)*-math.Expm1(-width))
	}
	return out
}

// Bounds of an RpcService: replicas, and workers of its router set, of which a
// rollout needs one replica's.
const mostReplicas, setWorkers = 256, 1024

// most is how many workers a service of such replicas may have.
func (p *planned) most() int { return min(mostReplicas, setWorkers/p.perReplica-1) * p.perReplica }

// fewest workers, from a number below which there is no use in asking, for which
// enough holds; 0 when not even the most do.
func fewest(from, most int, enough func(workers int) bool) int {
	low, high := max(1, from), max(1, from)
	for high > most || !enough(high) {
		if high >= most {
			return 0
		}
		low, high = high+1, min(2*high, most)
	}
	for low < high {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// planRow is one number of workers, with what it means.
type planRow struct {
	Name     string  `json:"name"`
	Workers  int     `json:"workers"`
	Replicas int     `json:"replicas"`
	Cores    int     `json:"cores"`
	Busy     float64 `json:"busyShare"`
	Low      float64 `json:"capacityLowRequestsPerSecond"`
	High     float64 `json:"capacityHighRequestsPerSecond"`
}

// planFacts is the answer for programs. Rows without workers are those that no number
// that fits meets.
type planFacts struct {
	RequestsPerSecond    float64   `json:"requestsPerSecond"`
	Percentile           string    `json:"percentile"`
	LatencyMicroseconds  float64   `json:"latencyMicroseconds"`
	OverheadMicroseconds float64   `json:"overheadMicroseconds"`
	ServiceTimes         string    `json:"serviceTimes"`
	MeanMicroseconds     float64   `json:"serviceMeanMicroseconds"`
	SquaredVariation     float64   `json:"serviceSquaredVariation"`
	Placing              string    `json:"placing"`
	Careful              string    `json:"careful,omitempty"`
	Answers              []planRow `json:"answers"`
	Notes                []string  `json:"notes,omitempty"`
}

func (p *planned) estimate(workers int) queueing.Estimate {
	q := p.Question
	q.Workers = workers
	return queueing.Capacity(q)
}

// plan answers; in text what the answer rests on comes before the simulator has ended.
func plan(ctx context.Context, s streams, f format, p *planned) error {
	busy := int(min(p.rate*p.Service.Mean(), setWorkers)) // workers that never rest
	least := fewest(busy, p.most(), func(k int) bool { return p.estimate(k).High >= p.rate })
	surely := 0
	if least > 0 {
		surely = fewest(least, p.most(), func(k int) bool { return p.estimate(k).Low >= p.rate })
	}
	if f == asText {
		p.printQuestion(s.out)
	}
	if least == 0 {
		return p.refusal(p.estimate)
	}
	sim, err := p.simulate(ctx)
	if err != nil {
		return err
	}
	facts := p.facts(least, surely, sim)
	return f.print(s, facts, func() error { return printAnswers(s.out, facts) })
}

func (p *planned) printQuestion(out io.Writer) {
	mean := time.Duration(p.Service.Mean() * 1e9)
	fmt.Fprintf(out, "service times: %s; mean %s, c² %.2f, p%s %s\n", p.from, short(mean), p.Service.SquaredVariation(), p.percentile, short(serviceQuantile(p)))
	fmt.Fprintf(out, "asked for:     %.0f requests/s with p%s within %s, %s", p.rate, p.percentile, short(p.latency), p.placing())
	if p.overhead > 0 {
		fmt.Fprintf(out, ", overhead %s", short(p.overhead))
	}
	fmt.Fprint(out, "\n")
	if doubt := p.unsure(); doubt != "" {
		fmt.Fprintln(out, "careful:      ", doubt)
	}
	fmt.Fprintln(out)
}

// facts: what the closed forms say and, where it was asked, the simulator.
func (p *planned) facts(least, surely int, sim *simulation) planFacts {
	out := planFacts{RequestsPerSecond: p.rate, Percentile: p.percentile, LatencyMicroseconds: p.latency.Seconds() * 1e6, OverheadMicroseconds: p.overhead.Seconds() * 1e6,
		ServiceTimes: p.from, MeanMicroseconds: p.Service.Mean() * 1e6, SquaredVariation: p.Service.SquaredVariation(), Placing: p.placing(), Careful: p.unsure()}
	out.Answers = []planRow{p.row("at least", least), p.row("surely", surely)}
	if sim.why == "" {
		out.Answers = append(out.Answers, p.row("simulated", sim.best().Workers))
	}
	if surely == 0 {
		out.Notes = append(out.Notes, p.doubt(p.estimate(p.most())))
	}
	var depth strings.Builder
	p.printDepth(&depth, sim)
	if note := strings.Trim(depth.String(), "\n"); note != "" {
		out.Notes = append(out.Notes, note)
	}
	return out
}

func (p *planned) row(name string, k int) planRow {
	if k == 0 || k > p.most() {
		return planRow{Name: name}
	}
	e := p.estimate(k)
	return planRow{name, k, (k + p.perReplica - 1) / p.perReplica, k, p.rate * p.Service.Mean() / float64(k), e.Low, e.High}
}

func printAnswers(out io.Writer, facts planFacts) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tWORKERS\tREPLICAS\tCORES\tBUSY\tCAPACITY")
	for _, r := range facts.Answers {
		if r.Workers == 0 {
			fmt.Fprintf(w, "%s\t-\t\t\t\t\n", r.Name)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.0f%%\t%.0f-%.0f requests/s\n", r.Name, r.Workers, r.Replicas, r.Cores, 100*r.Busy, r.Low, r.High)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, note := range facts.Notes {
		fmt.Fprintln(out, "\n"+note)
	}
	return nil
}

// placing is how requests find their worker, for people.
func (p *planned) placing() string {
	if p.router.Placement == v1alpha1.PlacementNone {
		return "no router"
	}
	return "policy " + string(p.router.Policy)
}

func serviceQuantile(p *planned) time.Duration {
	for i, x := range p.Service.Seconds {
		if p.Service.Beyond(x) <= 1-p.P {
			return time.Duration(p.Service.Seconds[i] * 1e9)
		}
	}
	return 0
}
