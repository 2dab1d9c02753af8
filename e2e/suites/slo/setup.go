// SPDX-License-Identifier: Apache-2.0

package slo

import (
	"fmt"
	"time"
)

// Setup is a service whose workers sleep, so that its capacity is a matter of
// their number and not of the machine, and its objective.
type Setup struct {
	// Replicas of the server, Workers in each.
	Replicas, Workers int
	// Service is the mean time a request takes; times are exponential.
	Service time.Duration
}

// ObjectiveFactor is the objective in mean service times. The p99 of the
// service alone is 4.6 of them.
const ObjectiveFactor = 10

// Judge is nil, or why nothing can be measured with a setup.
func (s Setup) Judge() error {
	switch {
	case s.Replicas < 1 || s.Workers < 1 || s.Workers > 64:
		return fmt.Errorf("replicas must be at least 1 and workers 1..64; got %d and %d", s.Replicas, s.Workers)
	case s.Service < time.Millisecond || s.Service > time.Second:
		return fmt.Errorf("the service time must be 1ms..1s: what a sleep overshoots must not matter; got %s", s.Service)
	}
	return nil
}

// Nominal is what the workers can do at most, in requests/s.
func (s Setup) Nominal() float64 { return float64(s.Replicas*s.Workers) / s.Service.Seconds() }

func (s Setup) latency() time.Duration { return ObjectiveFactor * s.Service }

func (s Setup) overloadRate() int { return int(1.5 * s.Nominal()) }

func (s Setup) String() string {
	return fmt.Sprintf("%d workers that sleep %s (exponential)", s.Replicas*s.Workers, s.Service)
}

// manifest of namespace, RpcService and objective; nothing is enforced yet.
func (s Setup) manifest(version string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: bobtail.dev/v1alpha1
kind: RpcService
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[4]d
  workersPerReplica: %[5]d
  server:
    image: localhost/bobtail/serve:%[7]s
    args: ["--service-time=exp:%[6]dus", --occupy=sleep]
    resources: {requests: {cpu: 100m, memory: 64Mi}}
  router: {replicas: 2, policy: JBSQ, workerQueueDepth: 2, resources: {requests: {cpu: 200m, memory: 64Mi}}}
---
apiVersion: bobtail.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: %[3]s, namespace: %[1]s}
spec:
  targetRef: {name: %[2]s}
  percentile: "99"
  latencyMicroseconds: %[8]d
  windowSeconds: 30
`, Namespace, Service, Objective, s.Replicas, s.Workers, s.Service.Microseconds(), version, s.latency().Microseconds())
}
