// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// That a write failed is told, whether it was refused or took too long; at the end of the agent it is no news.
func TestFailedWritesAreTold(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	ended, end := context.WithCancel(t.Context())
	end()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	for what, c := range map[string]struct {
		ctx  context.Context
		told bool
	}{"refused": {t.Context(), true}, "too late": {late, true}, "at the end": {ended, false}} {
		log.Reset()
		a := newAPI(t)
		a.away = true
		w := &writer{client: a, node: "n"}
		w.tell(c.ctx, &v1alpha1.NodeHost{IOMMU: v1alpha1.IOMMUOn})
		if got := strings.Contains(log.String(), "is not written"); got != c.told || w.written != nil {
			t.Errorf("%s: %s, remembered %+v", what, log.String(), w.written)
		}
	}
}

// Without a cluster that can be asked it does not begin.
func TestRunWithoutACluster(t *testing.T) {
	if err := Run(t.Context(), &rest.Config{Host: "http://%zz"}, Options{Node: "n"}); err == nil {
		t.Error("it began")
	}
}
