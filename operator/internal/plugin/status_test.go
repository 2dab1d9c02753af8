// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

func chartLabels(component string) map[string]string {
	return map[string]string{labelName: chartName, labelComponent: component, labelVersion: "0.2.0"}
}

// installation is an operator and agents of the chart, and an API server that serves
// the kinds.
func installation(t *testing.T, more ...client.Object) (*cluster, *fake.Clientset) {
	t.Helper()
	one := int32(1)
	c, _ := aCluster(t, false, append([]client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-operator", Labels: chartLabels("operator")},
			Spec: appsv1.DeploymentSpec{Replicas: &one, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "bobtail-operator"}}}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-agent", Labels: chartLabels("agent")},
			Status: appsv1.DaemonSetStatus{NumberReady: 2, DesiredNumberScheduled: 2}},
	}, more...)...)
	set := c.set.(*fake.Clientset)
	served := &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String()}
	for _, kind := range c.ownKinds() {
		served.APIResources = append(served.APIResources, metav1.APIResource{Kind: kind})
	}
	set.Resources = append(set.Resources, served)
	set.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.36.3"}
	operatorMay(set, func(*authorizationv1.SubjectAccessReviewSpec) bool { return true })
	return c, set
}

// operatorMay lets the API server answer every question about the operator's rights.
func operatorMay(set *fake.Clientset, allowed func(*authorizationv1.SubjectAccessReviewSpec) bool) {
	set.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = allowed(&review.Spec)
		return true, review, nil
	})
}

// Decision 0024: what the operator lacks for a feature is named without asking it, and
// with whose account it is asked for; CRAB counts only where it is on.
func TestStatusNamesWhatFeaturesLack(t *testing.T) {
	c, set := installation(t)
	operatorMay(set, func(s *authorizationv1.SubjectAccessReviewSpec) bool {
		return s.User == "system:serviceaccount:bobtail-system:bobtail-operator" && s.ResourceAttributes.Resource != "endpointslices"
	})
	set.Resources[0].APIResources = slices.DeleteFunc(set.Resources[0].APIResources, func(r metav1.APIResource) bool { return r.Kind == "ProgrammableSwitch" })
	got := with(t, c.features(t.Context()), "features")
	if len(got) != 3 || got[0].Outcome != fine || !strings.HasSuffix(got[0].Says, "for experiments, groups, cores") ||
		got[1].Outcome != failed || !strings.Contains(got[1].Says, "`spec.device` of an RpcService waits: the operator lacks the right to get, list, watch, create, patch endpointslices.discovery.k8s.io") ||
		got[2].Outcome != failed || !strings.Contains(got[2].Says, "lacks kind ProgrammableSwitch") || !strings.Contains(got[2].Next, "helm upgrade") {
		t.Errorf("%+v", got)
	}
	edit(t, c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-operator"}}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "operator", Args: []string{"--crab=true"}}}
	})
	if got := c.features(t.Context()); len(got) != 4 || !strings.HasPrefix(got[3].Says, "CRAB waits") {
		t.Errorf("with CRAB: %+v", got)
	}
	set.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("you may not ask")
	})
	if got := c.features(t.Context()); len(got) != 1 || got[0].Outcome != unknown {
		t.Errorf("where nobody may ask: %+v", got)
	}
}

func with(t *testing.T, verdicts []verdict, subject string) []verdict {
	t.Helper()
	out := slices.DeleteFunc(slices.Clone(verdicts), func(v verdict) bool { return v.Subject != subject })
	if len(out) == 0 {
		t.Fatalf("nothing of %s in %+v", subject, verdicts)
	}
	return out
}

// What is wrong is marked, says the next command, and makes the exit status 1.
func TestStatus(t *testing.T) {
	c, _ := installation(t)
	service, slo := aService(), anSLO()
	meta.SetStatusCondition(&service.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"})
	if err := c.Update(t.Context(), withVersionOf(t, c, service)); err != nil {
		t.Fatal(err)
	}
	_ = slo
	out, _, err := execute(t, c, "status")
	if !errors.Is(err, errFailed) { // the objective of the fakes is missed
		t.Fatalf("%v\n%s", err, out)
	}
	golden(t, "status", out)
}

func TestStatusNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*testing.T, *cluster, *fake.Clientset)
		subject string
		want    outcome
		next    string
	}{
		"no kinds": {func(_ *testing.T, _ *cluster, set *fake.Clientset) { set.Resources = nil }, "kinds", failed, "helm upgrade --install"},
		"a kind of another release": {func(_ *testing.T, _ *cluster, set *fake.Clientset) {
			set.Resources[0].APIResources = set.Resources[0].APIResources[1:]
		}, "kinds", failed, "helm upgrade --install"},
		"no operator": {func(t *testing.T, c *cluster, _ *fake.Clientset) {
			must(t, c.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace("bobtail-system")))
		}, "operator", failed, "helm upgrade --install"},
		"operator down": {func(t *testing.T, c *cluster, _ *fake.Clientset) {
			edit(t, c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-operator"}}, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 })
		}, "operator", failed, "kubectl -n bobtail-system describe pods"},
		"another release": {func(t *testing.T, c *cluster, _ *fake.Clientset) {
			edit(t, c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-operator"}}, func(d *appsv1.Deployment) { d.Labels[labelVersion] = "0.1.0" })
		}, "operator", warning, "this plugin is 0.2.0"},
		"agents missing": {func(t *testing.T, c *cluster, _ *fake.Clientset) {
			edit(t, c, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bobtail-system", Name: "bobtail-agent"}}, func(d *appsv1.DaemonSet) { d.Status.NumberReady = 1 })
		}, "agents", failed, "kubectl get ndp"},
		"no agents": {func(t *testing.T, c *cluster, _ *fake.Clientset) {
			must(t, c.DeleteAllOf(t.Context(), &appsv1.DaemonSet{}, client.InNamespace("bobtail-system")))
		}, "agents", fine, ""},
	} {
		cl, set := installation(t)
		c.change(t, cl, set)
		if got := with(t, cl.status(t.Context(), "0.2.0"), c.subject)[0]; got.Outcome != c.want || !strings.Contains(got.Next, c.next) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func edit[T client.Object](t *testing.T, c *cluster, object T, change func(T)) {
	t.Helper()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	change(object)
	changed := object.DeepCopyObject().(T)
	must(t, c.Update(t.Context(), object))
	changed.SetResourceVersion(object.GetResourceVersion())
	must(t, client.IgnoreNotFound(c.Status().Update(t.Context(), changed)))
}

func aNode(name, kernel, os string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: kernel, OperatingSystem: os}}}
}

// may lets the API server answer every question about rights.
func may(set *fake.Clientset, allowed func(a *authorizationv1.ResourceAttributes) bool) {
	set.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = allowed(review.Spec.ResourceAttributes)
		return true, review, nil
	})
}

func TestCheck(t *testing.T) {
	c, set := installation(t, aNode("a", "6.12.41-amd64", "linux"), aNode("b", "6.6.0", "linux"),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium"}})
	may(set, func(*authorizationv1.ResourceAttributes) bool { return true })
	for _, v := range c.check(t.Context()) {
		if v.Outcome != fine {
			t.Errorf("all is well, and yet %+v", v)
		}
	}
	if out, _, err := execute(t, c, "check", "-o", "yaml"); err != nil || !strings.Contains(out, "outcome: OK") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What nodes offer for devices is added up by its name, and is of no use without Multus.
func TestCheckTellsOfDevices(t *testing.T) {
	offering := func(name string, of corev1.ResourceList) *corev1.Node {
		n := aNode(name, "6.12.0", "linux")
		n.Status.Allocatable = of
		return n
	}
	many := corev1.ResourceList{
		"cpu": resource.MustParse("4"), "hugepages-2Mi": resource.MustParse("128Mi"), "hugepages-1Gi": resource.MustParse("0"),
		"intel.com/vfs": resource.MustParse("4"), "attachable-volumes-x.kubernetes.io/y": resource.MustParse("9"),
	}
	for _, c := range []struct {
		name   string
		nodes  []client.Object
		multus bool
		want   outcome
		says   string
	}{
		{"nothing at all", []client.Object{aNode("a", "6.12.0", "linux")}, false, fine, "Kernel alone"},
		{"Multus", []client.Object{aNode("a", "6.12.0", "linux")}, true, fine, "AFXDP; no node offers"},
		{"devices without Multus", []client.Object{offering("a", many)}, false, warning, "no kind NetworkAttachmentDefinition"},
		{"both", []client.Object{offering("a", many), offering("b", many), aNode("c", "6.12.0", "linux")}, true, fine,
			"AFXDP, and nodes offer 256Mi hugepages-2Mi (2 of 3 nodes), 8 intel.com/vfs (2 of 3 nodes)"},
	} {
		cl, set := installation(t, c.nodes...)
		if c.multus {
			set.Resources = append(set.Resources, &metav1.APIResourceList{GroupVersion: definitions})
		}
		if v := cl.devices(t.Context()); v.Outcome != c.want || !strings.Contains(v.Says, c.says) || v.Outcome == warning && v.Next == "" {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	c, set := installation(t, aNode("a", "5.15.0-1", "linux"), aNode("w", "10.0.20348", "windows"), aNode("x", "custom", "linux"))
	set.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kversion.Info{GitVersion: "v1.28.4+k3s1"}
	may(set, func(a *authorizationv1.ResourceAttributes) bool { return a.Resource != "clusterroles" })
	edit(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
		n.Labels["pod-security.kubernetes.io/enforce"] = "baseline"
	})
	got := c.check(t.Context())
	for subject, want := range map[string][]verdict{
		"kubernetes": {{Outcome: failed, Says: "v1.28.4+k3s1; 1.29.0 is the least"}},
		"kernels":    {{Outcome: warning, Says: "below 6.6: a 5.15.0-1"}, {Outcome: unknown, Says: `x "custom"`}, {Outcome: warning, Says: "not Linux: w"}},
		"network":    {{Outcome: unknown, Says: "no network plugin"}},
		"admission":  {{Outcome: warning, Says: "namespace shop enforces baseline"}},
		"rights":     {{Outcome: warning, Says: "you may not create clusterroles"}},
	} {
		found := with(t, got, subject)
		for i := range want {
			if len(found) != len(want) || found[i].Outcome != want[i].Outcome || !strings.Contains(found[i].Says, want[i].Says) || found[i].Next == "" {
				t.Errorf("%s: %+v, want %+v", subject, found, want)
				break
			}
		}
	}
	c.namespace = "nowhere"
	if v := c.admission(t.Context()); v.Outcome != failed || !strings.Contains(v.Next, "kubectl create namespace nowhere") {
		t.Errorf("%+v", v)
	}
}

func TestVersion(t *testing.T) {
	c, _ := installation(t)
	out, _, err := execute(t, c, "version")
	if err != nil || out != "plugin      0.2.0\noperator    0.2.0\nagent       0.2.0\nkubernetes  v1.36.3\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = execute(t, nil, "version", "--client"); err != nil || out != "plugin      0.2.0\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// K-38: every command that tells something tells it to programs, too.
func TestK38FactsForPrograms(t *testing.T) {
	c, _ := installation(t)
	for command, field := range map[string]string{
		"status": "verdicts", "top": "services", "explain slo/cart-p99": "findings", "version": "plugin",
		"plan --rate=1000 --latency=10ms --service=exponential:1ms --simulator=none": "answers",
	} {
		for _, f := range []string{"json", "yaml"} {
			out, _, err := execute(t, c, append(strings.Fields(command), "-o", f)...)
			if err != nil && !errors.Is(err, errFailed) {
				t.Errorf("%s -o %s: %v", command, f, err)
			}
			facts, decode := map[string]any{}, json.Unmarshal
			if f == "yaml" {
				decode = func(b []byte, into any) error { return yaml.Unmarshal(b, into) }
			}
			if err := decode([]byte(out), &facts); err != nil || facts[field] == nil {
				t.Errorf("%s -o %s: %v, no %s in\n%s", command, f, err, field, out)
			}
		}
		if _, _, err := execute(t, c, append(strings.Fields(command), "-o", "table")...); err == nil || !strings.Contains(err.Error(), `--output: must be json or yaml; got "table"`) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// K-38: top fits a terminal.
func TestK38TopFits80Columns(t *testing.T) {
	c, _ := aCluster(t, true)
	out, _, err := execute(t, c, "top")
	must(t, err)
	for _, line := range strings.Split(out, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// K-38: a shell is told the names; where the cluster cannot be read, nothing.
func TestK38Completion(t *testing.T) {
	c, _ := aCluster(t, false)
	for args, want := range map[string]string{"explain": "slo/cart-p99\n", "plan": "slo/cart-p99\n", "bench": "rpcsvc/cart\n"} {
		if out, _, err := execute(t, c, "__complete", args, ""); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
