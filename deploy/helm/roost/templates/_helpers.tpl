{{/* Names are those of deploy/base for a release called roost; others are prefixed with the release's name. */}}
{{- define "roost.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "roost.selector" -}}
app.kubernetes.io/name: roost
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "roost.labels" -}}
{{ include "roost.selector" . }}
app.kubernetes.io/part-of: roost
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "roost.tag" -}}
{{- .Values.imageTag | default .Chart.AppVersion -}}
{{- end }}

{{/* The environment of a container: the chart's variables, a dict, and those of the values, which win. */}}
{{- define "roost.env" -}}
{{- $all := merge (dict) .given .own -}}
{{- range $name := keys $all | sortAlpha }}
- name: {{ $name }}
  value: {{ get $all $name | quote }}
{{- end }}
{{- end }}

{{- define "roost.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "roost.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
