// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// Listens is what a server logs once it has its device and its port.
const Listens = "workers from "

// Object is a manifest as it is read and written.
type Object = map[string]any

// CopyWithout is a server pod as a manifest of its own, that belongs to nobody, with one of
// its capabilities fewer (none: with all), and ends when its program ends.
func CopyWithout(pod Object, name, capability string) (Object, error) {
	text, err := json.Marshal(pod) // a deep copy
	if err != nil {
		return nil, err
	}
	var p struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec Object `json:"spec"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	delete(p.Metadata.Annotations, "k8s.v1.cni.cncf.io/network-status") // it is told its own
	for _, key := range []string{"nodeName", "readinessGates", "topologySpreadConstraints", "priority", "preemptionPolicy"} {
		delete(p.Spec, key)
	}
	p.Spec["restartPolicy"], p.Spec["terminationGracePeriodSeconds"] = "Never", 1
	if capability != "" {
		added, err := CapabilitiesOf(p.Spec)
		if err != nil {
			return nil, err
		}
		i := slices.Index(added, any(capability))
		if i < 0 {
			return nil, fmt.Errorf("the server has no capability %s, it has %v", capability, added)
		}
		set := p.Spec["containers"].([]any)[0].(Object)["securityContext"].(Object)["capabilities"].(Object)
		set["add"] = slices.Delete(added, i, i+1)
	}
	return Object{"apiVersion": "v1", "kind": "Pod", "metadata": Object{
		"name": name, "namespace": p.Metadata.Namespace, "annotations": p.Metadata.Annotations, "labels": Object{"without": name},
	}, "spec": p.Spec}, nil
}

// CapabilitiesOf are those that the first container is given.
func CapabilitiesOf(spec Object) ([]any, error) {
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return nil, errors.New("a pod without containers")
	}
	first, _ := containers[0].(Object)
	security, _ := first["securityContext"].(Object)
	set, _ := security["capabilities"].(Object)
	added, _ := set["add"].([]any)
	if len(added) == 0 {
		return nil, errors.New("the first container is given no capability")
	}
	return added, nil
}

// ServerPod is a running server pod, and the capabilities of its program.
func ServerPod(ctx context.Context, env *harness.Env, namespace string) (Object, []any, error) {
	var list struct {
		Items []Object `json:"items"`
	}
	if err := env.Get(ctx, &list, "-n", namespace, "pods", "-l", "bobtail.dev/component=server"); err != nil {
		return nil, nil, err
	}
	for _, pod := range list.Items {
		if _, leaving := pod["metadata"].(Object)["deletionTimestamp"]; leaving {
			continue
		}
		granted, err := CapabilitiesOf(pod["spec"].(Object))
		return pod, granted, err
	}
	return nil, nil, errors.New("no server is running")
}

// Outcome waits until the program of a copy has said this, or that it serves.
func Outcome(ctx context.Context, env *harness.Env, namespace, name, word string) (log string, err error) {
	err = harness.Until(ctx, 4*time.Minute, time.Second, func(ctx context.Context) (bool, string, error) {
		var err error
		if log, err = env.Kubectl(ctx, "-n", namespace, "logs", name, "-c", "server"); err != nil {
			return false, "", err // its container is not there yet
		}
		return strings.Contains(log, word) || strings.Contains(log, Listens), "pod " + name + " says: " + LastLine(log), nil
	})
	return log, err
}

// LastLine of a log, which is where a program says why it ended.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
