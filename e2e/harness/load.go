// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
)

// Load is one open-loop load Job, run by bobtail-load inside the cluster.
type Load struct {
	Namespace string
	Name      string
	// Target is a name or address with port, as clients use it.
	Target string
	// Rate in requests per second.
	Rate int
	// Duration of the measured load; Warmup comes before it and is not counted.
	Duration, Warmup time.Duration
	// Timeout of one request: then it counts as lost and as +infinity.
	Timeout time.Duration
	// Sockets the client uses; each stays on one router.
	Sockets int
	// Priority is the class asked for, 4 to 7; 0: none.
	Priority int
	// Tries: each request is sent only if its server has room for it (F-40).
	Tries bool
}

// LoadResult is what bobtail-load measured, independently of the router.
type LoadResult struct {
	Offered     int64   `json:"offered"`
	Sent        int64   `json:"sent"`
	Completed   int64   `json:"completed"`
	Dropped     int64   `json:"dropped"`
	HeldBack    int64   `json:"heldBack"` // of the offered: not sent, for want of room
	Degraded    int64   `json:"degraded"` // of the completed
	Timeouts    int64   `json:"timeouts"`
	Errors      int64   `json:"errors"`
	Lost        int64   `json:"lost"`
	AchievedRPS float64 `json:"achievedRps"`
	// Percentiles in microseconds; null when the percentile is a request that was never answered.
	Percentiles map[string]*float64 `json:"percentilesMicroseconds"`
	// Histogram of the latencies the percentiles are taken from: intended send
	// to reply in nanoseconds; refused requests are not in it, lost ones are infinite.
	Histogram *ll7.Histogram `json:"histogram"`
	// WindowSeconds is the measured time.
	WindowSeconds float64 `json:"windowSeconds"`
}

// Percentile in microseconds; +infinity when it is a request that was never
// answered, and when the job did not report it.
func (r LoadResult) Percentile(p string) float64 {
	if v := r.Percentiles[p]; v != nil {
		return *v
	}
	return math.Inf(1)
}

// Failed is every request that did not end in a reply.
func (r LoadResult) Failed() int64 { return r.Sent - r.Completed }

// Failures says how they ended.
func (r LoadResult) Failures() string {
	return fmt.Sprintf("%d rejected, %d timed out, %d ended in an error", r.Dropped, r.Timeouts, r.Errors)
}

func (l Load) args() []string {
	args := []string{
		"--target=" + l.Target,
		fmt.Sprintf("--rate=%d", l.Rate),
		fmt.Sprintf("--duration=%ds", int(l.Duration.Seconds())),
		fmt.Sprintf("--warmup=%ds", int(l.Warmup.Seconds())),
		fmt.Sprintf("--timeout=%dms", l.Timeout.Milliseconds()),
		fmt.Sprintf("--connections=%d", l.Sockets),
		fmt.Sprintf("--priority=%d", l.Priority),
		"--output=json",
	}
	if l.Tries {
		args = append(args, "--flow-control")
	}
	return args
}

// manifest of the Job: restricted pod security, no retry, gone an hour after its end.
func (l Load) manifest(version string) string {
	var args strings.Builder
	for _, a := range l.args() {
		fmt.Fprintf(&args, "            - %q\n", a)
	}
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %[1]s
  namespace: %[2]s
  labels: {app.kubernetes.io/name: bobtail-load}
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: 3600
  template:
    metadata:
      labels: {app.kubernetes.io/name: bobtail-load}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: load
          image: localhost/bobtail/load:%[3]s
          # Without a request it would come last on a busy machine, and measure its own lateness.
          resources: {requests: {cpu: 200m, memory: 64Mi}}
          imagePullPolicy: IfNotPresent
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          args:
%[4]s`, l.Name, l.Namespace, version, args.String())
}

// StartLoad replaces a Job of that name and waits until its pod runs.
func (e *Env) StartLoad(ctx context.Context, l Load) error {
	if _, err := e.Kubectl(ctx, "-n", l.Namespace, "delete", "job", l.Name, "--ignore-not-found", "--wait=true"); err != nil {
		return err
	}
	if err := e.Apply(ctx, l.manifest(e.Version)); err != nil {
		return err
	}
	return Until(ctx, 90*time.Second, 200*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		phase, err := e.loadPhase(ctx, l)
		return phase == "Running" || phase == "Succeeded", "pod of Job " + l.Name + " is " + phase, err
	})
}

// loadPhase is the phase of the Job's pod, or how many there are: the pod of a
// Job that was replaced may still be going.
func (e *Env) loadPhase(ctx context.Context, l Load) (string, error) {
	pods, err := e.pods(ctx, l.Namespace, "job-name="+l.Name)
	if err != nil {
		return "", err
	}
	if len(pods) != 1 {
		return fmt.Sprintf("one of %d", len(pods)), nil
	}
	return pods[0].Status.Phase, nil
}

// StopLoad ends a Job before its time; its result is not wanted.
func (e *Env) StopLoad(ctx context.Context, l Load) error {
	_, err := e.Kubectl(ctx, "-n", l.Namespace, "delete", "job", l.Name, "--ignore-not-found", "--wait=true")
	return err
}

// EndLoad lets the Job's client stop sending before its time; it still waits for
// the answers it lacks and reports. An error when it has ended by itself: then what
// happened since was not under load.
func (e *Env) EndLoad(ctx context.Context, l Load) error {
	pods, err := e.pods(ctx, l.Namespace, "job-name="+l.Name)
	if err != nil {
		return err
	}
	for _, p := range pods {
		for _, pid := range PodProcesses(p.Metadata.UID, "bobtail-load") {
			return syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	return fmt.Errorf("job %s does not run any more: it ended before it was told to, at most %s after its start", l.Name, l.Warmup+l.Duration)
}

// FinishLoad waits for the Job's end and reads what it measured from its log.
func (e *Env) FinishLoad(ctx context.Context, l Load) (LoadResult, error) {
	limit := l.Duration + l.Warmup + l.Timeout + 90*time.Second
	err := Until(ctx, limit, time.Second, func(ctx context.Context) (bool, string, error) {
		phase, err := e.loadPhase(ctx, l)
		if phase == "Failed" {
			return true, "", nil
		}
		return phase == "Succeeded", "pod of Job " + l.Name + " is " + phase, err
	})
	if err != nil {
		return LoadResult{}, err
	}
	out, err := e.Kubectl(ctx, "-n", l.Namespace, "logs", "job/"+l.Name)
	if err != nil {
		return LoadResult{}, err
	}
	return parseLoad(l.Name, out)
}

// parseLoad reads the JSON object that ends the log of a load Job.
func parseLoad(name, out string) (LoadResult, error) {
	start := strings.Index(out, "{")
	if start < 0 {
		return LoadResult{}, fmt.Errorf("job %s printed no JSON result: %s", name, lastLines(out, 3))
	}
	var r LoadResult
	if err := json.NewDecoder(strings.NewReader(out[start:])).Decode(&r); err != nil {
		return LoadResult{}, fmt.Errorf("job %s printed a result that is no JSON: %w", name, err)
	}
	return r, nil
}
