// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/bobtail-dev/bobtail/hack/test/needs"
)

// of is a service with a template of the server.
func of(template string) string { return `{spec: {server: {podTemplate: ` + template + `}}}` }

// ofServer is one that says something of the server's container.
func ofServer(container string) string {
	return of(`{spec: {containers: [{name: server, ` + container + `}]}}`)
}

// ofRouter is a service with a template of the router.
func ofRouter(template string) string { return `{spec: {router: {podTemplate: ` + template + `}}}` }

// K-10: what a template takes, what it may not, and which short fields exclude it.
var templateAdmission = []admission{
	{"an empty template", of(`{}`), ""},
	{"what K-10 names", of(`{metadata: {labels: {team: shop}, annotations: {a.example/b: "any text"}}, spec: {tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}, priorityClassName: p, runtimeClassName: r, serviceAccountName: s, terminationGracePeriodSeconds: 60, securityContext: {fsGroup: 1}, volumes: [{name: data, emptyDir: {}}], initContainers: [{name: warm, image: w}], containers: [{name: server, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}], envFrom: [{configMapRef: {name: c}}], volumeMounts: [{name: data, mountPath: /data}], livenessProbe: {httpGet: {path: /, port: 8080}}, securityContext: {readOnlyRootFilesystem: true}}, {name: log, image: l, ports: [{containerPort: 2112, name: app-metrics}]}]}}`), ""},
	{"a field that no pod has", of(`{spec: {toleration: []}}`), "unknown field \"spec.server.podTemplate.spec.toleration\""},
	{"a value of the wrong type", of(`{spec: {priorityClassName: 7}}`), "spec.server.podTemplate.spec.priorityClassName"},
	{"the host's network", of(`{spec: {hostNetwork: true}}`), "`spec.hostNetwork` may not be true"},
	{"not the host's network", of(`{spec: {hostNetwork: false}}`), ""},
	{"a sidecar of one's own", of(`{spec: {containers: [{name: sidecar, image: x}]}}`), "`name` of a container may not be sidecar, router, agent or coordinator"},
	{"our sidecar", of(`{spec: {initContainers: [{name: sidecar, image: x}]}}`), "`name` of a container may not be sidecar, router, agent or coordinator"},
	{"a router in a server", of(`{spec: {containers: [{name: router, image: x}]}}`), "`name` of a container may not be sidecar, router, agent or coordinator"},
	{"the server among what runs before it", of(`{spec: {initContainers: [{name: server, image: x}]}}`), "`spec.initContainers` may not have one named server"},
	{"a container without an image", of(`{spec: {containers: [{name: log}]}}`), "`image` must be given for every container but `server`"},
	{"the sidecar's port", of(`{spec: {containers: [{name: log, image: l, ports: [{containerPort: 9443}]}]}}`), "`ports` may not be 9443 or 9464"},
	{"the sidecar's name of a port", ofServer(`ports: [{containerPort: 2112, name: metrics}]`), "choose another number and name, such as app-metrics"},
	{"a worker's port", ofServer(`ports: [{containerPort: 8063}]`), "may not be 8000 to 8063"},
	{"a port beside the workers'", ofServer(`ports: [{containerPort: 8064}]`), ""},
	{"a volume of ours", of(`{spec: {volumes: [{name: keys, emptyDir: {}}]}}`), "`spec.volumes` may not have one named run, keys, tls, token"},
	{"a mount of our keys", of(`{spec: {containers: [{name: log, image: l, volumeMounts: [{name: token, mountPath: /t}]}]}}`), "`volumeMounts` may not name run, keys, tls, token"},
	{"a mount over ours", ofServer(`volumeMounts: [{name: data, mountPath: /etc/bobtail/keys}]`), "`mountPath` may not begin with /run/bobtail"},
	{"a restart policy", of(`{spec: {restartPolicy: Never}}`), "`spec.restartPolicy` must be Always"},
	{"the only restart policy", of(`{spec: {restartPolicy: Always}}`), ""},
	{"a deadline", of(`{spec: {activeDeadlineSeconds: 5}}`), "`spec.activeDeadlineSeconds` may not be specified"},
	{"a label that finds pods", of(`{metadata: {labels: {bobtail.dev/service: x}}}`), "`labels` may not be bobtail.dev/"},
	{"a recommended label", of(`{metadata: {labels: {app.kubernetes.io/name: x}}}`), "`labels` may not be bobtail.dev/"},
	{"a recommended label of one's own", of(`{metadata: {labels: {app.kubernetes.io/owner: x}}}`), ""},
	{"a label that is none", of(`{metadata: {labels: {team: "a b"}}}`), "spec.server.podTemplate.metadata.labels.team"},
	{"an annotation of ours", of(`{metadata: {annotations: {bobtail.dev/workers: "3"}}}`), "`annotations` may not be bobtail.dev/"},
	// A short field and the same one of the template.
	{"the image there alone", `{spec: {server: {image: null, podTemplate: {spec: {containers: [{name: server, image: x}]}}}}}`, ""},
	{"the image nowhere", `{spec: {server: {image: null, podTemplate: {}}}}`, "`image` must be given here or in the container `server`"},
	{"the image twice", ofServer(`image: x`), "and not in both"},
	{"another's image", of(`{spec: {containers: [{name: log, image: l}]}}`), ""},
	{"arguments there alone", ofServer(`args: [x]`), ""},
	{"arguments twice", `{spec: {server: {args: [a], podTemplate: {spec: {containers: [{name: server, args: [x]}]}}}}}`, "`args` and those of the container `server`"},
	{"another's arguments", `{spec: {server: {args: [a], podTemplate: {spec: {containers: [{name: log, image: l, args: [x]}]}}}}}`, ""},
	{"the command twice", `{spec: {server: {command: [a], podTemplate: {spec: {containers: [{name: server, command: [x]}]}}}}}`, "`command` and that of the container `server`"},
	{"the environment twice", `{spec: {server: {env: [{name: A}], podTemplate: {spec: {containers: [{name: server, env: [{name: B}]}]}}}}}`, "`env` and that of the container `server`"},
	{"a variable of ours", ofServer(`env: [{name: BOBTAIL_CTL, value: x}]`), "may not have POD_IP or names that start with BOBTAIL_"},
	{"resources twice", `{spec: {server: {resources: {limits: {cpu: 1}}, podTemplate: {spec: {containers: [{name: server, resources: {limits: {cpu: 1}}}]}}}}}`, "`resources` and those of the container `server`"},
	{"a pull policy twice", `{spec: {server: {imagePullPolicy: Always, podTemplate: {spec: {containers: [{name: server, imagePullPolicy: Never}]}}}}}`, "`imagePullPolicy` and that of the container `server`"},
	{"a node selector twice", `{spec: {server: {nodeSelector: {a: b}, podTemplate: {spec: {nodeSelector: {a: b}}}}}}`, "`nodeSelector` and `podTemplate.spec.nodeSelector` exclude each other"},
	{"pull secrets twice", `{spec: {imagePullSecrets: [{name: a}], router: {podTemplate: {spec: {imagePullSecrets: [{name: a}]}}}}}`, "`imagePullSecrets` and those of a `podTemplate` exclude each other"},
	{"pull secrets there alone", ofRouter(`{spec: {imagePullSecrets: [{name: a}]}}`), ""},
	{"networks of one's own", of(`{metadata: {annotations: {k8s.v1.cni.cncf.io/networks: x}}}`), ""},
	{"networks beside a device", `{spec: {device: {type: AFXDP, networkAttachment: d}, server: {podTemplate: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: x}}}}}}`, "in a `podTemplate` needs `device.type` Kernel"},
	// Over TCP.
	{"a probe over TCP", `{spec: {protocol: TCP, tcp: {port: 80}, router: {placement: None}, server: {podTemplate: {spec: {containers: [{name: server, readinessProbe: {exec: {command: [x]}}}]}}}}}`, ""},
	{"two probes over TCP", `{spec: {protocol: TCP, tcp: {port: 80, readiness: {httpPath: /}}, router: {placement: None}, server: {podTemplate: {spec: {containers: [{name: server, readinessProbe: {exec: {command: [x]}}}]}}}}}`, "`tcp.readiness` and `readinessProbe`"},
	{"the port over TCP", `{spec: {protocol: TCP, tcp: {port: 80}, router: {placement: None}, server: {podTemplate: {spec: {containers: [{name: server, ports: [{containerPort: 80}]}]}}}}}`, "may not be `tcp.port`"},
	{"a worker's port over TCP", `{spec: {protocol: TCP, tcp: {port: 80}, router: {placement: None}, server: {podTemplate: {spec: {containers: [{name: server, ports: [{containerPort: 8000}]}]}}}}}`, ""},
	{"a grace shorter than the drain", `{spec: {protocol: TCP, tcp: {port: 80, drainSeconds: 31}, router: {placement: None}, server: {podTemplate: {spec: {terminationGracePeriodSeconds: 30}}}}}`, "must not be less than `tcp.drainSeconds`"},
	{"a grace as long as the drain", `{spec: {protocol: TCP, tcp: {port: 80, drainSeconds: 30}, router: {placement: None}, server: {podTemplate: {spec: {terminationGracePeriodSeconds: 30}}}}}`, ""},
	{"resources of a sidecar over TCP", `{spec: {protocol: TCP, tcp: {port: 80}, router: {placement: None}, sidecarResources: {limits: {cpu: 1}}}}`, "those pods have no sidecar"},
	// Routers.
	{"a router's template", ofRouter(`{metadata: {labels: {a: b}}, spec: {tolerations: [{operator: Exists}], containers: [{name: log, image: l}]}}`), ""},
	{"the router's container", ofRouter(`{spec: {containers: [{name: router, image: x}]}}`), "`name` of a container may not be sidecar, router, agent or coordinator"},
	{"a server in a router", ofRouter(`{spec: {containers: [{name: server, image: x}]}}`), "`name` of a container may not be server in a router pod"},
	{"the router's port", ofRouter(`{spec: {containers: [{name: log, image: l, ports: [{containerPort: 9000}]}]}}`), "`ports` may not be 8000, 9000, 9443 or 9464"},
	{"the host's network for routers", ofRouter(`{spec: {hostNetwork: true}}`), "`spec.hostNetwork` may not be true"},
	{"a template without a router", `{spec: {router: {placement: None, podTemplate: {}}}}`, "`podTemplate` may not be specified when `placement` is None"},
	// K-5, K-35.
	{"resources of the sidecar", `{spec: {sidecarResources: {requests: {cpu: 10m, ephemeral-storage: 1Gi}, limits: {cpu: 1, example.com/card: 1, hugepages-2Mi: 4Mi}}}}`, ""},
	{"K-35 a limit below the request", `{spec: {server: {resources: {requests: {cpu: "2"}, limits: {cpu: 500m}}}}}`, "`limits` must not be below `requests` of the same resource"},
	{"K-35 the same in other units", `{spec: {server: {resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: 1000m, memory: 1024Mi}}}}}`, ""},
	{"K-35 a negative quantity", `{spec: {router: {resources: {requests: {memory: -1}}}}}`, "`limits` and `requests` must not be negative"},
	{"K-35 a negative quantity as text", `{spec: {server: {resources: {limits: {cpu: "-5m"}}}}}`, "`limits` and `requests` must not be negative"},
	{"K-35 cpus", `{spec: {server: {resources: {requests: {cpus: 1}}}}}`, "`limits` and `requests` must name cpu, memory, ephemeral-storage"},
	{"K-35 a selector with a space", `{spec: {server: {nodeSelector: {disk: "a b"}}}}`, "spec.server.nodeSelector.disk"},
	{"K-35 not an image", `{spec: {server: {image: "not an image!!"}}}`, "`image` must be the name of an image: give one such as registry.example/app:1.2"},
	{"K-35 an image by digest", `{spec: {server: {image: "[fd00::1]:5000/Team/app:v1@sha256:0123456789abcdef"}}}`, ""},
	{"K-35 a short image", `{spec: {server: {image: x}}}`, ""},
	{"K-35 a pull secret that is none", `{spec: {imagePullSecrets: [{name: "A_B c"}]}}`, "`name` must be small letters, digits, dashes and dots"},
	{"K-35 a pull secret", `{spec: {imagePullSecrets: [{name: a.b-c}]}}`, ""},
}

// K-35, K-10, K-5 for experiments.
var experimentTemplateAdmission = []admission{
	{"agents' template", `{spec: {agentPodTemplate: {metadata: {labels: {a: b}}, spec: {tolerations: [{operator: Exists}]}}}}`, ""},
	{"the host's network", `{spec: {agentPodTemplate: {spec: {hostNetwork: true}}}}`, "`spec.hostNetwork` may not be true"},
	{"the agent's container", `{spec: {agentPodTemplate: {spec: {containers: [{name: agent, image: x}]}}}}`, "`name` of a container may not be sidecar, router, agent or coordinator"},
	{"the agent's port", `{spec: {agentPodTemplate: {spec: {containers: [{name: log, image: l, ports: [{containerPort: 5001}]}]}}}}`, "`ports` may not be 5001"},
	{"agents that start again", `{spec: {agentPodTemplate: {spec: {restartPolicy: Always}}}}`, "`spec.restartPolicy` must be Never"},
	{"pull secrets twice", `{spec: {imagePullSecrets: [{name: a}], agentPodTemplate: {spec: {imagePullSecrets: [{name: a}]}}}}`, "`imagePullSecrets` and `agentPodTemplate.spec.imagePullSecrets` exclude each other"},
	{"coordinator's resources", `{spec: {coordinatorResources: {limits: {cpu: 1}}}}`, ""},
	{"10⁸ requests a second", `{spec: {load: {requestsPerSecond: 100000000}}}`, "`load` must not be above 1,000,000 requests a second for each of `agents`"},
	{"as many as an agent sends", `{spec: {load: {requestsPerSecond: 1000000}}}`, ""},
	{"as many as 16 agents send", `{spec: {agents: 16, load: {requestsPerSecond: 16000000}}}`, ""},
	{"a sweep above it", `{spec: {load: {requestsPerSecond: null, sweep: {fromRequestsPerSecond: 1, toRequestsPerSecond: 1000001, points: 2}}}}`, "`load` must not be above 1,000,000"},
	{"a step above it", `{spec: {widthMicroseconds: null, load: {requestsPerSecond: null, steps: [{requestsPerSecond: 1000001, seconds: 3}]}}}`, "`load` must not be above 1,000,000"},
	{"a sine above it", sine(`{meanRequestsPerSecond: 999999, amplitudeRequestsPerSecond: 2}`), "`load` must not be above 1,000,000"},
	{"a path without a slash", `{spec: {workload: {protocol: HTTP, path: index.html}}}`, "`path` must begin with a slash: give one such as /index.html"},
	{"a path", `{spec: {workload: {protocol: HTTP, path: /index.html}}}`, ""},
	{"a path of Redis", `{spec: {workload: {path: /}}}`, "`path` may be specified only with `protocol` HTTP"},
	{"YCSBE over HTTP", `{spec: {workload: {protocol: HTTP, mix: YCSBE}}}`, "`mix` YCSBE may be specified only with `protocol` Redis"},
	{"GetSet over HTTP", `{spec: {workload: {protocol: HTTP, mix: GetSet}}}`, "may be specified only with `protocol` MemcachedASCII"},
	{"GetSet of memcached", `{spec: {workload: {protocol: MemcachedBinary, mix: GetSet, keys: 5, valueBytes: "fixed:9", preload: AllKeys}}}`, ""},
	{"service times of R2P2", `{spec: {workload: {protocol: R2P2, serviceTimeNanoseconds: "fixed:9"}}}`, "`serviceTimeNanoseconds` may be specified only with `protocol` Synthetic or Stss"},
	{"service times of Synthetic", `{spec: {workload: {protocol: Synthetic, serviceTimeNanoseconds: "fixed:9"}}}`, ""},
	{"reply sizes of Echo", `{spec: {workload: {protocol: Echo, replyBytes: "fixed:9"}}}`, "`replyBytes` may be specified only with `protocol` Stss"},
	{"request sizes of Redis", `{spec: {workload: {requestBytes: "fixed:9"}}}`, "`requestBytes` may be specified only with"},
	{"scans of no mix", `{spec: {workload: {scanLength: "fixed:9"}}}`, "`scanLength` may be specified only with `mix` YCSBE"},
	{"a pull secret that is none", `{spec: {imagePullSecrets: [{name: "A_B c"}]}}`, "`name` must be small letters"},
	{"a percentile of 100", `{spec: {percentile: "100"}}`, `such as "99" or "99.9"`},
}

// K-10, K-5, K-35: what the API server says of a new service's template and resources.
func TestK10TemplatesAreJudgedAtAdmission(t *testing.T) {
	runAdmission(t, "RpcService", baseService, templateAdmission)
}

// K-35: what an experiment asks for without effect is refused.
func TestK35ExperimentsAreJudgedAtAdmission(t *testing.T) {
	runAdmission(t, "LatencyExperiment", baseExperiment, experimentTemplateAdmission)
}

// K-35: the message for a percentile has an example, and no regular expression.
func TestK35APercentileIsExplained(t *testing.T) {
	o := parse(t, baseObjective)
	merge(o.Object, parse(t, `{spec: {percentile: "p99"}}`).Object)
	o.SetNamespace(namespace(t))
	err := direct.Create(context.Background(), o)
	judge(t, err, `such as "99" or "99.9"`)
	if err != nil && strings.Contains(err.Error(), "[0-9]") {
		t.Error(err)
	}
}

// annotationLimit is how much all annotations of an object may take together.
const annotationLimit = 262144

// Client-side apply writes the whole object into an annotation. The API server takes
// each CRD with it, and none is near the limit.
func TestCRDsCanBeAppliedFromTheClient(t *testing.T) {
	needs.APIServer(t)
	files, err := filepath.Glob("../../../../crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	most := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			t.Fatal(err)
		}
		var line bytes.Buffer
		if err := json.NewEncoder(&line).Encode(crd.Object); err != nil {
			t.Fatal(err)
		}
		most = max(most, line.Len(), len(text))
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(crd.GroupVersionKind())
		if err := direct.Get(context.Background(), types.NamespacedName{Name: crd.GetName()}, live); err != nil {
			t.Fatal(err)
		}
		annotations := live.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[corev1.LastAppliedConfigAnnotation] = line.String()
		live.SetAnnotations(annotations)
		if err := direct.Update(context.Background(), live); err != nil {
			t.Errorf("%s: %v", crd.GetName(), err)
		}
	}
	t.Logf("crd_bytes_max %d", most)
	if most > 250_000 || most > annotationLimit {
		t.Errorf("the largest CRD has %d bytes, want at most 250,000", most)
	}
}

// K-10: labels and annotations of a template reach the Deployments' pods through the
// API server, whose schema does not drop them, and what it says against a template that
// only a Deployment finds wrong is told in the status.
func TestK10ATemplateReachesTheDeployment(t *testing.T) {
	operator(t)
	ns := namespace(t)
	o := parse(t, baseService)
	merge(o.Object, parse(t, of(`{metadata: {labels: {team: shop}, annotations: {example.com/owner: shop}}, spec: {volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}], containers: [{name: server, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}], volumeMounts: [{name: data, mountPath: /data}]}]}}`)).Object)
	o.SetNamespace(ns)
	if err := direct.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	eventually(t, "the Deployment of the servers", func() (bool, string) {
		err := direct.Get(context.Background(), types.NamespacedName{Namespace: ns, Name: "echo-server"}, d)
		return err == nil, "not there"
	})
	pod := d.Spec.Template
	server := pod.Spec.Containers[0]
	if pod.Labels["team"] != "shop" || pod.Annotations["example.com/owner"] != "shop" || server.Name != "server" || len(server.VolumeMounts) != 3 {
		t.Errorf("%v %v %+v", pod.Labels, pod.Annotations, server)
	}
}
