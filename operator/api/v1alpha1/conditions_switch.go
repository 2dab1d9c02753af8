// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of ProgrammableSwitch, besides Accepted, NotAccepted, Programmed,
// Reconciling, Unreachable and Ready.
const (
	// ReasonPartNotFound: a ConfigMap or key that the pipeline or `tls` names does
	// not exist; the message names the field.
	ReasonPartNotFound = "PartNotFound"

	// ReasonDigestMismatch: a part of the pipeline has another digest than the
	// specification gives; the message names the field. A pipeline that works stays.
	ReasonDigestMismatch = "DigestMismatch"

	// ReasonInvalidPipeline: the P4Info cannot be read, or is of another program;
	// the message names the table at fault.
	ReasonInvalidPipeline = "InvalidPipeline"

	// ReasonInvalidCredentials: the Secret holds no certificate that can be used; the
	// message names the key.
	ReasonInvalidCredentials = "InvalidCredentials"

	// ReasonCapacityExceeded: the pipeline's tables have no room; the message says
	// how much would fit.
	ReasonCapacityExceeded = "CapacityExceeded"

	// ReasonDuplicateSwitch: an older ProgrammableSwitch has the same endpoint and
	// device id; the message names it.
	ReasonDuplicateSwitch = "DuplicateSwitch"

	// ReasonCertificateRefused: the TLS handshake failed: one side does not trust the
	// other's certificate.
	ReasonCertificateRefused = "CertificateRefused"

	// ReasonUnknownDevice: the server does not know `spec.deviceID`.
	ReasonUnknownDevice = "UnknownDevice"

	// ReasonAnotherPrimary: another controller is primary. Nothing is written.
	ReasonAnotherPrimary = "AnotherPrimary"

	// ReasonPipelineRefused: the switch does not take the pipeline, or runs another
	// one that may not be replaced; the one it has stays.
	ReasonPipelineRefused = "PipelineRefused"

	// ReasonFixedPipeline: the switch takes no pipeline at all, as SONiC with PINS.
	ReasonFixedPipeline = "FixedPipeline"

	// ReasonEntriesOfOthers: entries that are not ours stand where ours should. They
	// stay.
	ReasonEntriesOfOthers = "EntriesOfOthers"

	// ReasonSwitchFailed: the switch breaks the protocol, or does not hold what it
	// took; the message says what it answered.
	ReasonSwitchFailed = "SwitchFailed"

	// ReasonOtherProgram: who asks for the switch needs another of Bobtail's programs
	// than the one its pipeline is.
	ReasonOtherProgram = "OtherProgram"

	// ReasonTargetsUnreachable: the switch that is to make an experiment's load knows no
	// way to a target; the message names it.
	ReasonTargetsUnreachable = "TargetsUnreachable"

	// ReasonIPv6OnSwitch: a Service that a switch is to redirect has an IPv6 address,
	// which the switch's program does not know.
	ReasonIPv6OnSwitch = "IPv6OnSwitch"

	// ReasonNotLeading: the operator does not know that it may act.
	ReasonNotLeading = "NotLeading"
)

// Reasons of RpcService with placement Switch, besides OutsidePool, AddressTaken,
// CapacityExceeded and InvalidConfiguration.
const (
	// ReasonSwitchNotFound: there is no ProgrammableSwitch of that name, or it is being
	// deleted. The router pods serve.
	ReasonSwitchNotFound = "SwitchNotFound"

	// ReasonSwitchNotProgrammed: the switch has not read this configuration back; the
	// router pods, or what it held before, serve.
	ReasonSwitchNotProgrammed = "SwitchNotProgrammed"

	// ReasonWorkersUnreachable: the switch knows no way to some workers; the message
	// names them.
	ReasonWorkersUnreachable = "WorkersUnreachable"
)

// FinalizerSwitch keeps a ProgrammableSwitch until its entries are off the switch.
const FinalizerSwitch = "bobtail.dev/switch-entries"
