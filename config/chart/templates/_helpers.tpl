{{/* The name that everything of a release begins with. */}}
{{- define "freehold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | replace "." "-" | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The same for what stands in no namespace, where two releases must not meet: names are cut to 44 characters, and may agree
in these, and two namespaces may each have a release of one name. A release in freehold-system has the short name. */}}
{{- define "freehold.clusterwide" -}}
{{- $whole := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- if ne .Release.Namespace "freehold-system" }}
{{- $whole = printf "%s/%s" .Release.Namespace $whole }}
{{- end }}
{{- if and (not .Values.fullnameOverride) (or (contains "/" $whole) (gt (len $whole) 44)) -}}
{{- printf "%s-%s" (include "freehold.fullname" .) (sha256sum $whole | trunc 8) -}}
{{- else -}}
{{- include "freehold.fullname" . -}}
{{- end -}}
{{- end -}}

{{/* A duration of Go in seconds. */}}
{{- define "freehold.seconds" -}}
{{- $seconds := 0.0 }}
{{- $of := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) (get $of $unit)) }}
{{- end }}
{{- $seconds -}}
{{- end -}}

{{/* Labels of everything that the chart installs. Freehold's own label value, managed-by
freehold, is for what the operator makes. */}}
{{- define "freehold.labels" -}}
{{ include "freehold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "freehold.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "freehold" | toYaml }}
app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* The rest of the metadata after the name: labels and annotations of this object, and those of
everything that it does not state. */}}
{{- define "freehold.metadata" -}}
labels:
  {{- merge (dict) (.labels | default dict) (include "freehold.labels" .root | fromYaml) | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An object that is read from a file, with the metadata of what the chart installs. */}}
{{- define "freehold.object" -}}
{{- $metadata := merge (dict) (include "freehold.metadata" (dict "root" .root) | fromYaml) .object.metadata }}
{{- $_ := set .object "metadata" $metadata }}
{{- toYaml .object }}
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

{{/* The endpoint of a ServiceMonitor or a PodMonitor. A tlsConfig that is given replaces ours: merged, ours would turn
verification off, since Helm's merge takes false for unset. */}}
{{- define "freehold.endpoint" -}}
{{- $endpoint := dict "port" "metrics" "path" "/metrics" "interval" .monitor.interval "scrapeTimeout" .monitor.scrapeTimeout }}
{{- if .root.Values.metrics.secure }}
{{- $_ := set $endpoint "scheme" "https" }}
{{- $tls := dict "insecureSkipVerify" true }}
{{- with .root.Values.metrics.certificateSecret }}
{{- $tls = dict "ca" (dict "secret" (dict "name" . "key" "ca.crt")) "serverName" (printf "%s-operator-metrics.%s.svc" (include "freehold.fullname" $.root) $.root.Release.Namespace) }}
{{- end }}
{{- if not (hasKey .monitor.endpoint "tlsConfig") }}
{{- $_ := set $endpoint "tlsConfig" $tls }}
{{- end }}
{{- if .token }}
{{- $_ := set $endpoint "bearerTokenFile" "/var/run/secrets/kubernetes.io/serviceaccount/token" }}
{{- end }}
{{- end }}
{{- toYaml (merge (dict) .monitor.endpoint $endpoint) }}
{{- end -}}
