{{/* The name that everything of a release begins with. */}}
{{- define "freehold.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of everything that the chart installs. Freehold's own label value, managed-by
freehold, is for what the operator makes. */}}
{{- define "freehold.labels" -}}
{{ include "freehold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "freehold.selector" -}}
app.kubernetes.io/name: freehold
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "freehold.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of an identity of the ownership contract. */}}
{{- define "freehold.account" -}}
{{- if eq .identity "freehold-operator" -}}
{{- .values.serviceAccount.name -}}
{{- else -}}
{{- .identity -}}
{{- end -}}
{{- end -}}
