// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// api is a cluster with one node; away makes every write fail, and writes are counted.
type api struct {
	client.WithWatch
	away   bool
	writes int
}

func newAPI(t *testing.T) *api {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	a := &api{}
	a.WithWatch = fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&v1alpha1.NodeDataplane{}).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if a.writes++; a.away {
				return errors.New("refused")
			}
			return c.Apply(ctx, o, opts...)
		}}).Build()
	return a
}

func (a *api) read(t *testing.T) *v1alpha1.NodeDataplane {
	t.Helper()
	n := &v1alpha1.NodeDataplane{}
	if err := a.Get(t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What an agent of CRAB wrote stays, what did not change is not written again, and an API
// server that was away is told later.
func TestTell(t *testing.T) {
	a := newAPI(t)
	w := &writer{client: a, node: "n"}
	first := &v1alpha1.NodeHost{IOMMU: v1alpha1.IOMMUOn, AFXDP: v1alpha1.AFXDPNative, IsolatedCPUs: "2-3"}
	a.away = true
	w.tell(t.Context(), first)
	a.away = false
	w.tell(t.Context(), first)
	n := a.read(t)
	if n.Status.Host == nil || n.Status.Host.IsolatedCPUs != "2-3" || n.RunsCRAB() || len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != "u" {
		t.Fatalf("%+v", n)
	}
	crab := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "bobtail.dev/v1alpha1", "kind": "NodeDataplane", "metadata": map[string]any{"name": "n"},
		"status": map[string]any{"agentVersion": "1.0", "layoutVersion": int64(7)}}}
	if err := a.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(crab), client.FieldOwner("bobtail-agent"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	before := a.writes
	w.tell(t.Context(), &v1alpha1.NodeHost{IOMMU: v1alpha1.IOMMUOn, AFXDP: v1alpha1.AFXDPNative, IsolatedCPUs: "2-3"})
	if a.writes != before {
		t.Error("what did not change was written again")
	}
	w.tell(t.Context(), &v1alpha1.NodeHost{IOMMU: v1alpha1.IOMMUOff, AFXDP: v1alpha1.AFXDPNative})
	n = a.read(t)
	if h := n.Status.Host; h == nil || h.IOMMU != v1alpha1.IOMMUOff || h.IsolatedCPUs != "" {
		t.Errorf("what is gone stays: %+v", h)
	}
	if n.Status.LayoutVersion != 7 || n.Status.AgentVersion != "1.0" || !n.RunsCRAB() {
		t.Errorf("what CRAB's agent wrote is gone: %+v", n.Status)
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for text, want := range map[string]string{"": "--node", "--node=n --every=1ms": "--every", "--node=n more": "more", "--other": "other"} {
		if _, err := ParseOptions(strings.Fields(text)); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if o, err := ParseOptions([]string{"--node=n", "--every=1s"}); err != nil || o.Every != leastEvery {
		t.Errorf("as often as may be: %+v, %v", o, err)
	}
	if o, err := ParseOptions([]string{"--node=n"}); err != nil || o.Root != "/" || o.Kubelet != "" {
		t.Errorf("%+v, %v", o, err)
	}
}
