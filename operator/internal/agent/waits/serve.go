// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ll7"
	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// connectionsMost are open at a time: every pod reaches the port, and can hold a
// handshake for 5 s. Others wait to be accepted. The operator looks at 16 objectives
// at a time, with a connection for each.
const connectionsMost = 128

// Serve answers the operator, and nobody else, at the given address until ctx ends.
// While no certificate is mounted, as before an operator knows of agents that
// measure, nobody is let in.
func (w *Waits) Serve(ctx context.Context, address string, identity *dataplane.Identity) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the port where the operator reads: %w", err)
	}
	server := &http.Server{
		Handler: w, TLSConfig: identity.ServerConfig(), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.ServeTLS(netutil.LimitListener(listener, connectionsMost), "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // a listener that breaks is beyond repair
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// maxParts is in how many parts a window may be asked for, as of a sidecar.
const maxParts = 60

// ServeHTTP is GET dataplane.ConnectsPath.
func (w *Waits) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != dataplane.ConnectsPath {
		dataplane.WriteError(out, http.StatusNotFound, &ctl.Error{Code: ctl.CodeUnknownOperation, Field: "path",
			Message: fmt.Sprintf("must be GET %s; got %s %s", dataplane.ConnectsPath, r.Method, r.URL.Path)})
		return
	}
	q := r.URL.Query()
	service := types.NamespacedName{Namespace: q.Get("namespace"), Name: q.Get("service")}
	seconds, err := dataplane.QueryCount(q, "windowSeconds", 30, ll7.WindowSeconds)
	parts := 0
	if err == nil {
		parts, err = dataplane.QueryCount(q, "parts", 1, maxParts)
	}
	var wrong *ctl.Error
	if errors.As(err, &wrong) {
		dataplane.WriteError(out, http.StatusBadRequest, wrong)
		return
	}
	connects, known, err := w.Read(service, seconds, parts)
	switch {
	case err != nil:
		dataplane.WriteError(out, http.StatusServiceUnavailable, &ctl.Error{Code: "CountsUnreadable", Message: err.Error()})
	case !known:
		dataplane.WriteError(out, http.StatusNotFound, &ctl.Error{Code: "UnknownService", Field: "service",
			Message: fmt.Sprintf("the node knows no address that CRAB serves for Service %s", service)})
	default:
		dataplane.WriteJSON(out, http.StatusOK, connects)
	}
}
