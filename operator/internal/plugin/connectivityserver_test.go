// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/controlplane"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/connectivity"
)

// A real API server with our CRDs takes every object of a test, in a namespace that
// enforces the restricted Pod Security standard, and its own words of a quota that is
// used up become an error that helps. There is no kubelet, so nothing runs.
func TestConnectivityAtARealAPIServer(t *testing.T) {
	env := controlplane.At(needs.APIServer(t), "../../../crds")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	put := func(o client.Object) { created(t, api, o) }
	put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})
	put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tight"}})
	in := func(namespace string) *trial {
		return &trial{cluster: &cluster{Client: api, namespace: namespace}, run: "connectivity-abcde", nodes: []string{"a", "b"}, every: 10 * time.Millisecond,
			paths: paths{image: "registry.example/team/bobtail/sidecar:1.2.3", pullSecrets: []string{"pull"}}}
	}
	strict := in("strict")
	crab, err := strict.make(t.Context())
	if err != nil || crab {
		t.Fatalf("CRAB %v, %v", crab, err)
	}
	pod, err := strict.clientPod(1, []connectivity.Path{{Kind: connectivity.R2P2, Target: "10.0.0.1:8000", Tries: 8}})
	if err := errors.Join(err, strict.put(t.Context(), pod), strict.put(t.Context(), strict.balanced())); err != nil {
		t.Fatal(err)
	}
	ended := kubelets(t, api, "strict")
	if err := strict.clear(); err != nil {
		t.Error(err)
	}
	ended()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tight", Name: "small"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	put(quota)
	// What a quota's controller would write.
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}
	if err := api.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	if _, err = in("tight").make(t.Context()); err == nil || !strings.Contains(err.Error(), "because of its ResourceQuota") || !strings.Contains(err.Error(), "exceeded quota: small") {
		t.Errorf("%v", err)
	}
	hostNetwork := strict.serverPod(0)
	hostNetwork.Spec.HostNetwork = true // stands for a policy that forbids more than the standard
	if err := strict.put(t.Context(), hostNetwork); err == nil || !strings.Contains(err.Error(), "because of its Pod Security labels") {
		t.Errorf("%v", err)
	}
}

// kubelets do what those of the nodes would, until they are ended: a pod that is deleted
// has ended.
func kubelets(t *testing.T, api client.Client, namespace string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			pods := &corev1.PodList{}
			if err := api.List(ctx, pods, client.InNamespace(namespace)); err != nil {
				return // it has been ended
			}
			for i := range pods.Items {
				if pods.Items[i].DeletionTimestamp != nil {
					_ = api.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)) // next time, if not now
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

func created(t *testing.T, api client.Client, o client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}
