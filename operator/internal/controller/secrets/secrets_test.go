// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Secret is believed for as long as it is written, by its name and of the object that owns it, until it is forgotten; what is
// done to a copy changes nothing.
func TestSecretsAreBelievedForAWhile(t *testing.T) {
	yes, now := true, time.Unix(1000, 0)
	shop, other := types.NamespacedName{Namespace: "shop", Name: "orders"}, types.NamespacedName{Namespace: "shop", Name: "other"}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &yes}}}, Data: map[string][]byte{"k": []byte(name)}}
	}
	var m Read
	if m.Get(shop, "u", "keys", now) != nil {
		t.Error("what was never read is known")
	}
	given := secret("keys")
	m.Put(shop, given, now)
	m.Put(shop, secret("tls"), now)
	given.Data["k"][0] = 'x'
	for name, c := range map[string]struct {
		of    types.NamespacedName
		owner types.UID
		name  string
		after time.Duration
		want  string
	}{
		"at once": {shop, "u", "keys", 0, "keys"}, "the other one": {shop, "u", "tls", 0, "tls"}, "at the end": {shop, "u", "keys", Believed - 1, "keys"}, "too late": {shop, "u", "keys", Believed, ""},
		"of another object": {other, "u", "keys", 0, ""}, "of a former one": {shop, "v", "keys", 0, ""}, "another name": {shop, "u", "none", 0, ""},
	} {
		got := m.Get(c.of, c.owner, c.name, now.Add(c.after))
		if (got != nil) != (c.want != "") || got != nil && string(got.Data["k"]) != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got != nil {
			got.Data["k"][0] = 'y'
		}
	}
	m.Put(other, secret("keys"), now)
	m.Forget(shop)
	if m.Get(shop, "u", "keys", now) != nil || m.Get(shop, "u", "tls", now) != nil || m.Get(other, "u", "keys", now) == nil {
		t.Error("what is forgotten is not what was of the object")
	}
}
