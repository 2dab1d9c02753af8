// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Object is what the tests read of any Bobtail object, through the API as users do.
type Object struct {
	Metadata struct {
		Name       string `json:"name"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration   int64       `json:"observedGeneration"`
		ObservedMicroseconds *int64      `json:"observedMicroseconds"`
		Samples              int64       `json:"samples"`
		Conditions           []Condition `json:"conditions"`
	} `json:"status"`
}

// Condition is a Kubernetes condition.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

// Condition returns the condition of that type; Unknown when it is absent.
func (o Object) Condition(kind string) Condition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{Type: kind, Status: "Unknown", Reason: "Absent"}
}

// Object reads one object: resource is a kind's name or short name. One that is named as
// PLURAL.bobtail.dev is read without a kubectl, which takes more of a processor than all else
// that a wait does.
func (e *Env) Object(ctx context.Context, namespace, resource, name string) (Object, error) {
	var o Object
	plural, whole := strings.CutSuffix(resource, ".bobtail.dev")
	if !whole {
		return o, e.Get(ctx, &o, "-n", namespace, resource, name)
	}
	in := ""
	if namespace != "" {
		in = "namespaces/" + namespace + "/"
	}
	text, err := e.ask(ctx, "/apis/bobtail.dev/v1alpha1/"+in+plural+"/"+name)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// ConditionSoon waits as WaitCondition does for an object of Bobtail's own group, and asks
// the API server itself, so that what is timed is not the start of a kubectl.
func (e *Env) ConditionSoon(ctx context.Context, limit time.Duration, namespace, plural, name, wanted string) error {
	kind, status, _ := strings.Cut(wanted, "=")
	return Until(ctx, limit, 20*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := e.Object(ctx, namespace, plural+".bobtail.dev", name)
		c := o.Condition(kind)
		return err == nil && c.Status == status && c.ObservedGeneration == o.Metadata.Generation,
			fmt.Sprintf("%s/%s: %s=%s (%s: %s)", plural, name, kind, c.Status, c.Reason, c.Message), err
	})
}

// WaitCondition waits until a condition has the status wanted, such as Ready=True, for the object's own generation.
func (e *Env) WaitCondition(ctx context.Context, limit time.Duration, namespace, resource, name, wanted string) error {
	kind, status, _ := strings.Cut(wanted, "=")
	return Until(ctx, limit, 250*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		o, err := e.Object(ctx, namespace, resource, name)
		if err != nil {
			return false, "", err
		}
		c := o.Condition(kind)
		ok := c.Status == status && c.ObservedGeneration == o.Metadata.Generation
		return ok, fmt.Sprintf("%s/%s: %s=%s (%s: %s), seen generation %d of %d", resource, name, kind, c.Status, c.Reason,
			c.Message, c.ObservedGeneration, o.Metadata.Generation), nil
	})
}

// HeldAddresses are what whereabouts has given to pods and not got back: by range, with the pod.
func (e *Env) HeldAddresses(ctx context.Context) (string, error) {
	var pools struct {
		Items []struct {
			Spec struct {
				Range       string
				Allocations map[string]struct{ PodRef string }
			}
		}
	}
	if err := e.Get(ctx, &pools, "ippools.whereabouts.cni.cncf.io", "-A"); err != nil {
		return "", err
	}
	var held strings.Builder
	for _, p := range pools.Items {
		for place, a := range p.Spec.Allocations {
			fmt.Fprintf(&held, "%s+%s:%s\n", p.Spec.Range, place, a.PodRef)
		}
	}
	return held.String(), nil
}
