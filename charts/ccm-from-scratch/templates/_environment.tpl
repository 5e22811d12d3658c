{{- /*
The variables. What other values than `env` stand for is told by them, and each variable is there once: of two with one
name the kubelet takes the last, and server-side apply refuses both.
*/ -}}

{{- /* Where a variable's value comes from. A text wins: Helm merges it with the default's valueFrom. */ -}}
{{- define "ccm.variable" -}}
{{- toYaml (hasKey . "value" | ternary (pick . "value") .) }}
{{- end }}

{{- /* The same, to be compared: the text alone if it is one, and a switch as true or false, as the program reads it. */ -}}
{{- define "ccm.said" -}}
{{- $text := hasKey .variable "value" | ternary .variable.value (include "ccm.variable" .variable) }}
{{- include "ccm.switch" (tpl $text .root | trim) }}
{{- end }}

{{- define "ccm.switch" -}}
{{- $text := regexReplaceAll "^(1|t|T|TRUE|True)$" . "true" }}
{{- regexReplaceAll "^(0|f|F|FALSE|False)$" $text "false" }}
{{- end }}

{{- /* What `env` says of the variable `name`; nothing, if it is not there. */ -}}
{{- define "ccm.saidByEnv" -}}
{{- with index .root.Values.env .name }}
{{- include "ccm.said" (dict "root" $.root "variable" .) }}
{{- end }}
{{- end }}

{{- define "ccm.servesMetrics" -}}
{{- $said := include "ccm.saidByEnv" (dict "root" $ "name" "HCLOUD_METRICS_ENABLED") }}
{{- if and $.Values.monitoring.enabled (ne $said "false") }}true{{ end }}
{{- end }}

{{- /* Where the metrics without TLS are; the official chart has no value for it, so its users say it in `env`. */ -}}
{{- define "ccm.metricsAddress" -}}
{{- $said := include "ccm.saidByEnv" (dict "root" $ "name" "HCLOUD_METRICS_ADDRESS") }}
{{- if and $said (not (regexMatch "^\\S*:[1-9][0-9]{0,4}$" $said)) }}
{{- fail (printf "env.HCLOUD_METRICS_ADDRESS: %q is no text like :8233 or 127.0.0.1:8233; monitoring.address is where to say it" $said) }}
{{- end }}
{{- $monitors := or ($.Values.monitoring.podMonitor | default dict).enabled ($.Values.monitoring.serviceMonitor | default dict).enabled }}
{{- $.Values.monitoring.address | default $said | default (ternary ":8233" "127.0.0.1:8233" (not (not $monitors))) }}
{{- end }}

{{- /* The port of the metrics without TLS, where others than this node reach it. */ -}}
{{- define "ccm.metricsPort" -}}
{{- if include "ccm.servesMetrics" $ }}
{{- $address := include "ccm.metricsAddress" $ }}
{{- if not (regexMatch "^(127\\.|localhost:|\\[::1\\]:)" $address) }}
{{- regexFind "[0-9]+$" $address }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether the token is a mounted file, and not a variable that the values set. */ -}}
{{- define "ccm.mountsToken" -}}
{{- if not (or (index $.Values.env "HCLOUD_TOKEN") (index $.Values.env "HCLOUD_TOKEN_FILE")) }}true{{ end }}
{{- end }}

{{- /* The variables that other values than `env` stand for: `of` names such a value, `variable` is what it says. */ -}}
{{- define "ccm.ownVariables" -}}
{{- $own := dict }}
{{- if $.Values.networking.enabled }}
{{- if $.Values.networking.network }}
{{- $_ := set $own "HCLOUD_NETWORK" (dict "of" "networking.network" "variable" $.Values.networking.network) }}
{{- else if not (index $.Values.env "HCLOUD_NETWORK") }}
{{- fail "networking.network: is nothing, but networking.enabled needs it, or env.HCLOUD_NETWORK" }}
{{- end }}
{{- end }}
{{- if $.Values.robot.enabled }}
{{- $_ := set $own "ROBOT_ENABLED" (dict "of" "robot.enabled" "variable" (dict "value" "true")) }}
{{- end }}
{{- /* said either way: with another --cloud-provider than hcloud the program's default is not to serve them */}}
{{- $serves := include "ccm.servesMetrics" $ }}
{{- $switch := dict "value" (ternary "true" "false" (not (empty $serves))) }}
{{- $_ := set $own "HCLOUD_METRICS_ENABLED" (dict "of" "monitoring.enabled" "variable" $switch) }}
{{- if $serves }}
{{- $address := dict "value" (include "ccm.metricsAddress" $) }}
{{- $_ := set $own "HCLOUD_METRICS_ADDRESS" (dict "of" "monitoring.address" "variable" $address) }}
{{- end }}
{{- toYaml $own }}
{{- end }}

{{- define "ccm.environment" -}}
{{- $own := include "ccm.ownVariables" $ | fromYaml }}
{{- range $name, $one := $own }}
{{- $said := include "ccm.saidByEnv" (dict "root" $ "name" $name) }}
{{- if and $said (ne $said (include "ccm.said" (dict "root" $ "variable" $one.variable))) }}
{{- fail (printf "env.%s: %s says something else; say it there, and take it out of env" $name $one.of) }}
{{- end }}
{{- end }}
{{- if include "ccm.mountsToken" $ }}
# a file follows a rotated Secret, a variable does not
- name: HCLOUD_TOKEN_FILE
  value: /etc/hcloud/token
{{- end }}
{{- range $name, $variable := $.Values.env }}
{{- if not (or (kindIs "invalid" $variable) (hasKey $own $name)) }}
- name: {{ $name | toYaml }}
  {{- tpl (include "ccm.variable" $variable) $ | nindent 2 }}
{{- end }}
{{- end }}
{{- range $name, $one := $own }}
- name: {{ $name }}
  {{- tpl (include "ccm.variable" $one.variable) $ | nindent 2 }}
{{- end }}
{{- end }}
