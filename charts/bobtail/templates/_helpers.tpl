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
