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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
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

// crabObjects are a node agent with its report, a Service that it serves, one that
// it does not, and what happened to each; and an experiment.
func crabObjects() []client.Object {
	const secret = "hunter2"
	applied, class := map[string]string{corev1.LastAppliedConfigAnnotation: secret}, v1alpha1.LoadBalancerClass
	of := func(namespace, name, kind, about, message string) client.Object {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: about}}
	}
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Args: []string{secret}}}}}
	labels := map[string]string{v1alpha1.LabelExperiment: "slow"}
	agent := aPod("bobtail-agent-1", "")
	agent.Namespace, agent.Labels = "bobtail-system", map[string]string{"app.kubernetes.io/part-of": "bobtail"}
	agent.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 2}}
	return []client.Object{
		&v1alpha1.NodeDataplane{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		&v1alpha1.ProgrammableSwitch{ObjectMeta: metav1.ObjectMeta{Name: "leaf-1"}},
		&v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "orders"}, Spec: v1alpha1.ReplicationGroupSpec{Server: v1alpha1.RpcServiceServer{Args: []string{secret}}}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "orders-member", Labels: map[string]string{v1alpha1.LabelService: "orders"}}, Spec: appsv1.StatefulSetSpec{Template: pod}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vip", Annotations: applied}, Spec: corev1.ServiceSpec{LoadBalancerClass: &class}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ports", Annotations: map[string]string{v1alpha1.AnnotationRedirect: "enabled"}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "private"}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vip-1", Labels: map[string]string{discoveryv1.LabelServiceName: "vip"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "private-1", Labels: map[string]string{discoveryv1.LabelServiceName: "private"}}},
		of(ns, "e1", "Service", "vip", "no address is free"), of("default", "e2", "NodeDataplane", "node-1", "programs were refused"),
		of("default", "e3", "Node", "node-1", "none of our business"), of("bobtail-system", "e4", "Pod", "bobtail-agent-1", "back-off"),
		agent, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-agent"}, Spec: appsv1.DaemonSetSpec{Template: pod}},
		&v1alpha1.LatencyExperiment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow"}, Spec: v1alpha1.LatencyExperimentSpec{
			Workload: v1alpha1.ExperimentWorkload{Path: "/?key=" + secret}}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow-agents", Labels: labels}, Spec: batchv1.JobSpec{Template: pod}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow-agents-0", Labels: labels}, Spec: pod.Spec},
	}
}

// Who asks for help with CRAB or an experiment sends what they are about.
func TestBundleHoldsCRABAndExperiments(t *testing.T) {
	c := complete(t, append(crabObjects(), anOperator(labelled)...)...)
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	if _, _, err := execute(t, c, "support-bundle", "--file="+path); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, path)
	for name, want := range map[string]struct{ has, lacks string }{
		"objects/replicationgroups.yaml": {"name: orders", "hunter2"}, "objects/statefulsets.yaml": {"name: orders-member", "hunter2"},
		"objects/programmableswitches.yaml": {"name: leaf-1", "hunter2"}, "objects/nodedataplanes.yaml": {"name: node-1", "hunter2"}, "objects/crab/services.yaml": {"name: vip", "private"},
		"objects/crab/endpointslices.yaml": {"name: vip-1", "private"}, "objects/events.yaml": {"no address is free", "hunter2"},
		"operator/events-nodedataplanes.yaml": {"programs were refused", "none of our business"}, "operator/events.yaml": {"back-off", "none of our business"},
		"operator/daemonsets.yaml": {"name: bobtail-agent", "hunter2"}, "objects/latencyexperiments.yaml": {"name: slow", "hunter2"},
		"objects/experiments/jobs.yaml": {"name: slow-agents", "hunter2"}, "objects/experiments/pods.yaml": {"slow-agents-0", "hunter2"},
		"logs/shop/slow-agents-0.x.log": {"fake logs", "hunter2"}, "logs/bobtail-system/bobtail-agent-1.main.previous.log": {"fake logs", "hunter2"},
	} {
		if text, there := files[name]; !there || !strings.Contains(text, want.has) || strings.Contains(text, want.lacks) {
			t.Errorf("%s (there: %v) must hold %q and not %q: %.300s", name, there, want.has, want.lacks, text)
		}
	}
	if s := files["objects/crab/services.yaml"]; !strings.Contains(s, "bobtail.dev/redirect: enabled") || strings.Contains(s, "hunter2") {
		t.Errorf("annotations: %s", s)
	}
	if _, there := files["logs/shop/slow-agents-0.x.previous.log"]; there {
		t.Error("a container that never was restarted has no log before")
	}
}

// "hunter2" must be nowhere in the bundle.
func TestBundleHoldsNoSecret(t *testing.T) {
	c := complete(t, append(telling(), anOperator(labelled)...)...)
	delete(c.sidecars.(answers), "cart-router-b v1/counters")
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	_, errs, err := execute(t, c, "support-bundle", "--file="+path)
	if err == nil { // one counter, and whatever the pod that tells too much does not answer
		t.Error("exit status 0 although parts are missing")
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
		"bench rpcsvc/cart --rate=Inf": "--rate: must be above 0 requests a second, and finite", "bench rpcsvc/cart --rate=1 --connections=0": "--connections: must be 1 to",
		"bench rpcsvc/cart --rate=1 --duration=1ms": "--duration: must be", "bench rpcsvc/cart --rate=1 --report=xml": "--report: must be",
	} {
		if _, _, err := execute(t, c, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// A Job whose pod will never run is not waited for, and says why; where no reply
// can reach it, that is said before.
func TestBenchThatCannotWork(t *testing.T) {
	c, _ := aCluster(t, false, isolating())
	inner := jobController(c.Client, corev1.PodPending)
	c.Client = interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := inner.List(ctx, list, options...)
			if pods, ok := list.(*corev1.PodList); ok {
				for i := range pods.Items {
					if pods.Items[i].Labels["job-name"] != "" {
						pods.Items[i].Spec.Containers = []corev1.Container{{Image: "no/such:image"}}
						pods.Items[i].Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
							Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
					}
				}
			}
			return err
		},
	})
	_, errs, err := execute(t, c, "bench", "rpcsvc/cart", "--rate=1000", "--duration=1s")
	if err == nil || !strings.Contains(err.Error(), "ImagePullBackOff of image no/such:image: not found") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(errs, "Careful: NetworkPolicy shop/closed isolates pod cart-bench-") || !strings.Contains(errs, "add an ingress rule") {
		t.Errorf("%q", errs)
	}
	if got := standing(&corev1.Pod{}); !strings.Contains(got, "no pod was made") {
		t.Error(got)
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
