// SPDX-License-Identifier: Apache-2.0

// What an experiment may ask for besides its load: a switch that makes it, and spans of its requests.
package v1alpha1

// ExperimentPlacement is who makes the load.
type ExperimentPlacement string

const (
	// ExperimentPods is agents in pods.
	ExperimentPods ExperimentPlacement = "Pods"
	// ExperimentOnSwitch is a programmable switch.
	ExperimentOnSwitch ExperimentPlacement = "Switch"
)

// ExperimentSwitch is a switch that makes load.
type ExperimentSwitch struct {
	// name of a ProgrammableSwitch.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// templatePort is the port by which templates come in: that of the packet
	// generator, 68 of a Tofino's first pipe.
	// +optional
	// +kubebuilder:default=68
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	TemplatePort int32 `json:"templatePort"`

	// templatesPerSecond is how many come in. At most a fifth of them are sent: the
	// gaps between packets are whole numbers of templates.
	// +required
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=500000000
	TemplatesPerSecond int32 `json:"templatesPerSecond,omitempty"`
}

// ExperimentTraces says which samples carry a trace id, and where their spans go.
type ExperimentTraces struct {
	// samplePercent is the share of the samples that carry a trace id, such as
	// "1" or "0.05".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?(\.[0-9]{1,3})?|0\.[0-9]{0,2}[1-9])$`
	SamplePercent string `json:"samplePercent,omitempty"`

	// otlpEndpoint is the URL of an OTLP receiver, http://collector:4318. It
	// defaults to where the operator's sidecars send theirs.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'http' && url(self).getHostname() != ''",message="`otlpEndpoint` must be a URL such as http://collector:4318, and not https: the coordinator has no certificates"
	OTLPEndpoint string `json:"otlpEndpoint,omitempty"`
}
