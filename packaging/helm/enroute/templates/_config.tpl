{{/*
The configuration file of the program, from `config`.
*/}}

{{/* A value as TOML. All numbers of the file are integers; Helm reads them as floats. */}}
{{- define "enroute.value" -}}
{{- if kindIs "map" . -}}
{ {{- range $at, $name := keys . | sortAlpha }}{{ if $at }},{{ end }} {{ toRawJson $name }} = {{ include "enroute.value" (get $ $name) }}{{ end }} }
{{- else if kindIs "slice" . -}}
[{{ range $at, $one := . }}{{ if $at }}, {{ end }}{{ include "enroute.value" $one }}{{ end }}]
{{- else if kindIs "float64" . -}}
{{ int64 . }}
{{- else -}}
{{ toRawJson . }}
{{- end -}}
{{- end }}

{{- define "enroute.table" -}}
{{- range $name := keys . | sortAlpha }}
{{ $name }} = {{ include "enroute.value" (get $ $name) }}
{{- end }}
{{- end }}

{{- define "enroute.file" -}}
{{- include "enroute.check" . -}}
{{- $config := .Values.config -}}
{{- include "enroute.table" (omit $config "storage" "limits" "admin" "listener") | trim }}
{{- range $name := list "storage" "limits" "admin" }}
{{- with get $config $name }}

[{{ $name }}]
{{- include "enroute.table" . }}
{{- end }}
{{- end }}
{{- range $listener := $config.listener }}

[[listener]]
{{- include "enroute.table" (merge (dict) $listener (include "enroute.advertise" (dict "listener" $listener "root" $) | fromYaml)) }}
{{- end }}
{{- end }}

{{/* Clients in other pods can reach the service, not the wildcard address of the listener. */}}
{{- define "enroute.advertise" -}}
{{- $named := regexMatch "^(mongodb|redis|rediss|valkey|valkeys)://" .listener.listen -}}
{{- $diverted := or .listener.transparent (hasSuffix "://original" .listener.origin) -}}
{{- $own := or .listener.advertise (.listener.tls | default dict).names -}}
{{- if and $named (not $diverted) (not $own) (ne .root.Values.mode "sidecar") -}}
advertise: {{ include "enroute.name" .root }}.{{ .root.Release.Namespace }}.svc:{{ include "enroute.port" .listener.listen }}
{{- end -}}
{{- end }}

{{/* The port of an address that states one. */}}
{{- define "enroute.port" -}}
{{ regexFind ":[0-9]+(/|$)" . | trimPrefix ":" | trimSuffix "/" }}
{{- end }}

{{/* The ports of the listeners, by name; those with the same port are told apart by server names. */}}
{{- define "enroute.ports" -}}
{{- $seen := dict -}}
{{- range .Values.config.listener }}
{{- $port := include "enroute.port" .listen }}
{{- if not (hasKey $seen $port) }}
{{- $_ := set $seen $port true }}
{{ regexFind "^[a-z]+" .listen }}-{{ $port }}: {{ $port }}
{{- end }}
{{- end }}
{{- end }}

{{/* What only the mode decides; values.schema.json has the rest. */}}
{{- define "enroute.check" -}}
{{- $sidecar := eq .Values.mode "sidecar" -}}
{{- $ports := list (include "enroute.port" .Values.config.admin.listen) -}}
{{- range $at, $listener := .Values.config.listener -}}
{{- $loopback := regexMatch "://(127\\.|localhost:|\\[::1\\])" $listener.listen -}}
{{- if and $sidecar (not $loopback) -}}
{{- fail (printf "config.listener[%d].listen: expected the host 127.0.0.1 in mode sidecar, found %s: other pods could connect" $at $listener.listen) -}}
{{- else if and (not $sidecar) (not (regexMatch "://(0\\.0\\.0\\.0|\\[::\\]):" $listener.listen)) -}}
{{- fail (printf "config.listener[%d].listen: expected the host 0.0.0.0 or [::] in mode %s, found %s: clients could not connect" $at $.Values.mode $listener.listen) -}}
{{- end -}}
{{- if eq (include "enroute.port" $listener.listen) (first $ports) -}}
{{- fail (printf "config.listener[%d].listen: expected another port than that of config.admin.listen, found %s" $at $listener.listen) -}}
{{- end -}}
{{- end -}}
{{- range $kind := list "requests" "limits" -}}
{{- if hasKey (get $.Values.resources $kind | default dict) "memory" -}}
{{- fail (printf "resources.%s.memory: expected cpu alone; the memory is computed from config.storage.memory: %s" $kind (include "enroute.memory" $)) -}}
{{- end -}}
{{- end -}}
{{- end }}
