// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
	"github.com/bobtail-dev/bobtail/operator/internal/queueing"
)

// What this machine has installed is no matter.
func TestMain(m *testing.M) {
	if err := os.Setenv("PATH", "/nowhere"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// aSimulator answers with what the real one once said (testdata/NAME.json), and
// keeps what it was asked: its options and the service times.
func aSimulator(t *testing.T, name string) (program, asked string) {
	t.Helper()
	answer, err := filepath.Abs("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program, asked = filepath.Join(folder, simulatorName), filepath.Join(folder, "asked")
	script := "#!/bin/sh\nPATH=/usr/bin:/bin\necho \"$@\" >" + asked + `
for o in "$@"; do
  case $o in
    --json=*) cp ` + answer + ` "${o#--json=}" ;;
    --distribution=trace:*) cat "${o#*:}" >>` + asked + ` ;;
  esac
done
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, asked
}

var plannedExamples = map[string][]string{
	"plan-measured": {"plan", "slo/cart-p99", "--rate=30000", "--round-trip=500us"},
	"plan-named":    {"plan", "--rate=1000000", "--latency=300us", "--service=exponential:10us", "--round-trip=15us", "--workers-per-replica=4"},
}

func TestPlanShowsTheSimulatorsAnswer(t *testing.T) {
	for name, args := range plannedExamples {
		c, _ := aCluster(t, false)
		program, asked := aSimulator(t, name)
		t.Setenv("PATH", filepath.Dir(program))
		out, _, err := execute(t, c, args...)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, out)
		text, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); name == "plan-measured" && (!strings.Contains(got, "policy --policy=JBSQ:1-6 --distribution=trace:/") ||
			!strings.Contains(got, "--slo=10000 --rate=30000 --percentile=99 --dispatch=250 --feedback=250 --reply=0 ") ||
			!strings.Contains(got, "\nserviceMicroseconds,count\n")) {
			t.Errorf("asked: %s", got)
		}
	}
}

// The answers above are those of the real simulator, where there is a build.
func TestTheSimulatorStillSaysSo(t *testing.T) {
	needs.Time(t, "the simulator's answers one by one")
	program := needs.CProgram(t, "bobtail-sim")
	for name, args := range plannedExamples {
		c, _ := aCluster(t, false)
		out, _, err := execute(t, c, append(args, "--simulator="+program)...)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, out)
	}
}

// The histogram goes to the simulator bucket by bucket: no count is lost.
func TestServiceTimesForTheSimulator(t *testing.T) {
	h := steps(map[time.Duration]int{time.Millisecond: 9, 20 * time.Millisecond: 1})
	lines := strings.Split(strings.TrimSpace(string(serviceTimes(queueing.FromHistogram(h)))), "\n")
	want := []string{"serviceMicroseconds,count", "1001.471,9", "19988.480,1"} // the middles of the buckets
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// Its absence is said; an old one is no failure unless it was named.
func TestPlanWithoutASimulator(t *testing.T) {
	c, _ := aCluster(t, false)
	args := []string{"plan", "--rate=5", "--latency=10ms", "--service=exponential:1ms", "--round-trip=2ms"}
	out, _, err := execute(t, c, args...)
	if err != nil || !strings.Contains(out, "simulated: no: bobtail-sim is not in the PATH (--simulator=FILE for another place)") ||
		!strings.Contains(out, "n: 3 hides a round trip of 2ms behind service times of 1ms, by rule of thumb") {
		t.Errorf("%v: %s", err, out)
	}
	old := filepath.Join(t.TempDir(), simulatorName)
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho no such option >&2\nexit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, c, append(args, "--simulator="+old)...); err == nil || !strings.Contains(err.Error(), "exit status 2: no such option") {
		t.Errorf("a named one that fails: %v", err)
	}
	t.Setenv("PATH", filepath.Dir(old))
	if out, _, err = execute(t, c, args...); err != nil || !strings.Contains(out, "exit status 2: no such option") || !strings.Contains(out, "surely") {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, err = execute(t, c, append(args, "--simulator=none")...); err != nil || !strings.Contains(out, "left out by --simulator=none") {
		t.Errorf("%v: %s", err, out)
	}
}

// Nobody waits for one that does not end, or for a percentile that it would take ages to tell.
func TestPlanDoesNotWaitForever(t *testing.T) {
	c, _ := aCluster(t, false)
	slow := filepath.Join(t.TempDir(), simulatorName)
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nwhile :; do :; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"plan", "--rate=5", "--latency=100ms", "--service=exponential:1ms", "--simulator=" + slow, "--simulate-for=100ms"}
	if out, _, err := execute(t, c, args...); err != nil || !strings.Contains(out, "was not done after 100ms") || !strings.Contains(out, "surely") {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, err := execute(t, c, append(args, "--percentile=99.999")...); err != nil || !strings.Contains(out, "p99.999 takes 50000000 requests a run to tell") {
		t.Errorf("%v: %s", err, out)
	}
}

// Which depths are tried, and the smallest of those with the fewest workers wins.
func TestSimulatedDepths(t *testing.T) {
	ask := func(policy v1alpha1.RouterPolicy, placement v1alpha1.RouterPlacement, own int32, roundTrip, overhead time.Duration) string {
		p := &planned{Question: queueing.Question{Service: exponentialTimes(1e-3), Overhead: overhead.Seconds()}}
		p.router = v1alpha1.RpcServiceRouter{Policy: policy, Placement: placement, WorkerQueueDepth: own}
		p.roundTrip = roundTrip
		return p.simulatedPolicies()
	}
	jbsq, software := v1alpha1.PolicyJBSQ, v1alpha1.PlacementSoftware
	for got, want := range map[string]string{
		ask(jbsq, software, 3, 0, 0):                              "JBSQ:3",
		ask(jbsq, software, 3, time.Millisecond, 0):               "JBSQ:1-6",
		ask(jbsq, software, 9, time.Millisecond, 0):               "JBSQ:1-6,JBSQ:9",
		ask(jbsq, software, 3, time.Second, 0):                    "JBSQ:62-64,JBSQ:3",
		ask(jbsq, software, 4, 0, 2*time.Millisecond):             "JBSQ:1-7", // the overhead holds the round trip
		ask(v1alpha1.PolicyJSQ, software, 3, time.Millisecond, 0): "JSQ",
		ask(jbsq, v1alpha1.PlacementNone, 3, time.Millisecond, 0): "Direct",
		ask(v1alpha1.PolicyRandom, software, 3, 0, 0):             "Random",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	s := &simulation{rows: []simulated{{"JBSQ(1)", 0}, {"JBSQ(2)", 33}, {"JBSQ(3)", 31}, {"JBSQ(4)", 31}}}
	if got := s.best(); got != s.rows[2] {
		t.Errorf("%+v", got)
	}
	if got := (&simulation{}).best(); got.Workers != 0 {
		t.Errorf("%+v", got)
	}
}
