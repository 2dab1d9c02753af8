// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bobtail-dev/bobtail/operator/internal/controller/manager"
)

// The API server of this package's tests; nil when its binaries are missing.
var (
	config  *rest.Config
	direct  client.Client
	missing string
)

func TestMain(m *testing.M) {
	if text := os.Getenv(operatorOf); text != "" { // this process is an operator: see older_test.go
		os.Exit(runOperator(text))
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
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = defaultAssets()
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		missing = "no kube-apiserver in " + assets + ": run `hack/deps/install --only=api`, or set KUBEBUILDER_ASSETS"
		return nil, nil
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../../../crds"}, ErrorIfCRDPathMissing: true, BinaryAssetsDirectory: assets,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/24,fd00:10::/112") // Services may be dual-stack
	var err error
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

// defaultAssets is where hack/deps/install puts them.
func defaultAssets() string {
	cache := os.Getenv("BOBTAIL_CACHE")
	if cache == "" {
		home, _ := os.UserHomeDir()
		cache = filepath.Join(home, ".cache", "bobtail")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "envtest-*"))
	if len(found) == 0 {
		return filepath.Join(cache, "envtest")
	}
	return found[len(found)-1]
}

// need skips a test where there is no API server. CI has one: there, a missing
// one is a failure.
func need(t *testing.T) {
	t.Helper()
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// namespace makes a namespace of the test's own.
func namespace(t *testing.T) string {
	t.Helper()
	need(t)
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
