// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels and annotations.
const (
	// LabelService carries the name of the RpcService or ReplicationGroup on everything
	// made for it.
	LabelService = "bobtail.dev/service"

	// LabelBackupOf carries the name of the ReplicationGroup on the Jobs that copy a
	// member's disk.
	LabelBackupOf = "bobtail.dev/backup-of"

	// LabelExperiment carries the name of the LatencyExperiment on everything
	// made for it.
	LabelExperiment = "bobtail.dev/experiment"

	// ComponentAgent labels the pods that offer the load of an experiment.
	ComponentAgent = "agent"

	// ComponentCoordinator labels the pod that judges it.
	ComponentCoordinator = "coordinator"

	// LabelComponent is ComponentServer or ComponentRouter on pods.
	LabelComponent = "bobtail.dev/component"

	// ComponentServer labels the pods that execute requests.
	ComponentServer = "server"

	// ComponentRouter labels the pods that place requests.
	ComponentRouter = "router"

	// ComponentMember labels the pods of a ReplicationGroup.
	ComponentMember = "member"

	// ComponentBox labels the pods that take the requests of a HovercRaft group.
	ComponentBox = "box"

	// ComponentAggregator labels the pod between the leader and the followers of a
	// HovercRaft++ group.
	ComponentAggregator = "aggregator"

	// LoadBalancerClass in spec.loadBalancerClass asks for an address balanced by
	// CRAB.
	LoadBalancerClass = "bobtail.dev/crab"

	// AnnotationVIP on a Service of that class names the address it wants.
	AnnotationVIP = "bobtail.dev/vip"

	// AnnotationRedirect on a Service with node ports, with the value "enabled",
	// lets nodes without a pod redirect connections to nodes that have one.
	AnnotationRedirect = "bobtail.dev/redirect"

	// AnnotationSwitch on a Service of CRAB's class names a ProgrammableSwitch that
	// redirects its connections in the place of the nodes (docs/guides/switch.md).
	AnnotationSwitch = "bobtail.dev/switch"

	// AnnotationPolicy on a Service chooses how connections are spread:
	// RoundRobin, RoundRobinPerCPU, Random, Hash, PowerOfTwo or Least.
	AnnotationPolicy = "bobtail.dev/policy"

	// AnnotationNodeWeights on a Service gives the servers of some nodes more
	// connections than others: "node-a=3,node-b=1"; 1 where nothing is said.
	AnnotationNodeWeights = "bobtail.dev/node-weights"

	// AnnotationRetryDevice on an RpcService makes the operator try the entries of
	// `spec.device` from the first again whenever its value changes.
	AnnotationRetryDevice = "bobtail.dev/retry-device"

	// AnnotationRotateKeys on an RpcService starts a rotation of its packet
	// keys whenever its value changes, for instance to the current date.
	AnnotationRotateKeys = "bobtail.dev/rotate-keys"
)
