{{/* Values that are absent or null get their defaults, section by section, before a
     template reads them: `helm upgrade --reuse-values` brings the values of an older
     chart, without the sections that came later, and anybody may set one to null.
     Every template begins with this. files/defaults.yaml is values.yaml, which a
     template cannot read (make generate copies it). */}}
{{- define "bobtail.values" -}}
{{- include "bobtail.fill" (dict "into" .Values "from" (.Files.Get "files/defaults.yaml" | fromYaml) "path" "") }}
{{- end }}

{{/* Null of these is nothing of it, not the default: what a container may take, and
     where it may run. */}}
{{- define "bobtail.fill" -}}
{{- $nothing := list "resources" "crab.agent.resources" "crab.agent.tolerations" "nodes.resources" "nodes.tolerations" "monitoring.dashboard.labels" }}
{{- range $key, $default := .from }}
{{- $path := printf "%s.%s" $.path $key | trimPrefix "." }}
{{- $now := index $.into $key }}
{{- if has $path $nothing }}
{{- else if kindIs "invalid" $now }}
{{- $_ := set $.into $key $default }}
{{- else if and (kindIs "map" $default) (kindIs "map" $now) }}
{{- include "bobtail.fill" (dict "into" $now "from" $default "path" $path) }}
{{- end }}
{{- end }}
{{- end }}
