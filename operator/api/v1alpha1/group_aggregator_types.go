// SPDX-License-Identifier: Apache-2.0

// Where the aggregator of a HovercRaft++ group is: in a pod, or in a programmable switch.
package v1alpha1

// GroupAggregator says where the aggregator is.
//
// +kubebuilder:validation:XValidation:rule="(self.placement == 'Switch') == has(self.switch)",message="`switch` must be given when `placement` is Switch, and only then: it names the switch and the address"
type GroupAggregator struct {
	// placement says where it is: Software in a pod of the operator's, or Switch in a
	// programmable switch. It may change while requests are served: without an
	// aggregator the leader sends to each member itself.
	// +optional
	// +kubebuilder:default=Software
	Placement AggregatorPlacement `json:"placement,omitempty"`

	// switch says which switch it is, with placement Switch and only with it.
	// +optional
	Switch *GroupSwitch `json:"switch,omitempty"`
}

// AggregatorPlacement says where the aggregator is.
// +kubebuilder:validation:Enum=Software;Switch
type AggregatorPlacement string

const (
	// AggregatorSoftware: in a pod.
	AggregatorSoftware AggregatorPlacement = "Software"
	// AggregatorOnSwitch: in a programmable switch.
	AggregatorOnSwitch AggregatorPlacement = "Switch"
)

// GroupSwitch is a switch that is the aggregator of a group, or its flow-control box.
type GroupSwitch struct {
	// name of a ProgrammableSwitch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// address of the switch's `addressPool` to which members send, and of a box also
	// clients. Each group has one of its own. IPv4.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}$`
	Address string `json:"address,omitempty"`

	// messages says by what members and switch believe each other. A switch cannot check
	// tags: it believes what comes from a member's address and port through the port of
	// the switch that leads there, and members believe what comes from `address`. Who can
	// forge such packets can have writes acknowledged that are lost later, and, of a box,
	// have requests executed in another client's name. Choose it only where nobody else
	// can send them.
	// +required
	Messages SwitchMessages `json:"messages,omitempty"`
}

// SwitchMessages says by what messages are believed.
// +kubebuilder:validation:Enum=BySource
type SwitchMessages string

// SwitchMessagesBySource believes source address, source port and port of the switch.
const SwitchMessagesBySource SwitchMessages = "BySource"
