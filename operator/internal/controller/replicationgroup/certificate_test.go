// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/apply"
)

// A certificate is issued where that is planned; that an old one gave way is told, once it is written.
func TestCertificatesAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		planned string
		had     bool
		refused error
		writes  int
		told    bool
	}{
		"none is due":   {"", true, nil, 0, false},
		"the first":     {"there is none", false, nil, 1, false},
		"a renewal":     {"it ends soon", true, nil, 1, true},
		"it is refused": {"it ends soon", true, errors.New("not now"), 1, false},
		"so is a first": {"there is none", false, errors.New("not now"), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			world := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					writes++
					return c.refused
				}}).Build()
			told := events.NewFakeRecorder(10)
			s := newScene(t)
			if c.had {
				s.tls = &corev1.Secret{}
			}
			r := &Reconciler{Client: world, Live: world, Events: told, applied: apply.New(world, world, fieldManager, func() time.Time { return start })}
			err := r.writeCertificate(t.Context(), s.snapshot, &plan{certificate: c.planned, input: s.input})
			if (err != nil) != (c.refused != nil) || writes != c.writes {
				t.Errorf("%v, written %d times", err, writes)
			}
			select {
			case text := <-told.Events:
				if !c.told || !strings.Contains(text, c.planned) {
					t.Errorf("told: %s", text)
				}
			default:
				if c.told {
					t.Error("nothing is told")
				}
			}
		})
	}
}
