// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// A part that is missing, a pod of a service that measures nothing, and one that is nobody's stand before others, and
// hide none of them; the files are counted.
func TestBundleIsWholeBehindAGap(t *testing.T) {
	plain := aService()
	plain.Name, plain.ResourceVersion = "a-plain", ""
	plain.Spec.Protocol = v1alpha1.ProtocolTCP
	tcp := aPod("a-plain-1", v1alpha1.ComponentServer)
	tcp.Labels[v1alpha1.LabelService] = "a-plain"
	c := complete(t, append(anOperator(labelled), plain, tcp, aPod("a-stranger", ""))...)
	delete(c.sidecars.(answers), "cart-router-a v1/state")
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	out, errs, err := execute(t, c, "support-bundle", "--file="+path)
	if err == nil || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, "cart-router-a v1/state") {
		t.Errorf("%v: %s", err, errs)
	}
	files := unpack(t, path)
	if want := fmt.Sprintf("%s: %d files;", path, len(files)); !strings.Contains(out, want) {
		t.Errorf("no %q in %s", want, out)
	}
	for _, pod := range []string{"cart-router-a", "cart-router-b", "cart-server-a", "cart-server-b"} {
		for _, what := range []string{"v1/state", "v1/counters", "v1/histogram", "metrics"} {
			_, there := files["measurements/"+pod+"/"+what]
			if there == (pod+" "+what == "cart-router-a v1/state") {
				t.Errorf("%s of %s: %v", what, pod, there)
			}
		}
		if _, there := files["logs/"+ns+"/"+pod+".main.log"]; !there {
			t.Errorf("no log of %s", pod)
		}
	}
	for name := range files {
		if strings.Contains(name, "a-stranger") || strings.HasPrefix(name, "measurements/a-plain-1") {
			t.Errorf("%s is there", name)
		}
	}
}

// The nodes that are tested are the usable ones, as many as may be, or those that are named; the others are told.
func TestNodesThatAreChosen(t *testing.T) {
	objects := []client.Object{nodeThatIs("a", corev1.ConditionTrue), nodeThatIs("b", corev1.ConditionFalse), nodeThatIs("c", corev1.ConditionTrue), nodeThatIs("d", corev1.ConditionTrue)}
	c, _ := aCluster(t, false, objects...)
	for _, row := range []struct {
		most        int
		named       []string
		names, left string
	}{
		{4, nil, "a c d", "b"}, {3, nil, "a c d", "b"}, {2, nil, "a c", "b d"}, {1, nil, "a", "b c d"}, {2, []string{"d", "b"}, "d b", ""}, {1, []string{"d", "b"}, "d", "b"},
	} {
		names, left, err := (&trial{cluster: c, paths: paths{most: row.most, nodes: row.named}}).chosen(t.Context())
		if got, rest := strings.Join(names, " "), strings.Join(left, " "); err != nil || got != row.names || rest != row.left {
			t.Errorf("%+v: %q without %q, %v", row, got, rest, err)
		}
	}
	if _, _, err := (&trial{cluster: c, paths: paths{most: 4, nodes: []string{"e"}}}).chosen(t.Context()); err == nil {
		t.Error("a node that is not there is chosen")
	}
	empty, _ := aCluster(t, false, nodeThatIs("b", corev1.ConditionFalse))
	if _, _, err := (&trial{cluster: empty, paths: paths{most: 4}}).chosen(t.Context()); err == nil || !strings.Contains(err.Error(), "no node of 1 is ready") {
		t.Errorf("%v", err)
	}
}

// Where every node is tried, none is said to be left out; of a test that failed as a whole nothing is said besides.
func TestNoNodeIsLeftOut(t *testing.T) {
	w := &world{}
	c := w.in(t)
	if err := c.Delete(t.Context(), nodeThatIs("c", corev1.ConditionFalse)); err != nil {
		t.Fatal(err)
	}
	notTried := func(v verdict) bool { return strings.HasPrefix(v.Says, "not tried") }
	verdicts, err := w.test(t, c, time.Minute)
	if err != nil || len(verdicts) == 0 || slices.ContainsFunc(verdicts, notTried) {
		t.Errorf("%v: %v", says(verdicts), err)
	}
	refusing := &world{refuse: func(client.Object) error { return errors.New("no") }}
	if verdicts, err := refusing.test(t, refusing.in(t), time.Minute); err == nil || slices.ContainsFunc(verdicts, notTried) {
		t.Errorf("%v: %v", says(verdicts), err)
	}
}

// What is left of a test are its own pods and those of its service.
func TestPodsThatAreLeft(t *testing.T) {
	own, served, other := aPod("own", ""), aPod("served", ""), aPod("other", "")
	own.Labels, served.Labels, other.Labels = map[string]string{labelTrial: "run"}, map[string]string{v1alpha1.LabelService: "run"}, map[string]string{v1alpha1.LabelService: "walk"}
	mine := []client.ListOption{client.InNamespace(ns), client.MatchingLabels{labelTrial: "run"}}
	for n, objects := range [][]client.Object{{other}, {own, other}, {own, served, other}} {
		var copies []client.Object
		for _, o := range objects {
			copies = append(copies, o.(runtime.Object).DeepCopyObject().(client.Object))
		}
		c, _ := aCluster(t, false, copies...)
		if got, err := (&trial{cluster: c, run: "run"}).left(t.Context(), mine); err != nil || got != n {
			t.Errorf("%d are left, want %d, %v", got, n, err)
		}
	}
}

// A server is waited for until it is ready and has an address: either alone is not enough.
func TestServersThatNeverGetReady(t *testing.T) {
	for what, change := range map[string]func(*corev1.Pod){
		"without an address": func(p *corev1.Pod) { p.Status.PodIPs = nil },
		"not ready":          func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
		"not judged":         func(p *corev1.Pod) { p.Status.Conditions = nil },
	} {
		w := &world{server: change}
		if _, err := w.test(t, w.in(t), 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "wait for the servers: after 50ms") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An address of each family is waited for; what came by then is tried, and nothing at all is a verdict.
func TestAddressesThatAreWaitedFor(t *testing.T) {
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	for what, c := range map[string]struct {
		addresses []string
		families  []corev1.IPFamily
		waits     bool
		bad       bool
	}{
		"both":                {[]string{"192.0.2.1", "2001:db8::1"}, both, false, false},
		"one of one":          {[]string{"192.0.2.1"}, both[:1], false, false},
		"one of two":          {[]string{"192.0.2.1"}, both, true, false},
		"none":                {nil, both, true, true},
		"none, and no family": {nil, nil, true, true},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "run-crab"}}
		service.Spec.IPFamilies = c.families
		for _, ip := range c.addresses {
			service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		looks := 0
		in := clusterOf(t, service)
		in.Client = interceptor.NewClient(in.Client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				looks++
				return inner.Get(ctx, key, o, options...)
			},
		})
		patience := time.Minute
		if c.waits {
			patience = 20 * time.Millisecond
		}
		vips, v := (&trial{cluster: in, run: "run", paths: paths{timeout: patience}, every: time.Millisecond}).balancedReady(t.Context())
		if !slices.Equal(vips, c.addresses) || (v.Outcome == failed) != c.bad || !c.waits && looks != 1 {
			t.Errorf("%s: %q after %d looks, %+v", what, vips, looks, v)
		}
	}
}
