// SPDX-License-Identifier: Apache-2.0

// Package apiclient asks the API server the few questions that starting and
// checking a cluster needs, with nothing but HTTP: a Kubernetes client library
// would make every start of the command slower than the question.
package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// annotationResource on a definition is the resource whose device its plugin takes.
const annotationResource = "k8s.v1.cni.cncf.io/resourceName"

// Client talks to one API server as one user.
type Client struct {
	base string
	http *http.Client
}

// New makes a client from PEM certificates.
func New(base string, ca, cert, key []byte) (*Client, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's CA file holds no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}
	return &Client{base: base, http: &http.Client{Transport: tr, Timeout: 5 * time.Second}}, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	return c.do(req, into)
}

func (c *Client) do(req *http.Request, into any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.200s", req.Method, req.URL.Path, resp.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// Ready says whether the API server reports itself ready.
func (c *Client) Ready(ctx context.Context) error { return c.get(ctx, "/readyz", nil) }

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// NodeCondition is a node's readiness, with the kubelet's reason if it is not.
type NodeCondition struct {
	Name    string
	Ready   bool
	Message string
}

// Nodes returns every registered node.
func (c *Client) Nodes(ctx context.Context) ([]NodeCondition, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Status struct {
				Conditions []condition `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := c.get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	var nodes []NodeCondition
	for _, item := range list.Items {
		n := NodeCondition{Name: item.Metadata.Name, Message: "no Ready condition yet"}
		for _, cond := range item.Status.Conditions {
			if cond.Type == "Ready" {
				n.Ready, n.Message = cond.Status == "True", cond.Message
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// PodAnnotations returns a pod's annotations.
func (c *Client) PodAnnotations(ctx context.Context, namespace, name string) (map[string]string, error) {
	var pod struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	err := c.get(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, &pod)
	return pod.Metadata.Annotations, err
}

// AnnotatePod sets an annotation of the pod that has this UID, and of no later one of its name.
func (c *Client) AnnotatePod(ctx context.Context, namespace, name, uid, key, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, c.base+"/api/v1/namespaces/"+namespace+"/pods/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	return c.do(req, nil)
}

// NetworkConfig returns the CNI configuration of a NetworkAttachmentDefinition, and the
// resource that its device comes from; empty: from none.
func (c *Client) NetworkConfig(ctx context.Context, namespace, name string) (config, resource string, err error) {
	var definition struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Config string `json:"config"`
		} `json:"spec"`
	}
	err = c.get(ctx, "/apis/k8s.cni.cncf.io/v1/namespaces/"+namespace+"/network-attachment-definitions/"+name, &definition)
	return definition.Spec.Config, definition.Metadata.Annotations[annotationResource], err
}

// Available returns how many replicas of a Deployment are available.
func (c *Client) Available(ctx context.Context, namespace, name string) (int, error) {
	var d struct {
		Status struct {
			Available int `json:"availableReplicas"`
		} `json:"status"`
	}
	err := c.get(ctx, "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, &d)
	return d.Status.Available, err
}
