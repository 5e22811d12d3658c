{{- /* The name of all objects. It is called as in the official chart, since values files include it. */ -}}
{{- define "hcloud-cloud-controller-manager.name" -}}
{{- $.Values.nameOverride | default "hcloud-cloud-controller-manager" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ccm.serviceAccount" -}}
{{- $.Values.serviceAccount.name | default (include "hcloud-cloud-controller-manager.name" $) }}
{{- end }}

{{- define "hcloud-cloud-controller-manager.selectorLabels" -}}
{{- tpl (toYaml $.Values.selectorLabels) $ }}
{{- end }}

{{- /* A flag's value as text: a number without an exponent, a switch as true or false. */ -}}
{{- define "ccm.flag" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* The flags of the values, as a YAML list; an empty text is a flag without a value. */ -}}
{{- define "ccm.flags" -}}
{{- $flags := list }}
{{- range $key, $value := $.Values.args }}
{{- if not (or (kindIs "invalid" $value) (eq $key "bind-address")) }}
{{- $text := include "ccm.flag" $value }}
{{- $flags = append $flags (eq $text "" | ternary (printf "--%s" $key) (printf "--%s=%s" $key $text)) }}
{{- end }}
{{- end }}
{{- toYaml $flags }}
{{- end }}

{{- /* The address that health and metrics of 10258 listen on. */ -}}
{{- define "ccm.bindAddress" -}}
{{- index $.Values.args "bind-address" | default (ternary "127.0.0.1" "0.0.0.0" $.Values.networking.enabled) }}
{{- end }}

{{- define "ccm.securePort" -}}
{{- $port := index $.Values.args "secure-port" }}
{{- if kindIs "invalid" $port }}10258{{ else }}{{ include "ccm.flag" $port }}{{ end }}
{{- end }}

{{- /* Where a probe asks: the Pod's own address, unless it listens on another one only. */ -}}
{{- define "ccm.probe" -}}
{{- $address := include "ccm.bindAddress" $ }}
{{- $host := ternary "" (printf "host: %s, " (toJson $address)) (has $address (list "0.0.0.0" "::")) -}}
httpGet: {scheme: HTTPS, {{ $host }}port: {{ include "ccm.securePort" $ }}, path: {{ $.path }}}
{{- end }}

{{- define "ccm.image" -}}
{{- $repository := $.Values.image.repository }}
{{- if not $repository }}
{{- fail "image.repository: is empty; there is no published image: ./dev image --push REGISTRY/NAME:TAG makes and pushes yours" }}
{{- end }}
{{- if hasSuffix "/hcloud-cloud-controller-manager" $repository }}
{{- fail (printf "image.repository: %q is the official image; this chart runs ccm-from-scratch, so take `image` out of the values or name yours" $repository) }}
{{- end }}
{{- $repository }}:{{ tpl $.Values.image.tag $ }}
{{- end }}

{{- /* Where more than one runs, the lease lets one of them work. */ -}}
{{- define "ccm.refuseTwoWriters" -}}
{{- $elect := include "ccm.switch" (include "ccm.flag" (index $.Values.args "leader-elect")) }}
{{- $several := or (eq $.Values.kind "DaemonSet") (gt (int $.Values.replicaCount) 1) }}
{{- if and $several (eq $elect "false") }}
{{- fail "args.leader-elect: is false, but more than one would work at once then; that takes kind Deployment and replicaCount 1" }}
{{- end }}
{{- end }}

{{- define "ccm.affinity" -}}
{{- if $.Values.affinity }}
{{- toYaml $.Values.affinity }}
{{- else }}
nodeAffinity:
{{- if or (eq $.Values.kind "DaemonSet") $.Values.requireControlPlane }}
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- end }}
{{- if and (ne $.Values.kind "DaemonSet") (gt (int $.Values.replicaCount) 1) }}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "hcloud-cloud-controller-manager.selectorLabels" $ | nindent 10 }}
{{- end }}
{{- end }}
{{- end }}
