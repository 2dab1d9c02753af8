// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// anOperator is a pod of the operator with the labels given to it, and its namespace.
func anOperator(labels map[string]string) []client.Object {
	p := aPod("bobtail-operator-1", "")
	p.Namespace, p.Labels = "bobtail-system", labels
	return []client.Object{p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bobtail-system"}}}
}

// labelled as the charts do it: of 0.2.0, and of later ones.
var (
	labelled020 = map[string]string{"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": "operator", "app.kubernetes.io/instance": "b"}
	labelled    = map[string]string{"app.kubernetes.io/name": "bobtail", "app.kubernetes.io/component": "operator", "app.kubernetes.io/part-of": "bobtail"}
)

// complete is a cluster of which everything can be read.
func complete(t *testing.T, more ...client.Object) *cluster {
	t.Helper()
	c, all := aCluster(t, false, more...)
	for _, pod := range []string{"cart-router-a", "cart-router-b", "cart-server-a", "cart-server-b"} {
		for _, what := range []string{"v1/histogram", "v1/counters", "metrics"} {
			if all[pod+" "+what] == nil {
				all[pod+" "+what] = &dataplane.Counters{}
			}
		}
	}
	return c
}

// K-22: the operator's log is there, whichever chart its pods are of, and a bundle
// that lacks nothing says so by its exit status.
func TestBundleHoldsTheOperatorsLog(t *testing.T) {
	for name, labels := range map[string]map[string]string{"0.2.0": labelled020, "now": labelled} {
		path := filepath.Join(t.TempDir(), "b.tar.gz")
		if _, errs, err := execute(t, complete(t, anOperator(labels)...), "support-bundle", "--file="+path); err != nil || errs != "" {
			t.Errorf("%s: %v, %s", name, err, errs)
			continue
		}
		files := unpack(t, path)
		if !strings.Contains(files["logs/bobtail-system/bobtail-operator-1.main.log"], "fake logs") {
			t.Errorf("%s: no log of the operator", name)
		}
		if text, there := files["errors.txt"]; there {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// K-22: what could not be got is named, in the archive as on the terminal, and the exit
// status says so; what could be got is there all the same.
func TestBundleNamesWhatItCouldNotGet(t *testing.T) {
	refused := func(c *cluster) *cluster {
		c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, policies := list.(*networkingv1.NetworkPolicyList); policies {
					return errors.New("networkpolicies is forbidden")
				}
				return inner.List(ctx, list, options...)
			},
		})
		return c
	}
	silent := func() *cluster {
		c := complete(t, anOperator(labelled)...)
		delete(c.sidecars.(answers), "cart-server-b metrics")
		return c
	}
	for name, c := range map[string]struct {
		*cluster
		want string
	}{
		"no operator":           {complete(t, anOperator(nil)...), "operator: no pod of it in namespace bobtail-system: --operator-namespace"},
		"no such namespace":     {complete(t), `operator: namespace "bobtail-system"`},
		"a kind is refused":     {refused(complete(t, anOperator(labelled)...)), "objects/networkpolicies: networkpolicies is forbidden"},
		"a sidecar is silent":   {silent(), "cart-server-b metrics: read pod cart-server-b: connection refused"},
		"another's operator":    {complete(t, anOperator(map[string]string{"app.kubernetes.io/name": "nginx"})...), "operator: no pod of it"},
		"an agent, no operator": {complete(t, anOperator(map[string]string{"app.kubernetes.io/part-of": "bobtail", "app.kubernetes.io/component": "agent"})...), "operator: no pod of it"},
	} {
		path := filepath.Join(t.TempDir(), "b.tar.gz")
		out, errs, err := execute(t, c.cluster, "support-bundle", "--file="+path)
		files := unpack(t, path)
		parts := "one part is"
		if n := strings.Count(files["errors.txt"], "\n"); n != 1 {
			parts = fmt.Sprintf("%d parts are", n)
		}
		if want := path + " was written, but " + parts + " missing, named above"; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if !strings.Contains(errs, c.want) || !strings.Contains(files["errors.txt"], c.want) {
			t.Errorf("%s: %q is not said:\n%s\nerrors.txt: %s", name, c.want, errs, files["errors.txt"])
		}
		if !strings.Contains(out, path) || !strings.Contains(files["objects/rpcservices.yaml"], "cart") {
			t.Errorf("%s: the rest is not there: %s", name, out)
		}
	}
}

// K-22: nothing is collected of a namespace that does not exist.
func TestBundleOfNoNamespace(t *testing.T) {
	c := complete(t, anOperator(labelled)...)
	c.namespace = "nosuch"
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	if _, _, err := execute(t, c, "support-bundle", "--file="+path); err == nil || !strings.Contains(err.Error(), `namespace "nosuch" does not exist (-n)`) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an archive of nothing: %v", err)
	}
}
