// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

const (
	annotationStatus = "k8s.v1.cni.cncf.io/network-status"
	// outageVariable is how long the API server is gone, as Go writes durations.
	outageVariable = "BOBTAIL_API_OUTAGE"
	shortOutage    = time.Minute
)

// outage is how long the API server is gone.
func outage() (time.Duration, error) {
	text := os.Getenv(outageVariable)
	if text == "" {
		return shortOutage, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > time.Hour {
		return 0, fmt.Errorf("%s: must be a duration of an hour at most, such as 10m; got %q", outageVariable, text)
	}
	return d, nil
}

// edits are what somebody may make of a pod's network-status afterwards, and the reason that Addressed gives.
var edits = []struct{ name, text, reason string }{
	{"another address", `[{"name":"` + Namespace + `/` + definition + `","interface":"net1","ips":["` + subnet + `250"]}]`, "NetworkStatusEdited"},
	{"text that is none", "{", "NetworkStatusEdited"},
}

// edited: a server's network-status is changed under load, and put back. The pod serves on at the address it took, and
// the service says what is wrong.
func (s *Suite) edited(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "a pod's network-status is edited under load, twice, and put back", Cost: "20 s",
		Cause: "the operator believed the edit: kubectl -n " + Namespace + " get rpcsvc " + Service + " -o yaml"}, func(ctx context.Context) error {
		pod, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/component=server", "-o", "jsonpath={.items[0].metadata.name}")
		if err != nil {
			return err
		}
		before, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pod", pod, "-o", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
		if err != nil {
			return err
		}
		return s.underLoad(ctx, s.load("load-edited", 4*time.Minute), "edited_status_rpcs_failed", func(ctx context.Context) error {
			for _, e := range edits {
				if err := s.annotate(ctx, pod, e.text, "False", e.reason); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
			return s.annotate(ctx, pod, before, "True", "Addressed")
		})
	})
}

// annotate writes a pod's network-status and waits for what the condition Addressed says of it.
func (s *Suite) annotate(ctx context.Context, pod, text, status, reason string) error {
	if _, err := s.Env.Kubectl(ctx, "-n", Namespace, "annotate", "pod", pod, "--overwrite", annotationStatus+"="+text); err != nil {
		return err
	}
	return harness.Until(ctx, time.Minute, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := s.Env.Object(ctx, Namespace, "rpcservices.bobtail.dev", Service)
		if err != nil {
			return false, "", err
		}
		c := o.Condition("Addressed")
		return c.Status == status && c.Reason == reason, fmt.Sprintf("Addressed=%s (%s: %s), want %s", c.Status, c.Reason, c.Message, reason), nil
	})
}

// serverless: the API server is gone for a while. Nothing that runs needs it, and nothing is given up for its silence.
func (s *Suite) serverless(ctx context.Context) error {
	gone, err := outage()
	if err != nil {
		return err
	}
	return s.Steps.Do(ctx, harness.Step{Name: fmt.Sprintf("no API server for %s, under load", gone), Cost: fmt.Sprintf("%.0f s", gone.Seconds()+40),
		Cause: "something asked for the API server's word before it served: build/log/e2e-devices.log"}, func(ctx context.Context) error {
		before, err := s.runs(ctx, Service)
		if err != nil {
			return err
		}
		err = s.underLoad(ctx, s.load("load-serverless", gone+4*time.Minute), "api_outage_rpcs_failed", func(ctx context.Context) error {
			if _, err := s.Env.Cluster(ctx, "stop-apiserver"); err != nil {
				return err
			}
			waited := sleep(ctx, gone)
			_, err := s.Env.Cluster(ctx, "start-apiserver")
			return errors.Join(waited, err)
		})
		s.Got.Set("api_outage_seconds", gone.Seconds())
		return errors.Join(err, s.settled(ctx, Service, before))
	})
}

// kubeletRestarts: the kubelet ends and comes again. Pods keep their devices, and the device plugin's are counted as before.
func (s *Suite) kubeletRestarts(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "the kubelet is restarted under load; pods keep their devices", Cost: "40 s",
		Cause: "the device plugin did not register with the new kubelet: bobtail-cluster logs kubelet-" + node}, func(ctx context.Context) error {
		before, err := s.runs(ctx, counted)
		if err != nil {
			return err
		}
		l := s.load("load-kubelet", 4*time.Minute)
		l.Target = counted + "." + Namespace + ".svc.cluster.local:8000"
		err = s.underLoad(ctx, l, "kubelet_restart_rpcs_failed", func(ctx context.Context) error {
			if _, err := s.Env.Cluster(ctx, "restart-kubelet", node); err != nil {
				return err
			}
			return s.offers(ctx, "4")
		})
		return errors.Join(err, s.settled(ctx, counted, before), s.eachHasItsOwn(ctx, counted))
	})
}

// runs are the pods of a service with their containers' restarts: what an outage must leave as it is.
func (s *Suite) runs(ctx context.Context, service string) (string, error) {
	out, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "pods", "-l", "bobtail.dev/service="+service, "--sort-by=.metadata.name", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	if err == nil && strings.TrimSpace(out) == "" {
		err = errors.New("service " + service + " has no pods")
	}
	return out, err
}

// settled waits until a service is as it was before: ready, on its device, with the same pods.
func (s *Suite) settled(ctx context.Context, service, before string) error {
	if _, err := s.Env.Kubectl(ctx, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"); err != nil {
		return err
	}
	if _, err := s.Env.Kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s"); err != nil {
		return err
	}
	for _, condition := range []string{"Ready=True", "Addressed=True", "DeviceAsAsked=True", "DeviceUsable=True"} {
		if err := s.Env.WaitCondition(ctx, 2*time.Minute, Namespace, "rpcservices.bobtail.dev", service, condition); err != nil {
			return err
		}
	}
	after, err := s.runs(ctx, service)
	if err == nil && after != before {
		err = fmt.Errorf("pods and restarts were\n%sand are\n%s", before, after)
	}
	return err
}
