// SPDX-License-Identifier: Apache-2.0

// Scheduling: how the threads of a server share its requests, and its processors.
package v1alpha1

// RpcServiceScheduling says how a server that knows of it uses its cores
// (docs/concepts/scheduling.md). Its requests of CPU are written by the operator:
// minCores are requested, maxCores are the limit.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minCores) || self.minCores <= self.maxCores",message="`minCores` must be at most `maxCores`: so many run always, the others as the load wants"
// +kubebuilder:validation:XValidation:rule="!has(self.minCores) || self.mode != 'RunToCompletion' || self.minCores == self.maxCores",message="`minCores` must be `maxCores` when `mode` is RunToCompletion: each core has a port of its own, which nobody else would serve"
// +kubebuilder:validation:XValidation:rule="!has(self.minCores) || self.cpus != 'Exclusive' || self.minCores == self.maxCores",message="`minCores` must be `maxCores` when `cpus` is Exclusive: the kubelet gives whole processors to a pod that requests what it is limited to"
// +kubebuilder:validation:XValidation:rule="self.ordering != 'PerClient' || self.mode == 'WorkStealing'",message="`ordering` PerClient needs `mode` WorkStealing: to completion a core executes one request after the other anyway"
type RpcServiceScheduling struct {
	// mode says who executes a request. With RunToCompletion the core whose port it
	// came to; each core is a worker. With WorkStealing any idle core of its lane, of
	// 16 cores at most; each lane is a worker.
	// +required
	Mode SchedulingMode `json:"mode,omitempty"`

	// batchSize is how many packets a core takes at once. Large batches cost less a
	// request. Small ones do not keep a short request waiting behind long ones.
	// +optional
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	BatchSize int32 `json:"batchSize,omitempty"`

	// minCores run always, of each lane at least one. Left out it is maxCores. It is
	// the CPU request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MinCores *int32 `json:"minCores,omitempty"`

	// maxCores run while the load wants it. It is the CPU limit.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxCores int32 `json:"maxCores,omitempty"`

	// ordering says what is executed one after the other, as it came to a lane: with
	// PerRequest nothing, with PerClient the requests of one client's socket.
	// +optional
	// +kubebuilder:default=PerRequest
	Ordering SchedulingOrdering `json:"ordering,omitempty"`

	// cpus says whose the processors are. Shared ones are lent to others while they
	// are idle. Exclusive makes the pod Guaranteed with whole processors, which a
	// kubelet with the static CPU manager gives to nobody else.
	// +optional
	// +kubebuilder:default=Shared
	CPUs SchedulingCPUs `json:"cpus,omitempty"`
}

// coresPerLane share a port.
const coresPerLane = 16

// Least is minCores with its default.
func (c *RpcServiceScheduling) Least() int32 {
	if c.MinCores == nil {
		return c.MaxCores
	}
	return *c.MinCores
}

// Lanes are the workers of a server pod: workersPerReplica, and with scheduling as many
// more as the cores need.
func (s *RpcServiceSpec) Lanes() int32 {
	c := s.Scheduling
	switch {
	case c == nil:
		return s.WorkersPerReplica
	case c.Mode == ModeRunToCompletion:
		return c.MaxCores
	}
	return max(s.WorkersPerReplica, (c.MaxCores+coresPerLane-1)/coresPerLane)
}

// SchedulingMode is who executes a request.
// +kubebuilder:validation:Enum=RunToCompletion;WorkStealing
type SchedulingMode string

const (
	// ModeRunToCompletion: the core whose port it came to.
	ModeRunToCompletion SchedulingMode = "RunToCompletion"
	// ModeWorkStealing: any idle core of the lane.
	ModeWorkStealing SchedulingMode = "WorkStealing"
)

// SchedulingModes are all of them, in the dataplane's order.
var SchedulingModes = []SchedulingMode{ModeRunToCompletion, ModeWorkStealing}

// SchedulingOrdering is what is executed one after the other.
// +kubebuilder:validation:Enum=PerRequest;PerClient
type SchedulingOrdering string

const (
	// OrderingPerRequest: nothing.
	OrderingPerRequest SchedulingOrdering = "PerRequest"
	// OrderingPerClient: the requests of one client's socket.
	OrderingPerClient SchedulingOrdering = "PerClient"
)

// SchedulingOrderings are all of them, in the dataplane's order.
var SchedulingOrderings = []SchedulingOrdering{OrderingPerRequest, OrderingPerClient}

// SchedulingCPUs is whose the processors are.
// +kubebuilder:validation:Enum=Shared;Exclusive
type SchedulingCPUs string

const (
	// CPUsShared: idle ones are lent to others.
	CPUsShared SchedulingCPUs = "Shared"
	// CPUsExclusive: nobody else runs there.
	CPUsExclusive SchedulingCPUs = "Exclusive"
)

// SchedulingStatus is what servers say of their cores.
type SchedulingStatus struct {
	// replicas that report.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// activeCores run now, of all replicas.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveCores int32 `json:"activeCores,omitempty"`

	// allowedCores may run: maxCores of each replica, and no more than it has
	// processors.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AllowedCores int32 `json:"allowedCores,omitempty"`

	// steals are turns in which a core took what another one had, of all servers that
	// run now, to two significant digits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Steals int64 `json:"steals,omitempty"`

	// parks are times that a core was put to sleep, likewise.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Parks int64 `json:"parks,omitempty"`

	// slowHandlers took more than 10 ms, likewise.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SlowHandlers int64 `json:"slowHandlers,omitempty"`

	// longestHandlerMicroseconds is what the longest request took to execute, of all
	// servers that run now, to two significant digits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LongestHandlerMicroseconds int64 `json:"longestHandlerMicroseconds,omitempty"`

	// resizing says of which pods the CPU was changed in place and is not in force
	// yet, or why not; absent when there are none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Resizing string `json:"resizing,omitempty"`
}
