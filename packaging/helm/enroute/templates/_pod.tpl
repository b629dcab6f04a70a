{{/*
Parts of pods, for the modes of this chart and for charts that have the cache as a sidecar.
*/}}

{{- define "enroute.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- trunc 52 $name | trimSuffix "-" -}}
{{- end }}

{{/* By it services, policies and monitors find the pods; a sidecar leaves the labels of its application alone. */}}
{{- define "enroute.podLabels" -}}
enroute/cache: {{ include "enroute.name" . }}
{{- end }}

{{- define "enroute.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* A size of the configuration file, in bytes. */}}
{{- define "enroute.bytes" -}}
{{- $units := dict "" 1 "KB" 1000 "KiB" 1024 "MB" 1000000 "MiB" 1048576 "GB" 1000000000 "GiB" 1073741824 -}}
{{- $text := . -}}
{{- if kindIs "float64" . }}{{ $text = int64 . | toString }}{{ end -}}
{{- mul (regexFind "^[0-9]+" $text) (get $units (regexFind "[KMGiB]*$" $text)) -}}
{{- end }}

{{/*
Memory that the process uses at most, as docs/guide/configuration.md states it: `memory`, 1/16 of it
and 96 MiB; 16 KiB for each encrypted connection, of clients and to the origin; 2 MiB for each of 64
clients of DynamoDB with HTTP/2.
*/}}
{{- define "enroute.memory" -}}
{{- $memory := include "enroute.bytes" .Values.config.storage.memory -}}
{{- $bytes := add $memory (div $memory 16) 100663296 -}}
{{- $encrypted := mul 16384 ((.Values.config.limits | default dict).connections_max | default 16384 | int64) -}}
{{- range .Values.config.listener -}}
{{- if and .tls (not .tls.pass_through) }}{{ $bytes = add $bytes $encrypted }}{{ end -}}
{{- if regexMatch "^(rediss|valkeys|dynamodbs|mongodb\\+srv|rediss\\+sentinel|valkeys\\+sentinel)://|[?&](tls|ssl)=true" .origin -}}
{{- $bytes = add $bytes $encrypted -}}
{{- end -}}
{{- end -}}
{{- if contains "dynamodb" (toJson .Values.config.listener) }}{{ $bytes = add $bytes 134217728 }}{{ end -}}
{{- div (add $bytes 1048575) 1048576 }}Mi
{{- end }}

{{- define "enroute.container" -}}
- name: enroute
  image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [cache, --config, /etc/enroute/config/enroute.toml]
  ports:
    {{- range $name, $port := include "enroute.ports" . | fromYaml }}
    - name: {{ $name }}
      containerPort: {{ $port }}
    {{- end }}
    - name: enroute-admin
      containerPort: {{ include "enroute.port" .Values.config.admin.listen }}
  {{- range list "startupProbe" "readinessProbe" }}
  # 503 while the cache drains.
  {{ . }}:
    httpGet:
      path: /healthz
      port: enroute-admin
    periodSeconds: {{ ternary 1 5 (eq . "startupProbe") }}
    failureThreshold: {{ ternary 60 3 (eq . "startupProbe") }}
  {{- end }}
  # Not /healthz: a cache that drains is not to be restarted.
  livenessProbe:
    tcpSocket:
      port: enroute-admin
    periodSeconds: 10
    failureThreshold: 6
  lifecycle:
    preStop:
      # Until no node sends new clients here.
      sleep:
        seconds: 5
  resources:
    requests:
      {{- with (.Values.resources.requests | default dict).cpu }}
      cpu: {{ . }}
      {{- end }}
      memory: {{ include "enroute.memory" . }}
    limits:
      {{- with (.Values.resources.limits | default dict).cpu }}
      cpu: {{ . }}
      {{- end }}
      memory: {{ include "enroute.memory" . }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  volumeMounts:
    - name: enroute-config
      mountPath: /etc/enroute/config
      readOnly: true
    {{- range .Values.secrets }}
    - name: {{ include "enroute.volume" . }}
      mountPath: /etc/enroute/secrets/{{ . }}
      readOnly: true
    {{- end }}
{{- end }}

{{/* For `initContainers` of another chart: starts before the application and stops after it. */}}
{{- define "enroute.sidecar" -}}
{{ include "enroute.container" . }}
  restartPolicy: Always
{{- end }}

{{- define "enroute.volumes" -}}
- name: enroute-config
  configMap:
    name: {{ include "enroute.name" . }}
{{- range .Values.secrets }}
- name: {{ include "enroute.volume" . }}
  secret:
    secretName: {{ . }}
    # 0440: the group is `fsGroup` of the pod; the cache refuses what others can read.
    defaultMode: 288
{{- end }}
{{- end }}

{{/* Secrets may have longer names than volumes, with dots. */}}
{{- define "enroute.volume" -}}
enroute-secret-{{ sha256sum . | trunc 10 }}
{{- end }}

{{/* The template of the pods of a Deployment or DaemonSet. */}}
{{- define "enroute.pod" -}}
metadata:
  labels:
    {{- include "enroute.labels" . | nindent 4 }}
    {{- include "enroute.podLabels" . | nindent 4 }}
  annotations:
    # A change of the configuration replaces the pods.
    checksum/config: {{ include "enroute.file" . | sha256sum }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    fsGroup: 65532
  {{- with .Values.pod }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  containers:
    {{- include "enroute.container" . | nindent 4 }}
  volumes:
    {{- include "enroute.volumes" . | nindent 4 }}
{{- end }}
