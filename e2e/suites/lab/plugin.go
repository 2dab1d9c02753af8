// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// closed isolates the pods of the load: no rule lets the servers' replies in.
// The embedded cluster enforces no policy, so the load goes on.
const closed = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: ` + Namespace + `}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: bobtail-load}}
  policyTypes: [Ingress]
`

// plugin asks every command of `kubectl bobtail` while nothing is enforced and
// more arrives than the workers can do.
func (s *Suite) plugin(ctx context.Context) error {
	return s.Steps.Do(ctx, harness.Step{Name: "kubectl bobtail: top, explain, plan, bench, support-bundle under 1.5 times the capacity", Cost: "45 s",
		Cause: "`make build` did not make build/bin/kubectl-bobtail or bobtail-sim, or pods/proxy cannot be read"},
		func(ctx context.Context) error {
			job := load("plugin", overload, 0, 25*time.Second)
			if err := s.Env.Apply(ctx, closed); err != nil {
				return err
			}
			if err := s.Env.StartLoad(ctx, job); err != nil {
				return err
			}
			asked := s.underOverload(ctx, settling+10*time.Second)
			_, err := s.Env.FinishLoad(ctx, job)
			_, gone := s.Env.Kubectl(ctx, "-n", Namespace, "delete", "networkpolicy", "closed")
			return errors.Join(asked, err, gone, s.bench(ctx))
		})
}

// said is a command and what its output must hold.
type said struct {
	args []string
	want []string
}

func (s *Suite) underOverload(ctx context.Context, after time.Duration) error {
	if err := pause(ctx, after); err != nil {
		return err
	}
	var errs []error
	for _, c := range []said{
		{[]string{"top"}, []string{Service, "32/32"}},
		{[]string{"top", "-A"}, []string{Namespace, Service, "32/32"}},
		{[]string{"version"}, []string{"plugin", "operator", "kubernetes"}},
		{[]string{"check"}, []string{"with Linux 6.6 or newer", "enough to install the chart"}},
		{[]string{"explain", "slo/" + Objective}, []string{"Met=False (ObjectiveMissed)", "TooFewWorkers", "Queueing", "wait now", "queue",
			"ClientIngressRule", "NetworkPolicy " + Namespace + "/closed isolates pod load-plugin",
			"add an ingress rule from pods bobtail.dev/service=" + Service + ",bobtail.dev/component=server, protocol UDP"}},
		{[]string{"plan", "slo/" + Objective, fmt.Sprintf("--rate=%d", overload)}, []string{"measured by the servers of " + Service, "at least", "surely", "simulated "}},
	} {
		out, err := s.bobtail(ctx, c.args...)
		errs = append(errs, err, lacks(c, out))
	}
	return errors.Join(append(errs, s.bundle(ctx))...)
}

// bobtail runs the plugin the way kubectl finds it, by PATH, and the simulator the way the plugin does.
func (s *Suite) bobtail(ctx context.Context, args ...string) (string, error) {
	line := "PATH=$PWD/build/bin:$PWD/build/dataplane/apps/bobtail-sim:$PATH kubectl bobtail -n " + Namespace + " " + strings.Join(args, " ")
	out, err := s.Env.Run(ctx, "", "bash", "-c", line)
	s.Steps.Say("\n$ kubectl bobtail -n %s %s\n%s", Namespace, strings.Join(args, " "), out)
	return out, err
}

func lacks(c said, out string) error {
	var missing []string
	for _, want := range c.want {
		if !strings.Contains(out, want) {
			missing = append(missing, fmt.Sprintf("%q", want))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("kubectl bobtail %s does not say %s", strings.Join(c.args, " "), strings.Join(missing, ", "))
	}
	return nil
}

// bench offers a load of its own and leaves no Job behind.
func (s *Suite) bench(ctx context.Context) error {
	c := said{[]string{"bench", "rpcsvc/" + Service, "--rate=500", "--duration=5s"}, []string{"completed", "p99"}}
	out, err := s.bobtail(ctx, c.args...)
	if err != nil {
		return err
	}
	jobs, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "jobs", "-o", "name")
	if strings.Contains(jobs, "bench") {
		err = errors.Join(err, fmt.Errorf("bench left %q behind", jobs))
	}
	return errors.Join(err, lacks(c, out))
}

// bundle reads the archive back: the objects and measurements are in it, and no
// key is.
func (s *Suite) bundle(ctx context.Context) error {
	path := filepath.Join(s.Env.Root, "build", "log", "support-bundle.tar.gz")
	_ = os.Remove(path)
	if _, err := s.bobtail(ctx, "support-bundle", "--file="+path); err != nil {
		return err
	}
	key, err := s.Env.Kubectl(ctx, "-n", Namespace, "get", "secret", Service+"-keys", "-o", "jsonpath={.data}")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files, err := unpack(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return judgeBundle(files, key)
}

// judgeBundle finds the files that count, the operator's log among them (K-22), and
// looks for values of the Secret.
func judgeBundle(files map[string]string, secret string) error {
	var errs []error
	for _, want := range []string{"rpcservices", "servicelevelobjectives", "pods", "histogram", "counters", "logs/" + harness.SystemNamespace + "/bobtail-operator"} {
		found := false
		for name := range files {
			found = found || strings.Contains(name, want)
		}
		if !found {
			errs = append(errs, fmt.Errorf("the bundle holds nothing of %s", want))
		}
	}
	for _, value := range strings.FieldsFunc(secret, func(r rune) bool { return strings.ContainsRune(`{}":,`, r) }) {
		for name, text := range files {
			if len(value) >= 20 && strings.Contains(text, value) {
				errs = append(errs, fmt.Errorf("%s of the bundle holds a value of Secret %s-keys", name, Service))
			}
		}
	}
	return errors.Join(errs...)
}

func unpack(raw []byte) (map[string]string, error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		files[h.Name] = string(text)
	}
}
