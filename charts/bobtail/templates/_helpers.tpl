{{/* Names and labels used by every template. */}}
{{- define "bobtail.version" -}}
{{ .Values.image.version | default .Chart.AppVersion }}
{{- end }}

{{- define "bobtail.image" -}}
{{ .Values.image.registry }}/bobtail/operator:{{ include "bobtail.version" . }}
{{- end }}

{{/* The operator's pods. The network policies of every RpcService let in pods
     with the first two of these. */}}
{{- define "bobtail.selector" -}}
app.kubernetes.io/name: bobtail
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
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
