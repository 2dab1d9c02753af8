// SPDX-License-Identifier: Apache-2.0

// Condition types and reasons are part of the API: scripts and alerts match on
// them. They are kept in conditions*.go so that the reference table in the docs and
// the code cannot drift apart.
package v1alpha1

// Condition types. Accepted, Programmed and Ready stand on every kind, from the
// first time the operator sees an object, Reconciling and Stalled while they are True;
// Met stands on ServiceLevelObjective,
// Conclusive on LatencyExperiment.
const (
	// ConditionAccepted says whether the specification can be acted on. While
	// it is False the last accepted configuration keeps serving.
	ConditionAccepted = "Accepted"

	// ConditionProgrammed says whether every live router and server (of an
	// RpcService of protocol TCP: every node's agent) has acknowledged the
	// configuration made from this generation. It is never True on the strength
	// of something merely having been sent.
	ConditionProgrammed = "Programmed"

	// ConditionReady is the summary: True when the object does what it asks
	// for, in full.
	ConditionReady = "Ready"

	// ConditionDeviceUsable says whether the device that `spec.device` asks for
	// first is the one in use. It stands on an RpcService whose device is not
	// Kernel.
	ConditionDeviceUsable = "DeviceUsable"

	// ConditionAddressed says whether the address of every running pod on the
	// service's network is known and its own. It stands beside DeviceUsable.
	ConditionAddressed = "Addressed"

	// ConditionDeviceAsAsked says whether what pods report of their devices is
	// what `spec.device` asks for. It stands beside DeviceUsable.
	ConditionDeviceAsAsked = "DeviceAsAsked"

	// ConditionCoresAsAsked says whether servers have the processors that
	// `spec.scheduling` asks for. It is there with that field.
	ConditionCoresAsAsked = "CoresAsAsked"

	// ConditionReconciling is there, and True, while an accepted object is on its
	// way to Ready; tools that follow kstatus take that for progress.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is there, and True, while nothing will happen until
	// somebody acts: the specification is not accepted, or an experiment failed.
	ConditionStalled = "Stalled"

	// ConditionMet says whether the latency objective was met over the last
	// window. Unknown means that it was not measured, and why.
	ConditionMet = "Met"

	// ConditionCapacityKnown says whether the capacity under the objective
	// could be estimated.
	ConditionCapacityKnown = "CapacityKnown"

	// ConditionAttainable says whether any load meets the objective. False is a
	// warning: the service time alone is longer, by the floor that the message
	// names. Unknown means that it was not measured, and why.
	ConditionAttainable = "Attainable"

	// ConditionConclusive says whether every load of an experiment was measured
	// and may be trusted. Unknown means that it is not over.
	ConditionConclusive = "Conclusive"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the specification is valid together with the other
	// objects of the cluster.
	ReasonAccepted = "Accepted"

	// ReasonNameConflict: an object the operator would have to create exists
	// already and belongs to somebody else. It is left untouched.
	ReasonNameConflict = "NameConflict"

	// ReasonTargetNotFound: the object named by targetRef does not exist.
	ReasonTargetNotFound = "TargetNotFound"

	// ReasonObjectiveBeyondTimeout: the objective lies above the request
	// timeout of the target, past which every request counts as unanswered.
	ReasonObjectiveBeyondTimeout = "ObjectiveBeyondTimeout"

	// ReasonNothingEnforces: the objective asks for enforcement and the target
	// has nothing that could: no router, or peers that cannot read the mark.
	ReasonNothingEnforces = "NothingEnforces"

	// ReasonConflict: another, older objective is enforced on the same target;
	// the message names it. This one observes until that one is gone.
	ReasonConflict = "Conflict"

	// ReasonInvalidConfiguration: the configuration made from the specification
	// and the pods breaks a bound of the dataplane; the message names the field.
	ReasonInvalidConfiguration = "InvalidConfiguration"

	// ReasonApplyFailed: the API server refused an object made for this
	// service; the message carries its answer.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of ConditionProgrammed.
const (
	// ReasonProgrammed: every live router and server runs the configuration of
	// this generation.
	ReasonProgrammed = "Programmed"

	// ReasonReconciling: some router or server has yet to acknowledge.
	ReasonReconciling = "Reconciling"

	// ReasonRejected: a router or server refused the configuration; the
	// message names the field. The previous one keeps serving.
	ReasonRejected = "Rejected"

	// ReasonUnreachable: the sidecar of a running pod does not answer.
	ReasonUnreachable = "Unreachable"

	// ReasonConfigUnreadable: the sidecar of a running pod cannot read its
	// configuration, so the pod hears of no change; it serves with what it has.
	ReasonConfigUnreadable = "ConfigUnreadable"

	// ReasonKeysLost: the Secret with the packet keys is gone. Running pods go on
	// with the keys they hold; pods that start wait for a new one.
	ReasonKeysLost = "KeysLost"

	// ReasonNoPods: no router or server pod is running.
	ReasonNoPods = "NoPods"

	// ReasonNotAccepted: the specification was not accepted, so an earlier
	// generation is being served.
	ReasonNotAccepted = "NotAccepted"

	// ReasonCRABDisabled: the service speaks TCP, and this installation has no CRAB
	// (`crab.enabled` of the chart). It is reached by its ClusterIP.
	ReasonCRABDisabled = "CRABDisabled"

	// ReasonNothingToProgram: the object only observes; no router or server
	// takes configuration from it.
	ReasonNothingToProgram = "NothingToProgram"
)

// Reasons of ConditionDeviceUsable, and of the entries of `status.devices`.
const (
	// ReasonDeviceInUse: pods are made for the device that was asked for.
	ReasonDeviceInUse = "DeviceInUse"

	// ReasonFellBack: an earlier entry of `spec.device` could not be had; the
	// message says which is in use and why.
	ReasonFellBack = "FellBack"

	// ReasonNoUsableDevice: no entry can be had. The last one is asked for.
	ReasonNoUsableDevice = "NoUsableDevice"

	// ReasonNotTried: an entry before it is in use.
	ReasonNotTried = "NotTried"

	// ReasonDefinitionMissing: the NetworkAttachmentDefinition does not exist,
	// or the cluster knows no such kind.
	ReasonDefinitionMissing = "DefinitionMissing"

	// ReasonDefinitionInvalid: the NetworkAttachmentDefinition cannot give what
	// the entry asks for; the message says what is wrong.
	ReasonDefinitionInvalid = "DefinitionInvalid"

	// ReasonDefinitionForbidden: the NetworkAttachmentDefinition is in a
	// namespace whose networks this service may not use, or the operator may not
	// read it.
	ReasonDefinitionForbidden = "DefinitionForbidden"

	// ReasonResourceMissing: no node offers the resource.
	ReasonResourceMissing = "ResourceMissing"

	// ReasonUnschedulable: a pod could not be scheduled for the device, for 60 s.
	ReasonUnschedulable = "Unschedulable"

	// ReasonPodSecurity: the namespace admits no pods with the capabilities that
	// the device needs.
	ReasonPodSecurity = "PodSecurity"

	// ReasonNotPermitted: the operator's Role is that of an older chart, and gives
	// it no right to something that devices need; the message names it.
	ReasonNotPermitted = "NotPermitted"
)

// Reasons of ConditionDeviceAsAsked.
const (
	// ReasonAsAsked: every pod that reports a device got what was asked for.
	ReasonAsAsked = "AsAsked"

	// ReasonNothingReported: no pod has reported its device yet.
	ReasonNothingReported = "NothingReported"

	// ReasonDriverDiffers: a pod drives another kind of device.
	ReasonDriverDiffers = "DriverDiffers"

	// ReasonProgramEnded: the program of a pod ended before it had its device. The
	// message is its own: a virtual function that is gone, or on its kernel's driver.
	ReasonProgramEnded = "ProgramEnded"

	// ReasonDeviceLost: the device of a pod was taken away, or was not there when
	// its program began. The pod is evicted, and another comes in its place.
	ReasonDeviceLost = "DeviceLost"

	// ReasonLinkDown: a pod's device has no link. Clients are not led to it.
	ReasonLinkDown = "LinkDown"

	// ReasonMACDuplicated: two pods have the same MAC, and frames of one go to
	// the other.
	ReasonMACDuplicated = "MACDuplicated"

	// ReasonDeviceDiffers: the program of a pod drives another PCI device than its
	// network took.
	ReasonDeviceDiffers = "DeviceDiffers"

	// ReasonMACDiffers: a pod's device has another MAC than its network tells, and
	// frames for it go elsewhere.
	ReasonMACDiffers = "MACDiffers"

	// ReasonMTUDiffers: pods of the service have different MTUs, or one has another
	// than its network tells, and what one sends another may not take.
	ReasonMTUDiffers = "MTUDiffers"

	// ReasonHugepagesMissing: hugepages were asked for, and a pod runs on
	// ordinary memory or on fewer.
	ReasonHugepagesMissing = "HugepagesMissing"

	// ReasonNodesDiffer: device, memory and CPUs of a pod are on different NUMA
	// nodes.
	ReasonNodesDiffer = "NodesDiffer"

	// ReasonCPUsShared: a pod on SRIOV may run on more CPUs than it has for
	// itself; the kubelet's CPU manager is not static.
	ReasonCPUsShared = "CPUsShared"
)

// Reasons of ConditionCoresAsAsked; AsAsked, NothingReported and CPUsShared are among
// them, of cores in place of devices.
const (
	// ReasonFewerProcessors: a pod may use fewer processors than `maxCores`; it runs
	// with what is there.
	ReasonFewerProcessors = "FewerProcessors"
)

// Reasons of ConditionAddressed; those of one pod also stand on its condition
// bobtail.dev/Joined.
const (
	// ReasonAddressed: every running pod has its address.
	ReasonAddressed = "Addressed"

	// ReasonNetworkStatusMissing: the pod has no annotation
	// k8s.v1.cni.cncf.io/network-status yet.
	ReasonNetworkStatusMissing = "NetworkStatusMissing"

	// ReasonNetworkNotMade: a pod has had a node for 60 s, and what makes its interfaces fails.
	ReasonNetworkNotMade = "NetworkNotMade"
	// ReasonNetworkStatusLate: it has run for 30 s and still has none.
	ReasonNetworkStatusLate = "NetworkStatusLate"

	// ReasonNetworkStatusMalformed: the annotation cannot be read; the message
	// says where.
	ReasonNetworkStatusMalformed = "NetworkStatusMalformed"

	// ReasonNetworkNotAttached: the annotation does not tell of the network on
	// the interface that was asked for, or more than once.
	ReasonNetworkNotAttached = "NetworkNotAttached"

	// ReasonAddressMissing: the network gave the pod no address.
	ReasonAddressMissing = "AddressMissing"

	// ReasonAddressAmbiguous: the network gave the pod two addresses of one
	// family.
	ReasonAddressAmbiguous = "AddressAmbiguous"

	// ReasonAddressDuplicated: an older pod of the service has the same address.
	ReasonAddressDuplicated = "AddressDuplicated"

	// ReasonNetworkStatusEdited: the annotation tells of another address than
	// when the pod started. The pod serves at the first one.
	ReasonNetworkStatusEdited = "NetworkStatusEdited"
)

// Reasons of ConditionReady.
const (
	// ReasonReady: the whole of what was asked for is there and serving.
	ReasonReady = "Ready"

	// ReasonNotProgrammed: see the Programmed condition.
	ReasonNotProgrammed = "NotProgrammed"

	// ReasonWorkersNotReady: fewer workers are ready than the specification
	// asks for.
	ReasonWorkersNotReady = "WorkersNotReady"

	// ReasonLanesNotReported: a server has been asked to schedule requests itself, and
	// has not said yet that it does.
	ReasonLanesNotReported = "LanesNotReported"

	// ReasonServerIgnoresScheduling: it has run for 30 s and still has not. Its
	// program knows nothing of `spec.scheduling`. It serves as without that field.
	ReasonServerIgnoresScheduling = "ServerIgnoresScheduling"

	// ReasonRoutersNotReady: fewer routers are ready than the specification
	// asks for.
	ReasonRoutersNotReady = "RoutersNotReady"

	// ReasonRollingOut: enough workers and routers are ready, but not all of
	// them are of the present specification; the message says why.
	ReasonRollingOut = "RollingOut"

	// ReasonScaledToZero: the specification asks for no server at all.
	ReasonScaledToZero = "ScaledToZero"

	// ReasonMeasuring: the objective is being measured.
	ReasonMeasuring = "Measuring"

	// ReasonNotMeasuring: nothing is measured; see the Met condition.
	ReasonNotMeasuring = "NotMeasuring"
)

// Reasons of ConditionMet.
const (
	// ReasonObjectiveMet: the whole 95 % confidence interval of the percentile is
	// at or below the objective.
	ReasonObjectiveMet = "ObjectiveMet"

	// ReasonObjectiveInInterval: the objective lies inside the 95 % confidence
	// interval of the percentile: a miss is not shown, nor that there is none.
	ReasonObjectiveInInterval = "ObjectiveInInterval"

	// ReasonObjectiveMissed: the whole 95 % confidence interval of the percentile
	// is above the objective.
	ReasonObjectiveMissed = "ObjectiveMissed"

	// ReasonTooFewSamples: the window holds too few requests to speak of that
	// percentile.
	ReasonTooFewSamples = "TooFewSamples"

	// ReasonTooFewIndependentSamples: the observed percentile is above the
	// objective by more than independent requests would make of chance, but the
	// window's requests are slow in so few stretches that these may be chance; or
	// all of them lie in one part of the window.
	ReasonTooFewIndependentSamples = "TooFewIndependentSamples"

	// ReasonNoMeasurementSource: no router or server that could have measured
	// is running, or, where the target speaks TCP, no agent.
	ReasonNoMeasurementSource = "NoMeasurementSource"

	// ReasonMeasurementIncomplete: a running router or server, or the agent of a
	// node, could not be read, so part of the requests (or connections) are missing
	// from the picture.
	ReasonMeasurementIncomplete = "MeasurementIncomplete"
)

// Reasons of ConditionCapacityKnown, besides WorkersNotReady, TooFewSamples,
// NoMeasurementSource and MeasurementIncomplete.
const (
	// ReasonEstimated: the capacity was estimated; the message says what it is.
	ReasonEstimated = "Estimated"

	// ReasonServiceAboveObjective: the service time alone takes longer than the
	// objective allows, so no load meets it.
	ReasonServiceAboveObjective = "ServiceAboveObjective"
)

// Reasons of LatencyExperiment.
const (
	// ReasonInvalidExperiment: the experiment cannot be run as it is specified;
	// the message names the field.
	ReasonInvalidExperiment = "InvalidExperiment"

	// ReasonGapsNotFound: the ConfigMap with the gaps of a trace, or its key,
	// does not exist.
	ReasonGapsNotFound = "GapsNotFound"

	// ReasonFollowed: the load was meant to change; nothing is qualified.
	ReasonFollowed = "Followed"

	// ReasonRunning: agents and coordinator are at work.
	ReasonRunning = "Running"

	// ReasonFinished: the result stands in the status.
	ReasonFinished = "Finished"

	// ReasonFailed: no measurement could be made; the message says why.
	ReasonFailed = "Failed"

	// ReasonConclusive: every load may be trusted.
	ReasonConclusive = "Conclusive"

	// ReasonInconclusive: some load may not be trusted; the message says which
	// check failed, with its statistic.
	ReasonInconclusive = "Inconclusive"
)

// Conditions on Services that CRAB serves. They are qualified, because the kind
// is not ours.
const (
	// ServiceConditionAccepted says whether CRAB serves the Service. Without it
	// the Service works as any other one of its type.
	ServiceConditionAccepted = "bobtail.dev/Accepted"

	// ServiceConditionProgrammed says whether the agents of all nodes have
	// acknowledged the Service's addresses, ports and policy; nodes that have not
	// been Ready for a minute are not waited for.
	ServiceConditionProgrammed = "bobtail.dev/Programmed"
)

// Reasons of bobtail.dev/Accepted, besides Accepted. All but EndpointsExcluded
// and FamilyMissing mean that CRAB does not serve the Service, or not its node
// ports if those are what the message is about.
const (
	// ReasonEndpointsExcluded: some endpoints listen on another port than the
	// Service's and get no connections (C-6).
	ReasonEndpointsExcluded = "EndpointsExcluded"

	// ReasonPortTranslation: port and targetPort differ (C-6).
	ReasonPortTranslation = "PortTranslation"

	// ReasonProtocolNotTCP: a port of the Service is UDP or SCTP (C-20).
	ReasonProtocolNotTCP = "ProtocolNotTCP"

	// ReasonFamilyMissing: a dual-stack Service is served by one of its families
	// alone, because the pool has no address of the other: it only prefers both, or
	// it was served by the one before it required both.
	ReasonFamilyMissing = "FamilyMissing"

	// ReasonNoNodeAddress: no node has an address of that family, for its node ports.
	ReasonNoNodeAddress = "NoNodeAddress"

	// ReasonServersOnDevice: it selects servers that do not listen on the pod network.
	ReasonServersOnDevice = "ServersOnDevice"

	// ReasonSessionAffinity: no policy sends all connections of a client to one
	// server.
	ReasonSessionAffinity = "SessionAffinity"

	// ReasonSourceRanges: CRAB does not see all packets and cannot filter clients.
	ReasonSourceRanges = "SourceRanges"

	// ReasonNoNodePort: redirection was asked for, and the Service has no node port.
	ReasonNoNodePort = "NoNodePort"

	// ReasonExternalTrafficPolicy: redirected node ports need
	// externalTrafficPolicy Local, or the chosen node would relay the connection.
	ReasonExternalTrafficPolicy = "ExternalTrafficPolicy"

	// ReasonInvalidAnnotation: an annotation cannot be read; the message names it.
	ReasonInvalidAnnotation = "InvalidAnnotation"

	// ReasonTableFull: the nodes' VIP tables have no room for this Service. Of a
	// ProgrammableSwitch: a table of the switch is full, whatever its P4Info says.
	ReasonTableFull = "TableFull"

	// ReasonPoolExhausted: every address of the pool, of the family the message
	// names, is taken.
	ReasonPoolExhausted = "PoolExhausted"

	// ReasonOutsidePool: the address is not in the pool.
	ReasonOutsidePool = "OutsidePool"

	// ReasonAddressTaken: the address belongs to another Service.
	ReasonAddressTaken = "AddressTaken"
)

// Reasons of bobtail.dev/Programmed and of NodeDataplane, besides those above.
const (
	// ReasonFallingBack: all nodes acknowledge, but somewhere connections do not
	// leave the balancer, or find no server; the message says where and why.
	ReasonFallingBack = "FallingBack"

	// ReasonNoAgents: no node has an agent, or none of those that do is there.
	ReasonNoAgents = "NoAgents"

	// ReasonPrerequisiteMissing: the node lacks something the programs need; the
	// message names it.
	ReasonPrerequisiteMissing = "PrerequisiteMissing"

	// ReasonLayoutMismatch: the kernel holds state of another version.
	ReasonLayoutMismatch = "LayoutMismatch"

	// ReasonAttachFailed: a program could not be attached; the message names the
	// device.
	ReasonAttachFailed = "AttachFailed"
)

// Events that tell of something else than a change of a condition.
const (
	// EventKeyRotation: the packet keys of a service changed, or a rotation
	// entered its next stage.
	EventKeyRotation = "KeyRotation"

	// EventDeviceLost: a pod was evicted because its device was taken away.
	EventDeviceLost = "DeviceLost"
	// EventFastPath: requests began or ceased to be decided in the kernel.
	EventFastPath = "FastPath"

	// EventOutsideUplink: a node announces an address that is in no network of its
	// uplink, so that hosts without that network do not look for it there.
	EventOutsideUplink = "OutsideUplink"

	// EventAddressGiven: a Service got an address of CRAB's pool.
	EventAddressGiven = "AddressGiven"

	// EventPipelinePushed: a pipeline was put on a switch, which interrupted everything
	// on it.
	EventPipelinePushed = "PipelinePushed"

	// EventLeaderElected: another member leads, or a later term began.
	EventLeaderElected = "LeaderElected"

	// EventMembershipChanged: there are other voters or learners than before.
	EventMembershipChanged = "MembershipChanged"

	// EventMemberReplaced: a pod came with an empty disk and is taken in as a new member.
	EventMemberReplaced = "MemberReplaced"

	// EventStatesUndecided: the members' states differ, and no majority has the same one,
	// so nobody knows whose is right.
	EventStatesUndecided = "StatesUndecided"

	// EventMemberRestarted: a member's pod was evicted for the present specification.
	EventMemberRestarted = "MemberRestarted"

	// EventCertificateRenewed: the certificate of the sidecars was issued anew.
	EventCertificateRenewed = "CertificateRenewed"
)

// Pod readiness.
const (
	// PodConditionJoined is the readiness gate of server pods: True once every
	// live router has all the workers of the pod in its set, or, without a
	// router, once the pod runs its configuration. On member pods: the member is a
	// voter and follows the leader, or leads.
	PodConditionJoined = "bobtail.dev/Joined"

	// ReasonJoined: every live router counts the workers of the pod in.
	ReasonJoined = "Joined"

	// ReasonWaitingForJoin: some router has not heard from every worker yet, or the
	// member is no voter that follows the leader.
	ReasonWaitingForJoin = "WaitingForJoin"
)
