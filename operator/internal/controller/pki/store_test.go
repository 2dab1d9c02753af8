// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func store(c client.Client, now *time.Time) *Store {
	return &Store{Reader: c, Writer: c, Namespace: "sys", Now: func() time.Time { return *now }}
}

// emptySecret is what the chart makes.
func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: SecretName, Labels: map[string]string{"chart": "yes"}}}
}

func TestStoreFillsTheChartsSecret(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(emptySecret()).Build()
	now := start
	first, err := store(c, &now).Authority(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(context.Background(), types.NamespacedName{Namespace: "sys", Name: SecretName}, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data) != 3 || secret.Labels["chart"] != "yes" {
		t.Errorf("keys %d, labels %v", len(secret.Data), secret.Labels)
	}
	// Another replica finds what the first has made.
	second, err := store(c, &now).Authority(context.Background())
	if err != nil || !second.certificate.Equal(first.certificate) {
		t.Errorf("the second replica made its own: %v", err)
	}
}

func TestStoreMakesAMissingSecret(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	now := start
	s := store(c, &now)
	first, err := s.Authority(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// Deleted behind its back: noticed within a minute, and connections made
	// with the old authority are given up.
	changed := 0
	s.OnChange = func() { changed++ }
	credentials, err := s.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(context.Background(), emptySecret()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(reread + time.Second)
	second, err := s.Authority(context.Background())
	if err != nil || second.certificate.Equal(first.certificate) || changed != 1 {
		t.Errorf("still the old authority (%v), changed %d times", err, changed)
	}
	again, err := s.Credentials()
	if err != nil || string(again.Certificate.Certificate[0]) == string(credentials.Certificate.Certificate[0]) {
		t.Errorf("the client certificate is still the old authority's: %v", err)
	}
}

func TestStoreReplacesAnAuthorityNearItsEnd(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(emptySecret()).Build()
	now := start
	s := store(c, &now)
	first, err := s.Authority(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(authorityLife * 3 / 4)
	second, err := s.Authority(context.Background())
	if err != nil || second.certificate.Equal(first.certificate) {
		t.Fatalf("not replaced: %v", err)
	}
	if why := second.Stale(server(t, first, "x", now), "x", now); why == "" {
		t.Error("certificates of the old authority are not issued anew")
	}
}

func TestClientCertificateIsRenewed(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(emptySecret()).Build()
	now := start
	s := store(c, &now)
	serial := func() string {
		t.Helper()
		cred, err := s.Credentials()
		if err != nil {
			t.Fatal(err)
		}
		return string(cred.Certificate.Certificate[0])
	}
	first := serial()
	if now = now.Add(clientLife / 4); serial() != first {
		t.Error("renewed far too early")
	}
	if now = now.Add(clientLife / 2); serial() == first {
		t.Error("not renewed when half of its life is over")
	}
}

// Two leaders in a hand-over: the one who writes second is told so and reads
// the other's next time.
func TestStoreLosesAWriteRace(t *testing.T) {
	lost := errors.New("conflict")
	c := fake.NewClientBuilder().WithObjects(emptySecret()).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return lost },
	}).Build()
	now := start
	s := store(c, &now)
	if _, err := s.Authority(context.Background()); !errors.Is(err, lost) {
		t.Fatalf("got %v", err)
	}
	if s.authority != nil {
		t.Error("an authority that was not stored is in use")
	}
}

// An API server that stumbles must not take away an authority that is good.
func TestStoreGoesOnThroughAnOutage(t *testing.T) {
	down, reads := false, 0
	c := fake.NewClientBuilder().WithObjects(emptySecret()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			if down {
				return errors.New("connection refused")
			}
			return w.Get(ctx, key, o, opts...)
		},
	}).Build()
	now := start
	s := store(c, &now)
	down = true
	if _, err := s.Authority(context.Background()); err == nil {
		t.Fatal("an authority out of nothing")
	}
	down = false
	first, err := s.Authority(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	down, now = true, now.Add(2*reread)
	before := reads
	for range 3 {
		again, err := s.Authority(context.Background())
		if err != nil || again != first {
			t.Fatalf("the outage took the authority away: %v", err)
		}
	}
	if reads != before+1 {
		t.Errorf("%d reads in one outage's first moments; want 1", reads-before)
	}
	now = now.Add(retry)
	if _, err := s.Authority(context.Background()); err != nil || reads != before+2 {
		t.Errorf("it must look again after %s: %d reads, %v", retry, reads-before, err)
	}
}
