// SPDX-License-Identifier: Apache-2.0

// How an RpcService of protocol TCP is reached.
package v1alpha1

// RpcServiceTCP says how connections reach the servers.
//
// +kubebuilder:validation:XValidation:rule="self.port == oldSelf.port",message="`port` cannot be changed: pods on the old and the new one serve side by side during a rollout, and CRAB translates no ports (C-6); create another RpcService"
type RpcServiceTCP struct {
	// port is what the servers listen on, and what clients dial.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// policy chooses the server of a connection. PowerOfTwo and JSQ go by how
	// many connections servers have.
	// +optional
	// +kubebuilder:default=RoundRobin
	Policy TCPPolicy `json:"policy,omitempty"`

	// readiness says when a server takes connections. Left out: as soon as it
	// accepts one.
	// +optional
	Readiness *TCPReadiness `json:"readiness,omitempty"`

	// drainSeconds is how long a server that must go still serves after it has
	// left the pool, before it is told to end. Above 0 it needs Kubernetes 1.30.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`
}

// TCPPolicy chooses the server of a connection.
// +kubebuilder:validation:Enum=RoundRobin;Random;PowerOfTwo;JSQ
type TCPPolicy string

const (
	// TCPRoundRobin takes servers in turn.
	TCPRoundRobin TCPPolicy = "RoundRobin"
	// TCPRandom takes any server.
	TCPRandom TCPPolicy = "Random"
	// TCPPowerOfTwo takes the one with fewer connections of two random servers.
	TCPPowerOfTwo TCPPolicy = "PowerOfTwo"
	// TCPJSQ takes the server with the fewest connections.
	TCPJSQ TCPPolicy = "JSQ"
)

// TCPReadiness says how a server is asked whether it is ready: over HTTP, or by
// a command in its container.
//
// +kubebuilder:validation:XValidation:rule="has(self.httpPath) != has(self.command)",message="`httpPath` and `command` exclude each other: give exactly one, or leave out `readiness`"
type TCPReadiness struct {
	// httpPath is got over HTTP from the server's port; any status from 200 to
	// 399 will do.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	HTTPPath string `json:"httpPath,omitempty"`

	// command is run in the container; status 0 means ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command,omitempty"`

	// periodSeconds is how often.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
}
