// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bobtail-dev/bobtail/hack/test/controlplane"
	"github.com/bobtail-dev/bobtail/hack/test/needs"
	"github.com/bobtail-dev/bobtail/operator/internal/controller/manager"
)

// The API server of this package's tests; nil when its binaries are missing.
var (
	config *rest.Config
	direct client.Client
)

// These tests mostly wait for controllers that ask once a second: many at a time, however few the processors.
const atATime = "16"

func TestMain(m *testing.M) {
	if text := os.Getenv(operatorOf); text != "" { // this process is an operator: see older_test.go
		os.Exit(runOperator(text))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", atATime)
	}
	os.Exit(func() int {
		env, err := start()
		if err != nil {
			fmt.Fprintln(os.Stderr, "apitest:", err)
			return 1
		}
		if env != nil {
			defer func() {
				stopOperator()
				if err := env.Stop(); err != nil {
					fmt.Fprintln(os.Stderr, "apitest: stop the API server:", err)
				}
			}()
		}
		return m.Run()
	}())
}

func start() (*envtest.Environment, error) {
	assets, err := needs.APIServerFolder()
	if err != nil {
		return nil, nil // each test says so
	}
	ctrl.SetLogger(logr.Discard())
	env := controlplane.At(assets, "../../../../crds")
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/24,fd00:10::/112") // Services may be dual-stack
	if config, err = env.Start(); err != nil {
		_ = env.Stop() // what runs would outlive the test
		return nil, fmt.Errorf("start the API server: %w", err)
	}
	scheme, err := manager.Scheme()
	if err != nil {
		return env, err
	}
	direct, err = client.New(config, client.Options{Scheme: scheme})
	return env, err
}

// namespace makes a namespace of the test's own.
func namespace(t *testing.T) string {
	t.Helper()
	needs.APIServer(t)
	return namespaceOf(t, direct)
}

func namespaceOf(t *testing.T, api client.Client) string {
	t.Helper()
	prefix := strings.Trim(strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())), "-")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix[:min(len(prefix), 40)] + "-"}}
	if err := api.Create(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}
