// SPDX-License-Identifier: Apache-2.0

// Where the flow-control box of a HovercRaft group is: in pods, or in a programmable switch.
package v1alpha1

// GroupBox says where the box is.
//
// +kubebuilder:validation:XValidation:rule="(self.placement == 'Switch') == has(self.switch)",message="`switch` must be given when `placement` is Switch, and only then: it names the switch and the address"
type GroupBox struct {
	// placement says where it is: Software in a pod of the operator's, or Switch in a
	// programmable switch. Clients ask the switch at `switch.address`, port 8000.
	// +optional
	// +kubebuilder:default=Software
	Placement BoxPlacement `json:"placement,omitempty"`

	// switch says which switch it is, with placement Switch and only with it.
	// +optional
	Switch *GroupSwitch `json:"switch,omitempty"`
}

// BoxPlacement says where the box is.
// +kubebuilder:validation:Enum=Software;Switch
type BoxPlacement string

const (
	// BoxSoftware: in a pod.
	BoxSoftware BoxPlacement = "Software"
	// BoxOnSwitch: in a programmable switch.
	BoxOnSwitch BoxPlacement = "Switch"
)
