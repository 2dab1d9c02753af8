// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// envOf asks a server that answers every path of the map.
func envOf(t *testing.T, answers map[string]string) *Env {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Env{vars: []string{"KUBECONFIG=elsewhere", "KUBECONFIG=" + file}, Log: io.Discard}
}

const routersPath = "/api/v1/namespaces/n/pods?labelSelector=bobtail.dev%2Fcomponent%3Drouter%2Cbobtail.dev%2Fservice%3Ds"

func TestRoutersAsksThoseThatRun(t *testing.T) {
	histogram := "/api/v1/namespaces/n/pods/http:%s:9464/proxy/v1/histogram?name=latency&windowSeconds=5"
	e := envOf(t, map[string]string{
		routersPath: `{"items": [{"metadata": {"name": "a"}, "status": {"phase": "Running"}}, {"metadata": {"name": "b"}, "status": {"phase": "Succeeded"}},
			{"metadata": {"name": "c"}, "status": {"phase": "Running"}}]}`,
		fmt.Sprintf(histogram, "a"): string(answer(t, 5, time.Millisecond)),
		fmt.Sprintf(histogram, "c"): string(answer(t, 5, time.Second)),
	})
	got, err := e.Routers(t.Context(), "n", "s", 5*time.Second)
	if err != nil || got.Latency.Total() != 2 || got.Requests != 20 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := e.Routers(t.Context(), "n", "other", 5*time.Second); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatalf("want the server's answer; got %v", err)
	}
}

func TestLoadPhaseIsThatOfTheOnlyPod(t *testing.T) {
	path := "/api/v1/namespaces/n/pods?labelSelector=job-name%3Dj"
	load := Load{Namespace: "n", Name: "j"}
	for items, want := range map[string]string{
		"": "one of 0", `{"status": {"phase": "Running"}}`: "Running",
		`{"status": {"phase": "Succeeded"}}, {"status": {"phase": "Pending"}}`: "one of 2",
	} {
		if got, err := envOf(t, map[string]string{path: `{"items": [` + items + `]}`}).loadPhase(t.Context(), load); err != nil || got != want {
			t.Errorf("[%s]: want %q; got %q, %v", items, want, got, err)
		}
	}
}
