// SPDX-License-Identifier: Apache-2.0

// What `helm test` runs: is Bobtail there, and does somebody act?
package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Check is the command `operator check`: it waits until the API server serves
// the kinds and an operator has lately renewed the lease.
func Check(ctx context.Context, config *rest.Config, args []string) error {
	f := flag.NewFlagSet("bobtail-operator check", flag.ContinueOnError)
	namespace := f.String("namespace", os.Getenv("POD_NAMESPACE"), "namespace the operator runs in (default $POD_NAMESPACE)")
	timeout := f.Duration("timeout", time.Minute, "how long to wait")
	if err := f.Parse(args); err != nil {
		return err
	}
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	for {
		err := checkOnce(ctx, c, *namespace, time.Now())
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

func checkOnce(ctx context.Context, c client.Client, namespace string, now time.Time) error {
	for _, kind := range []string{"RpcService", "ServiceLevelObjective"} {
		gk := schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}
		if _, err := c.RESTMapper().RESTMapping(gk, v1alpha1.GroupVersion.Version); meta.IsNoMatchError(err) {
			return fmt.Errorf("the API server does not serve %s: install the CRDs (crds.install=true)", gk)
		} else if err != nil {
			return fmt.Errorf("look up %s: %w", gk, err)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: LeaseName}, lease); err != nil {
		return fmt.Errorf("read the lease that operators hold while they act: %w", err)
	}
	return acting(lease, now)
}

// acting says why nobody acts, or nothing.
func acting(lease *coordinationv1.Lease, now time.Time) error {
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return errors.New("no operator holds the lease yet")
	}
	life := time.Duration(*s.LeaseDurationSeconds) * time.Second
	if age := now.Sub(s.RenewTime.Time); age > life {
		return fmt.Errorf("operator %s renewed its lease %s ago, longer than the %s it lasts", *s.HolderIdentity, age.Round(time.Second), life)
	}
	return nil
}
