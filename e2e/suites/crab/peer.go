// SPDX-License-Identifier: Apache-2.0

package crab

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bobtail-dev/bobtail/e2e/harness"
)

// image of both ends of connections (crabpeer).
const image = "localhost/bobtail-test/crabpeer:e2e"

// LoadImages brings that image into all nodes, and those of components beside it.
func LoadImages(ctx context.Context, env *harness.Env, components ...string) error {
	return env.LoadPeer(ctx, "crabpeer", image, components...)
}

// Container is a server on a TCP port, as manifests have it.
func Container(port int) string {
	return fmt.Sprintf(`{name: peer, image: %q, args: [serve, ":%d"], readinessProbe: {exec: {command: [/crabpeer, ready]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}, resources: {requests: {cpu: 10m, memory: 16Mi}}}`, image, port)
}

// Answer is what crabpeer prints.
type Answer struct {
	Connected           int            `json:"connected"`
	Failed              int            `json:"failed"`
	Servers             map[string]int `json:"servers"`
	Broken              map[string]int `json:"broken"`
	Remote              string         `json:"remote"`
	Error               string         `json:"error"`
	SlowestMilliseconds int64          `json:"slowestMilliseconds"`

	AnsweredUnixMilliseconds int64 `json:"answeredUnixMilliseconds"`
	OpenedMilliseconds       int64 `json:"openedMilliseconds"`
}

// Ask runs crabpeer in a pod that has it.
func Ask(ctx context.Context, env *harness.Env, namespace, pod string, args ...string) (Answer, error) {
	out, err := env.Kubectl(ctx, append([]string{"-n", namespace, "exec", pod, "--", "/crabpeer"}, args...)...)
	var a Answer
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	if err != nil {
		return a, fmt.Errorf("client in pod %s: %w", pod, err)
	}
	return a, nil
}
