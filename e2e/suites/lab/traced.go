// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/cluster/ociimage"
	"github.com/bobtail-dev/bobtail/e2e/harness"
	"github.com/bobtail-dev/bobtail/e2e/suites/lab/spantree"
)

const (
	sinkImage = "localhost/bobtail-test/spansink:e2e"
	// Tracing is a value of the chart: where sidecars and experiments send spans.
	Tracing = "--set=tracing.otlpEndpoint=http://spans." + Namespace + ".svc.cluster.local:4318"

	tracedRate    = 500
	tracedSeconds = 8
	tracedPercent = 5
)

const sink = `apiVersion: v1
kind: Pod
metadata: {name: spans, namespace: ` + Namespace + `, labels: {app: spans}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: spans
      image: ` + sinkImage + `
      args: [":4318"]
      imagePullPolicy: IfNotPresent
      resources: {requests: {cpu: 50m, memory: 64Mi}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      readinessProbe: {httpGet: {path: /spans, port: 4318}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: spans, namespace: ` + Namespace + `}
spec:
  selector: {app: spans}
  ports: [{port: 4318}]
`

// traced runs an experiment a share of whose samples become spans, and asks the
// receiver for them: of the agents, of the routers and of the servers. Neither the
// experiment nor the service names the receiver; the chart does.
func (s *Suite) traced(ctx context.Context) error {
	const name = "traced"
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("LatencyExperiment: %d %% of the samples as OpenTelemetry spans", tracedPercent), Cost: "30 s",
		Cause: "spans do not arrive: kubectl -n " + Namespace + " logs spans; metric bobtail_traces_sent_total of the sidecars"},
		func(ctx context.Context) error {
			if err := s.startSink(ctx); err != nil {
				return err
			}
			load := fmt.Sprintf("{steps: [{requestsPerSecond: %d, seconds: %d}]}", tracedRate, tracedSeconds)
			manifest := changingManifest(name, "99", "connectionsPerAgent: 128", load, fmt.Sprintf("  traces: {samplePercent: \"%d\"}\n", tracedPercent))
			if err := s.Env.Apply(ctx, manifest); err != nil {
				return err
			}
			if _, err := s.finished(ctx, name, experimentLimit); err != nil {
				return err
			}
			if err := s.show(ctx, name); err != nil {
				return err
			}
			trees, err := s.trees(ctx)
			s.Steps.Say("     spans: %v, from %v; %d whole trees, %d orphans", trees.Names, trees.From, trees.Whole, trees.Orphans)
			s.Got.Set("lexp_traces_whole", trees.Whole)
			s.Got.Set("lexp_traces_orphans", trees.Orphans)
			_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "lexp", name, "--wait=true")
			return errors.Join(err, judgeTrees(trees), gone)
		})
}

func (s *Suite) startSink(ctx context.Context) error {
	archive := filepath.Join(s.Env.Root, "build", "spansink.tar")
	image := ociimage.Image{Name: sinkImage, Entrypoint: []string{"/spansink"}, Files: map[string]string{"/spansink": filepath.Join(s.Env.Root, "build", "bin", "spansink")}}
	if err := image.Write(archive); err != nil {
		return err
	}
	if _, err := s.Env.Cluster(ctx, "load-image", archive); err != nil {
		return err
	}
	if err := s.Env.Apply(ctx, sink); err != nil {
		return err
	}
	_, err := s.Env.Kubectl(ctx, "-n", Namespace, "wait", "--for=condition=Ready", "pod/spans", "--timeout=60s")
	return err
}

// trees waits until what the receiver has no longer grows: sidecars ask once a
// second, and send in batches.
func (s *Suite) trees(ctx context.Context) (trees spantree.Trees, err error) {
	last := -1
	err = harness.Until(ctx, 30*time.Second, 3*time.Second, func(ctx context.Context) (bool, string, error) {
		raw, err := s.Env.Kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+Namespace+"/pods/http:spans:4318/proxy/spans")
		if err != nil {
			return false, "", err
		}
		var spans []spantree.Span
		if err := json.NewDecoder(strings.NewReader(raw)).Decode(&spans); err != nil {
			return false, "", fmt.Errorf("spans of the receiver: %w", err)
		}
		trees, err = spantree.Grow(spans)
		grew := len(spans) != last
		last = len(spans)
		return !grew && last > 0, fmt.Sprintf("%d spans", last), err
	})
	return trees, err
}

// judgeTrees: about as many traced requests as asked for, each one whole tree, from
// the programs that ought to send it.
func judgeTrees(t spantree.Trees) error {
	var errs []error
	requests := t.Names["r2p2 request"]
	if want := tracedRate * tracedSeconds * tracedPercent / 100; requests < want/2 || requests > 2*want {
		errs = append(errs, fmt.Errorf("%d requests were traced, want some %d", requests, want))
	}
	for _, name := range []string{"r2p2 router", "r2p2 server", "r2p2 handler"} {
		if t.Names[name] != requests {
			errs = append(errs, fmt.Errorf("%d spans %q of %d requests", t.Names[name], name, requests))
		}
	}
	if len(t.Names) != 4 || t.Whole != requests || t.Orphans != 0 {
		errs = append(errs, fmt.Errorf("%d kinds of spans, %d whole trees of %d requests, %d spans without their parent", len(t.Names), t.Whole, requests, t.Orphans))
	}
	for name, from := range t.From {
		want := Service
		if name == "r2p2 request" {
			want = "lancet"
		}
		if len(from) != 1 || from[0] != want {
			errs = append(errs, fmt.Errorf("spans %q come from %v, want %s", name, from, want))
		}
	}
	return errors.Join(errs...)
}
