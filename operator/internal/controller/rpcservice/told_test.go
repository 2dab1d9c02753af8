// SPDX-License-Identifier: Apache-2.0

package rpcservice

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// K-36: a cache that has not yet seen the status that was written makes no event twice.
func TestK36NothingIsToldTwice(t *testing.T) {
	b := newBench(t)
	first := b.service()
	b.must(1)
	real := b.Client
	b.Client = interceptor.NewClient(real.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if s, is := o.(*v1alpha1.RpcService); is {
				first.DeepCopyInto(s)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	b.must(1)
	b.Client = real
	b.must(3)
	told := map[string]int{}
	for {
		select {
		case e := <-b.events.Events:
			told[e]++
			continue
		default:
		}
		break
	}
	if len(told) < 2 {
		t.Errorf("hardly anything was told: %v", told)
	}
	for e, n := range told {
		if n > 1 {
			t.Errorf("%d times: %s", n, e)
		}
	}
}

// K-36: a service that never was accepted has no last configuration that serves.
func TestK36NothingServesBeforeTheFirstAcceptance(t *testing.T) {
	b := newBench(t)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "echo"}}
	if err := b.Client.Create(context.Background(), foreign); err != nil {
		t.Fatal(err)
	}
	b.must(2)
	for _, kind := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		if c := b.condition(kind); !strings.HasPrefix(c.Message, "no specification has been accepted yet") {
			t.Errorf("%+v", c)
		}
	}
}
