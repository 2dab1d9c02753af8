// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// unpack returns the files of an archive.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "bobtail-support/")] = string(body)
	}
}

// telling is a pod with "hunter2" wherever a pod may hold a secret, and objects
// of other kinds whose applied manifest holds it.
func telling() []client.Object {
	const secret = "hunter2"
	applied := map[string]string{corev1.LastAppliedConfigAnnotation: secret}
	p := aPod("cart-server-c", "server")
	exec := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"login", secret}}}
	get := &corev1.HTTPGetAction{Path: "/", HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secret}}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
		Name: "injected", Command: []string{secret}, Lifecycle: &corev1.Lifecycle{PostStart: &exec, PreStop: &corev1.LifecycleHandler{HTTPGet: get}},
		LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: exec.Exec}},
	})
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Args: []string{secret}, Env: []corev1.EnvVar{{Name: "A", Value: secret}}}}}
	said := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "panic: bad password " + secret}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: said, LastTerminationState: said}}
	return []client.Object{
		p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cart-keys", Labels: p.Labels}, Data: map[string][]byte{"key": []byte(secret)}},
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "all", Annotations: applied}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "e", Annotations: applied}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "l", Annotations: applied}},
	}
}

// "hunter2" must be nowhere in the bundle.
func TestBundleHoldsNoSecret(t *testing.T) {
	c, all := aCluster(t, false, telling()...)
	delete(all, "cart-router-b v1/counters")
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	_, errs, err := execute(t, c, "support-bundle", "--file="+path)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, path)
	for name, body := range files {
		for _, secret := range []string{"hunter2", "aHVudGVyMg"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s holds the secret", name)
			}
		}
	}
	for name, part := range map[string]string{
		"objects/rpcservices.yaml": "cart", "objects/servicelevelobjectives.yaml": "ObjectiveMissed", "objects/pods.yaml": "cart-router-a",
		"objects/events.yaml": "name: e", "objects/networkpolicies.yaml": "name: all", "operator/leases.yaml": "name: l",
		"measurements/cart-router-a/v1/counters": "router_dropped_total", "logs/shop/cart-router-a.main.log": "fake logs", "errors.txt": "cart-router-b v1/counters",
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s lacks %q: %.200s", name, part, files[name])
		}
	}
	if !strings.Contains(errs, "cart-router-b v1/counters") {
		t.Errorf("what is missing is not said: %s", errs)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, _, err := execute(t, c, "support-bundle", "--file="+path); err == nil || !strings.Contains(err.Error(), "--file") {
		t.Errorf("an older bundle was overwritten: %v", err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	unfinished := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := writeBundle(late, streams{io.Discard, io.Discard}, c, unfinished, "bobtail-system"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(unfinished); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an archive was left behind: %v", err)
	}
}

// bench takes the image from the release that runs, runs under the restricted
// standard, prints the log and leaves nothing behind.
func TestBench(t *testing.T) {
	c, _ := aCluster(t, false)
	job := load{rate: 1000, output: "table", image: "x"}.job(aService())
	if p := job.Spec.Template.Spec; !*p.SecurityContext.RunAsNonRoot || *p.AutomountServiceAccountToken || *p.Containers[0].SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("%+v", p)
	}
	image, err := c.loadImage(t.Context(), aService())
	if err != nil || image != "registry.example/team/bobtail/load:1.2.3" {
		t.Errorf("image %q, %v", image, err)
	}
	for phase, want := range map[corev1.PodPhase]string{corev1.PodSucceeded: "", corev1.PodFailed: "the load failed"} {
		c, _ := aCluster(t, false)
		c.Client = jobController(c.Client, phase)
		out, errs, err := execute(t, c, "bench", "rpcsvc/cart", "--rate=1000", "--duration=1s")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", phase, err)
		}
		if out != "fake logs" || !strings.Contains(errs, "1000 requests/s for 1s to cart.shop.svc:8000") {
			t.Errorf("%s: %q, %q", phase, out, errs)
		}
		jobs := &batchv1.JobList{}
		if err := c.List(t.Context(), jobs, client.InNamespace(ns)); err != nil || len(jobs.Items) != 0 {
			t.Errorf("%s: %d Jobs left behind, %v", phase, len(jobs.Items), err)
		}
	}
	for args, want := range map[string]string{
		"bench rpcsvc/cart": "--rate: must be above 0", "bench cart --rate=1": "must be rpcsvc/NAME", "bench rpcsvc/none --rate=1": "none",
		"bench rpcsvc/cart --rate=1 --duration=1ms": "--duration: must be", "bench rpcsvc/cart --rate=1 --report=xml": "--report: must be",
	} {
		if _, _, err := execute(t, c, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// jobController makes the pod of a Job, at its end.
func jobController(c client.Client, phase corev1.PodPhase) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := inner.Create(ctx, o, options...); err != nil {
				return err
			}
			job, ok := o.(*batchv1.Job)
			if !ok {
				return nil
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, Labels: map[string]string{"job-name": job.Name}}}
			pod.Status.Phase = phase
			return inner.Create(ctx, pod)
		},
	})
}
