// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bobtail-dev/bobtail/operator/api/v1alpha1"
)

// Every word of the API's tables is one that the API server takes, and no other is.
func TestEveryWordIsAccepted(t *testing.T) {
	ns := namespace(t)
	try := func(base, field, word, message string) {
		t.Run(field+"="+word, func(t *testing.T) {
			o := parse(t, base)
			merge(o.Object, parse(t, fmt.Sprintf(field, word)).Object)
			o.SetNamespace(ns)
			judge(t, direct.Create(context.Background(), o, client.DryRunAll, client.FieldValidation("Strict")), message)
		})
	}
	const policy, forwarding, protocol = `{spec: {router: {policy: "%s"}}}`, `{spec: {router: {forwarding: "%s"}}}`, `{spec: {workload: {protocol: "%s"}}}`
	for _, row := range v1alpha1.RouterPolicies {
		try(baseService, policy, string(row.Policy), "")
	}
	for _, mode := range v1alpha1.ForwardingModes {
		try(baseService, forwarding, string(mode), "")
	}
	for _, row := range v1alpha1.ExperimentProtocols {
		try(baseExperiment, protocol, string(row.Protocol), "")
	}
	try(baseService, policy, "Unheard", "spec.router.policy")
	try(baseService, forwarding, "Unheard", "spec.router.forwarding")
	try(baseExperiment, protocol, "Unheard", "spec.workload.protocol")
}

// What the golden renders begin with are services that the API server takes.
func TestGoldenServicesAreAccepted(t *testing.T) {
	ns := namespace(t)
	files, err := filepath.Glob("../../render/testdata/*.in.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("testdata is missing: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			o := parse(t, string(text))
			o.SetNamespace(ns)
			o.SetUID("")
			judge(t, direct.Create(context.Background(), o, client.DryRunAll, client.FieldValidation("Strict")), "")
		})
	}
}
