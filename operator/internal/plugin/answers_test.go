// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// An error names what could have been meant only when it says both kind and name.
func TestAdviceNeedsKindAndName(t *testing.T) {
	of := func(kind, name string) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
	}
	bare := of("pods", "x").(*apierrors.StatusError)
	bare.ErrStatus.Details = nil
	for _, c := range []struct {
		err  error
		want string
	}{
		{of("pods", "x"), "kubectl get pods -A lists those there are; -n names the namespace"},
		{of("", "x"), ""}, {of("pods", ""), ""}, {of("", ""), ""}, {bare, ""},
	} {
		if got := whatThereIs(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestArgumentsThatACommandTakes(t *testing.T) {
	c, _ := aCluster(t, false)
	for _, row := range []struct {
		args, want string
	}{
		{"bench rpcsvc/cart", "--rate: must be above 0"}, {"bench rpcservice/cart", "--rate: must be above 0"}, {"bench rpcservices/cart", "--rate: must be above 0"},
		{"bench rpcsvc/", "must be rpcsvc/NAME"}, {"bench cart", "must be rpcsvc/NAME"}, {"bench slo/cart", "must be rpcsvc/NAME"}, {"bench deploy/", "must be rpcsvc/NAME"},
		{"explain slo/", "must be slo/NAME or rg/NAME"}, {"explain rg/", "must be slo/NAME or rg/NAME"}, {"explain cart", "must be slo/NAME or rg/NAME"},
		{"explain rpcsvc/cart", "must be slo/NAME or rg/NAME"}, {"explain rg", "must be slo/NAME or rg/NAME"}, {"explain slo", "must be slo/NAME or rg/NAME"},
		{"explain rg/none", "read ReplicationGroup none"}, {"explain replicationgroup/none", "read ReplicationGroup none"}, {"explain replicationgroups/none", "read ReplicationGroup none"},
		{"explain slo/none", "read ServiceLevelObjective none"}, {"explain servicelevelobjective/none", "read ServiceLevelObjective none"},
		{"explain servicelevelobjectives/none", "read ServiceLevelObjective none"},
	} {
		if _, _, err := execute(t, c, strings.Fields(row.args)...); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.args, err, row.want)
		}
	}
}

// What a backup says names the kind of object that was made.
func TestBackupSaysWhatItMade(t *testing.T) {
	for schedule, kind := range map[string]string{"": "job", "0 3 * * *": "cronjob"} {
		c := clusterOf(t, stuckGroup(), aClaim("backups"))
		var out bytes.Buffer
		must(t, backup(t.Context(), streams{&out, &out}, c, "orders", backupOptions{claim: "backups", schedule: schedule}))
		if !strings.HasPrefix(out.String(), kind+"/") || !strings.Contains(out.String(), "get "+kind+" ") {
			t.Errorf("%q: %s", schedule, out.String())
		}
	}
}

// Of a load's log only a line that is a JSON object is the report.
func TestReportIsOneObject(t *testing.T) {
	for logs, want := range map[string]string{
		"{\"a\":1}\n": "{\"a\":1}\n", "1\n{\"a\":1}\n": "{\"a\":1}\n", "{odd}\n{}\n": "{}\n", "\n{}\nend": "{}\n", "{}": "{}",
		"1\n": "", "[]\n": "", "{odd\n": "", "": "",
	} {
		var out, errs bytes.Buffer
		if err := printReport(streams{&out, &errs}, strings.NewReader(logs), "json"); out.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", logs, out.String(), err)
		}
		if len(out.String())+len(errs.String()) != len(logs) {
			t.Errorf("%q: %q and %q", logs, out.String(), errs.String())
		}
	}
}

// A shell is told of groups as well, and of nothing after the first argument.
func TestCompletionOfGroups(t *testing.T) {
	c, _ := aCluster(t, false, stuckGroup())
	for _, row := range []struct{ args, want string }{
		{"explain", "slo/cart-p99\nrg/orders\n:4"}, {"plan", "slo/cart-p99\n:4"}, {"explain slo/x", ":4"},
	} {
		if out, _, err := execute(t, c, append(append([]string{"__complete"}, strings.Fields(row.args)...), "")...); err != nil || !strings.HasPrefix(out, row.want) {
			t.Errorf("%s: %v\n%s", row.args, err, out)
		}
	}
}

// The namespace is that of the kubeconfig; nobody is asked before a command reads something.
func TestConnectTakesTheKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
"contexts": [{"name": "x", "context": {"cluster": "x", "namespace": "team"}}]}`), 0o600))
	c, err := connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{}))
	if err != nil || c == nil || c.namespace != "team" || c.set == nil || c.sidecars == nil || c.Client == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := c.service(t.Context(), "x"); err == nil || !unreachable(err) {
		t.Errorf("%v", err)
	}
}

// failing makes every List or Get of such an object an error.
func failing(c *cluster, list client.ObjectList, one client.Object) *cluster {
	wrong := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", os.ErrPermission)
	same := func(a, b any) bool { return a != nil && b != nil && kindName(a) == kindName(b) }
	out := *c
	out.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if list != nil && same(l, list) {
				return wrong
			}
			return inner.List(ctx, l, options...)
		},
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if one != nil && same(o, one) {
				return wrong
			}
			return inner.Get(ctx, key, o, options...)
		},
	})
	return &out
}

func kindName(o any) string {
	switch o.(type) {
	case *v1alpha1.RpcServiceList:
		return "services"
	case *v1alpha1.ReplicationGroupList:
		return "groups"
	case *v1alpha1.ServiceLevelObjectiveList:
		return "objectives"
	case *v1alpha1.NodeDataplaneList:
		return "hosts"
	case *corev1.NodeList:
		return "nodes"
	case *corev1.PodList:
		return "pods"
	case *appsv1.DeploymentList:
		return "deployments"
	case *appsv1.DaemonSetList:
		return "daemonsets"
	case *corev1.Namespace:
		return "namespace"
	}
	return ""
}

// What could not be read is said by the command that needs it, and not taken for nothing.
func TestCommandsSayWhatTheyMayNotRead(t *testing.T) {
	c, _ := installation(t, stuckGroup())
	for _, row := range []struct {
		args, want string
		list       client.ObjectList
		one        client.Object
	}{
		{"top", "list RpcServices: ", &v1alpha1.RpcServiceList{}, nil},
		{"top", "list ReplicationGroups: ", &v1alpha1.ReplicationGroupList{}, nil},
		{"top", "list the member pods of orders: ", &corev1.PodList{}, nil},
		{"explain rg/orders", "list the member pods of orders: ", &corev1.PodList{}, nil},
		{"explain slo/cart-p99", "list the router pods of cart: ", &corev1.PodList{}, nil},
		{"explain slo/cart-p99", "read namespace shop: ", nil, &corev1.Namespace{}},
		{"version", "list Deployments: ", &appsv1.DeploymentList{}, nil},
		{"version", "list DaemonSets: ", &appsv1.DaemonSetList{}, nil},
		{"connectivity test", "look for the operator's image: ", &appsv1.DeploymentList{}, nil},
		{"connectivity test --image=x", "list the nodes: ", &corev1.NodeList{}, nil},
		{"bench rpcsvc/cart --rate=1", "list the router pods of cart: ", &corev1.PodList{}, nil},
	} {
		if _, _, err := execute(t, failing(c, row.list, row.one), strings.Fields(row.args)...); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.args, err, row.want)
		}
	}
	for subject, list := range map[string]client.ObjectList{
		"operator": &appsv1.DeploymentList{}, "features": &appsv1.DeploymentList{}, "agents": &appsv1.DaemonSetList{}, "services": &v1alpha1.RpcServiceList{},
		"groups": &v1alpha1.ReplicationGroupList{}, "objectives": &v1alpha1.ServiceLevelObjectiveList{},
	} {
		if got := with(t, failing(c, list, nil).status(t.Context(), "0.2.0"), subject); got[0].Outcome != unknown || got[0].Next == "" {
			t.Errorf("status of %s: %+v", subject, got)
		}
	}
}

// Each of the nodes' words, and what an answer is made of, in text: the next step stands only under what is not fine.
func TestAnswerOfVerdicts(t *testing.T) {
	for _, c := range []struct {
		v     verdict
		want  string
		fails bool
	}{
		{verdict{"s", fine, "well", "not said"}, "OK       s            well\n", false},
		{verdict{"s", warning, "less", "do"}, "WARNING  s            less\n                      next: do\n", false},
		{verdict{"s", unknown, "what", ""}, "UNKNOWN  s            what\n", false},
		{verdict{"s", failed, "bad", "do"}, "FAILED   s            bad\n                      next: do\n", true},
	} {
		var out bytes.Buffer
		if err := answer(streams{&out, &out}, asText, []verdict{c.v}); out.String() != c.want || (err != nil) != c.fails {
			t.Errorf("%q, %v; want %q", out.String(), err, c.want)
		}
	}
}

// The chosen nodes: those that are ready, or those that are named, and at most so many.
func TestNodesOfATrial(t *testing.T) {
	cordoned, windows, silent := nodeThatIs("cordoned", corev1.ConditionTrue), nodeThatIs("windows", corev1.ConditionTrue), nodeThatIs("silent", corev1.ConditionTrue)
	cordoned.Spec.Unschedulable, windows.Status.NodeInfo.OperatingSystem, silent.Status.Conditions = true, "windows", nil
	unnamed := nodeThatIs("unnamed", corev1.ConditionTrue) // its kubelet does not say
	unnamed.Status.NodeInfo.OperatingSystem = ""
	unnamed.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}, unnamed.Status.Conditions...)
	c := clusterOf(t, cordoned, windows, silent, unnamed, nodeThatIs("a", corev1.ConditionTrue), nodeThatIs("b", corev1.ConditionFalse))
	for _, row := range []struct {
		named       []string
		most        int
		names, left string
	}{
		{nil, 8, "a unnamed", "b cordoned silent windows"}, {nil, 2, "a unnamed", "b cordoned silent windows"}, {nil, 1, "a", "b cordoned silent windows unnamed"},
		{[]string{"b"}, 8, "b", ""}, {[]string{"b", "a"}, 1, "b", "a"},
	} {
		tr := &trial{cluster: c, paths: paths{nodes: row.named, most: row.most}}
		names, left, err := tr.chosen(t.Context())
		if err != nil || strings.Join(names, " ") != row.names || strings.Join(left, " ") != row.left {
			t.Errorf("%+v: %v %v %v", row, names, left, err)
		}
	}
	none := &trial{cluster: clusterOf(t, cordoned.DeepCopy()), paths: paths{most: 8}}
	none.cluster.Client = clusterOf(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}}).Client
	if _, _, err := none.chosen(t.Context()); err == nil || !strings.Contains(err.Error(), "no node of 1 is ready") {
		t.Errorf("%v", err)
	}
}

// Unknown is what is neither: such a condition is no failure, and the first line counts those that are well.
func TestConditionsBecomeVerdicts(t *testing.T) {
	object := func(name string, status metav1.ConditionStatus) v1alpha1.ReplicationGroup {
		g := v1alpha1.ReplicationGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		if status != "" {
			g.Status.Conditions = []metav1.Condition{{Type: "X", Status: status, Reason: "R", Message: "m"}}
		}
		return g
	}
	got := conditions("things", "rg", "X", []v1alpha1.ReplicationGroup{object("d", ""), object("c", metav1.ConditionUnknown), object("b", metav1.ConditionFalse),
		object("a", metav1.ConditionTrue), object("e", metav1.ConditionTrue)}, func(g *v1alpha1.ReplicationGroup) (client.Object, []metav1.Condition) {
		return g, g.Status.Conditions
	})
	want := []verdict{{"things", fine, "2 of 5 with X=True", ""}, {"things", failed, "shop/b: X=False R: m", "kubectl -n shop describe rg b"},
		{"things", unknown, "shop/c: X=Unknown R: m", "kubectl -n shop describe rg c"}, {"things", unknown, "shop/d: no condition X yet", "kubectl -n shop describe rg d"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
