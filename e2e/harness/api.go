// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// api asks the API server itself. What is asked while a load runs is asked this
// way: starting a kubectl takes a tenth of a second of a processor, which on a
// small machine is a pause in the middle of what is measured.
type api struct {
	once sync.Once
	base string
	http *http.Client
	err  error
}

func (a *api) open(kubeconfig string) error {
	a.once.Do(func() {
		var config *rest.Config
		if config, a.err = clientcmd.BuildConfigFromFlags("", kubeconfig); a.err != nil {
			return
		}
		config.Timeout = 10 * time.Second
		a.base = strings.TrimRight(config.Host, "/")
		a.http, a.err = rest.HTTPClientFor(config)
	})
	return a.err
}

// ask reads a path of the API server, as `kubectl get --raw` does.
func (e *Env) ask(ctx context.Context, path string) ([]byte, error) {
	if err := e.api.open(e.value("KUBECONFIG")); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.api.base+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := e.api.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %.200s", path, response.Status, body)
	}
	return body, nil
}

// pod is what is asked of one.
type pod struct {
	Metadata struct{ Name, UID string }
	Status   struct{ Phase string }
}

// pods that have the labels.
func (e *Env) pods(ctx context.Context, namespace, labels string) ([]pod, error) {
	body, err := e.ask(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(labels))
	if err != nil {
		return nil, err
	}
	var list struct{ Items []pod }
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("pods of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}
