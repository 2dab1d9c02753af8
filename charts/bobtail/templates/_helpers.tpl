{{/* Names and labels used by every template. */}}
{{- define "bobtail.version" -}}
{{ .Values.image.version | default .Chart.AppVersion }}
{{- end }}

{{/* The image of a component, by its digest where there is one. */}}
{{- define "bobtail.imageOf" -}}
{{- $image := .root.Values.image -}}
{{ $image.registry }}/bobtail/{{ .component }}:{{ include "bobtail.version" .root }}{{ with index $image.digests .component }}@{{ . }}{{ end }}
{{- end }}

{{- define "bobtail.image" -}}
{{ include "bobtail.imageOf" (dict "root" . "component" "operator") }}
{{- end }}

{{/* As pods want them, and as a list of names. */}}
{{- define "bobtail.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The operator's pods. The network policies of every RpcService let in pods
     with the first two of these. */}}
{{- define "bobtail.selector" -}}
app.kubernetes.io/name: bobtail
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bobtail.agentSelector" -}}
app.kubernetes.io/name: bobtail
app.kubernetes.io/component: agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Maps as one, a later one over an earlier one: labels of a user's own never replace
     what selectors and scrape configurations ask for. */}}
{{- define "bobtail.merged" -}}
{{- $all := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- $_ := set $all $key $value }}
{{- end }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "bobtail.labels" -}}
app.kubernetes.io/name: bobtail
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ include "bobtail.version" . | quote }}
app.kubernetes.io/part-of: bobtail
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What pods have besides their selector, which cannot change: by part-of whoever
     scrapes metrics or collects logs finds every pod of Bobtail. Nothing here may
     change unless the image does: it would roll the pods. */}}
{{- define "bobtail.podLabels" -}}
app.kubernetes.io/version: {{ include "bobtail.version" . | quote }}
app.kubernetes.io/part-of: bobtail
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What the restricted pod security standard asks of a container. */}}
{{- define "bobtail.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "bobtail.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* How a PodMonitor reads one pod: the operator's `namespace` and `name` are those of
     an objective, so the labels of the series stay. */}}
{{- define "bobtail.metricsEndpoint" -}}
- port: metrics
  honorLabels: true
  relabelings:
    - sourceLabels: [__meta_kubernetes_pod_label_bobtail_dev_service]
      targetLabel: service
  {{- with .Values.monitoring.podMonitor.interval }}
  interval: {{ . }}
  {{- end }}
{{- end }}
