// SPDX-License-Identifier: Apache-2.0

package crab

import "fmt"

// template: three servers on the nodes b and c, a client on every node, and Services: one with an address, one with an
// address of each family, one whose servers are chosen by load, one with redirected node ports, of both families, for
// the server that runs on c alone, and three that CRAB cannot serve (allUnserved).
const template = `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %[1]s}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-b, node-c]}]}]
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]
      containers: [%[3]s]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: corner, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: corner}}
  template:
    metadata: {labels: {app: corner}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: node-c}
      containers: [%[3]s]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: client, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [%[3]s]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  selector: {app: web}
  ports: [{port: %[2]d}]
---
apiVersion: v1
kind: Service
metadata: {name: both, namespace: %[1]s}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  ipFamilyPolicy: RequireDualStack
  ipFamilies: [IPv6, IPv4]
  selector: {app: web}
  ports: [{port: %[2]d}]
---
apiVersion: v1
kind: Service
metadata: {name: least, namespace: %[1]s, annotations: {bobtail.dev/policy: Least}}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  selector: {app: web}
  ports: [{port: %[2]d}]
---
apiVersion: v1
kind: Service
metadata: {name: corner, namespace: %[1]s, annotations: {bobtail.dev/redirect: enabled}}
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  externalTrafficPolicy: Local
  selector: {app: corner}
  ports: [{port: 80, targetPort: %[2]d}]
---
apiVersion: v1
kind: Service
metadata: {name: translated, namespace: %[1]s}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  selector: {app: web}
  ports: [{port: 80, targetPort: %[2]d}]
---
apiVersion: v1
kind: Service
metadata: {name: datagrams, namespace: %[1]s}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  selector: {app: web}
  ports: [{port: %[2]d, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: sticky, namespace: %[1]s}
spec:
  type: LoadBalancer
  loadBalancerClass: bobtail.dev/crab
  sessionAffinity: ClientIP
  selector: {app: web}
  ports: [{port: %[2]d}]
`

func manifest() string {
	return fmt.Sprintf(template, Namespace, port, Container(port), servers)
}
