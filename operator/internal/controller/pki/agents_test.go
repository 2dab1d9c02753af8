// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// The chart's empty Secret is filled, left alone, and renewed in time; one that is
// gone is not made, and what can be done is said.
func TestAgentsCertificate(t *testing.T) {
	ctx, now := context.Background(), start
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: AgentSecretName, Labels: map[string]string{"chart": "yes"}}}
	c := fake.NewClientBuilder().WithObjects(emptySecret(), empty).Build()
	a := &Agents{Store: store(c, &now), Client: c}
	read := func() *corev1.Secret {
		s := &corev1.Secret{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: "sys", Name: AgentSecretName}, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, step := range []struct {
		after time.Duration
		new   bool
	}{{0, true}, {time.Minute, false}, {serverLife / 2, false}, {serverLife / 4, true}, {time.Minute, false}} {
		now = now.Add(step.after)
		before := read()
		why, err := a.renew(ctx)
		if err != nil || (why != "") != step.new || (string(before.Data[KeyCertificate]) != string(read().Data[KeyCertificate])) != step.new {
			t.Errorf("after %s: issued anew because %q, %v; want %v", step.after, why, err, step.new)
		}
	}
	s := read()
	authority, err := a.Store.Authority(ctx)
	if err != nil || authority.Stale(s.Data, dataplane.AgentServerName, now) != "" || s.Labels["chart"] != "yes" {
		t.Errorf("%v, labels %v", err, s.Labels)
	}
	// Whoever has it is no sidecar of any service, and the other way round.
	if why := authority.Stale(s.Data, dataplane.SidecarServerName("agent", "sys"), now); why == "" {
		t.Error("the agents' certificate would pass for a sidecar's")
	}
	if err := c.Delete(ctx, s); err != nil {
		t.Fatal(err)
	}
	if why, err := a.renew(ctx); why != "" || err == nil || !strings.Contains(err.Error(), "there is no Secret sys/bobtail-agent-tls") || !strings.Contains(err.Error(), "helm upgrade") {
		t.Errorf("without a Secret: %q, %v", why, err)
	}
	broken := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("away")
	}})
	a.Client = broken
	if _, err := a.renew(ctx); err == nil {
		t.Error("no error of an API server that is away")
	}
}
