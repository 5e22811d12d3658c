{{- define "ccm.pod" -}}
metadata:
  labels:
    {{- /* the selector's last: it has to find this Pod */}}
    {{- $selected := include "hcloud-cloud-controller-manager.selectorLabels" $ | fromYaml }}
    {{- mergeOverwrite (dict) ($.Values.podLabels | default dict) $selected | toYaml | nindent 4 }}
  {{- with $.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ccm.serviceAccount" $ | toYaml }}
  {{- with $.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.priorityClassName }}
  priorityClassName: {{ . | toYaml }}
  {{- end }}
  # The cluster's network and DNS depend on it, so it can't use them.
  {{- if $.Values.networking.enabled }}
  hostNetwork: true
  {{- end }}
  dnsPolicy: {{ $.Values.dnsPolicy }}
  {{- with $.Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  affinity:
    {{- include "ccm.affinity" $ | nindent 4 }}
  # It removes these taints.
  tolerations:
    - key: node.cloudprovider.kubernetes.io/uninitialized
      value: "true"
      effect: NoSchedule
    - key: CriticalAddonsOnly
      operator: Exists
    - key: node-role.kubernetes.io/master
      operator: Exists
      effect: NoSchedule
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
      effect: NoSchedule
    - key: node.kubernetes.io/not-ready
      operator: Exists
    - key: node.kubernetes.io/network-unavailable
      operator: Exists
      effect: NoSchedule
    {{- with $.Values.additionalTolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  terminationGracePeriodSeconds: 15
  securityContext:
    {{- toYaml $.Values.podSecurityContext | nindent 4 }}
  containers:
    - {{ include "ccm.container" $ | indent 6 | trim }}
  {{- if or (include "ccm.mountsToken" $) $.Values.extraVolumes }}
  volumes:
    {{- if include "ccm.mountsToken" $ }}
    - name: hcloud
      secret:
        secretName: {{ $.Values.tokenSecret | toYaml }}
        defaultMode: 0440
        items:
          - key: token
            path: token
    {{- end }}
    {{- with $.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- define "ccm.container" -}}
name: ccm
image: {{ include "ccm.image" $ | toYaml }}
imagePullPolicy: {{ $.Values.image.pullPolicy }}
args:
  {{- with include "ccm.flags" $ | fromYamlArray }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if $.Values.networking.enabled }}
  - --allocate-node-cidrs=true
  - {{ printf "--cluster-cidr=%s" $.Values.networking.clusterCIDR | toYaml }}
  {{- end }}
  # On the host's network, only probes reach 127.0.0.1. For Prometheus, use 0.0.0.0 or a private address of the
  # node, and block 10258 for the Internet with a firewall (docs/guides/operating.md).
  - {{ printf "--bind-address=%s" (include "ccm.bindAddress" $) | toYaml }}
env:
  {{- include "ccm.environment" $ | trim | nindent 2 }}
ports:
  - name: https
    containerPort: {{ include "ccm.securePort" $ }}
  {{- with include "ccm.metricsPort" $ }}
  - name: metrics
    containerPort: {{ . }}
  {{- end }}
# from the kubelet on the same host; if --bind-address isn't 0.0.0.0, use it as the host
startupProbe:
  {{- include "ccm.probe" (merge (dict "path" "/livez") $) | nindent 2 }}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  {{- include "ccm.probe" (merge (dict "path" "/livez") $) | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  {{- include "ccm.probe" (merge (dict "path" "/readyz") $) | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 5
resources:
  {{- toYaml $.Values.resources | nindent 2 }}
securityContext:
  {{- toYaml $.Values.securityContext | nindent 2 }}
{{- if or (include "ccm.mountsToken" $) $.Values.extraVolumeMounts }}
volumeMounts:
  {{- if include "ccm.mountsToken" $ }}
  - name: hcloud
    mountPath: /etc/hcloud
    readOnly: true
  {{- end }}
  {{- with $.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
