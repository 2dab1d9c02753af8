// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/hack/test/controlplane"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// Against a real API server and its RBAC: get and watch of the one name are
// enough, and nothing else is granted.
func TestRoleOfOneNameSuffices(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	env := controlplane.At(needs.APIServer(t))
	rest, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	admin, err := client.New(rest, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.crt"), rest.CAData)
	write(t, filepath.Join(dir, "token"), []byte(sidecarToken(t, admin)))
	cluster := Cluster{URL: rest.Host, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	if cluster.URL[:5] != "https" {
		cluster.URL = "https://" + cluster.URL
	}

	stranger, err := newKubeClient(cluster, "default", "another")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.get(t.Context()); !hasStatus(err, http.StatusForbidden) {
		t.Errorf("another ConfigMap: %v, want 403", err)
	}
	follow(t, admin, cluster)
}

// follow changes the ConfigMap as an operator does and watches it arrive.
func follow(t *testing.T, admin client.Client, cluster Cluster) {
	t.Helper()
	kube, err := newKubeClient(cluster, "default", "echo-dataplane")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var now desired
	got := func(hash, code string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return now.hash == hash && (now.bad == nil) == (code == "") && (code == "" || now.bad.Code == code)
		}
	}
	failures := 0
	w := &watcher{kube: kube, log: slog.New(slog.DiscardHandler), minWait: time.Second, maxWait: time.Second,
		out: func(d desired) {
			mu.Lock()
			defer mu.Unlock()
			now = d
		},
		failed: func() { failures++ }, health: &health{now: time.Now},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	eventually(t, "missing is told", got("", codeMissing))
	one, hash1 := content(t, 3)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "echo-dataplane"}, Data: one}
	if err := admin.Create(ctx, cm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "created", got(hash1, ""))
	two, hash2 := content(t, 4)
	cm.Data = two
	if err := admin.Update(ctx, cm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "changed", got(hash2, ""))
	if err := admin.Delete(ctx, cm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted", got("", codeMissing))
	cancel()
	running.Wait()
	if failures != 0 {
		t.Errorf("%d rounds failed", failures)
	}
}

// sidecarToken makes the Role the operator renders for a sidecar and returns a
// token of its service account.
func sidecarToken(t *testing.T, admin client.Client) string {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "echo-sidecar"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	for _, o := range []client.Object{
		account,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"echo-dataplane"}, Verbs: []string{"get", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "echo-sidecar"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "echo-sidecar", Namespace: "default"}},
		},
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
