// SPDX-License-Identifier: Apache-2.0

package replicationgroup

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// tellBoard tells switches once which groups there are, also where there are none: a switch that aggregates waits for that.
func (r *Reconciler) tellBoard(ctx context.Context) error {
	for {
		err := r.askForAll(ctx)
		if err == nil {
			return nil
		}
		log.FromContext(ctx).Info("switches are not told yet which groups there are", "error", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(converging):
		}
	}
}
