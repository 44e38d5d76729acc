{{- define "twinlog.name" -}}
{{- .Release.Name | trunc 28 | trimSuffix "-" -}}
{{- end -}}

{{- define "twinlog.labels" -}}
app.kubernetes.io/name: twinlog
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "twinlog.driverLabels" -}}
{{ include "twinlog.labels" . }}
app.kubernetes.io/component: driver
{{- end -}}

{{- define "twinlog.executorLabels" -}}
{{ include "twinlog.labels" . }}
app.kubernetes.io/component: executor
{{- end -}}

{{- define "twinlog.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "twinlog.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "twinlog.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.Version) -}}
{{- end -}}

{{- define "twinlog.mirror" -}}
{{- .Values.mirrorText | default (toYaml .Values.mirror) -}}
{{- end -}}

{{- define "twinlog.configMap" -}}
{{- .Values.existingConfigMap | default (printf "%s-mirror" (include "twinlog.name" .)) -}}
{{- end -}}

{{- /* The values of all fields `secretName` below a value, one a line. */ -}}
{{- define "twinlog.secretNames" -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- if and (eq $key "secretName") (kindIs "string" $value) -}}
{{- printf "%s\n" $value -}}
{{- else -}}
{{- include "twinlog.secretNames" $value -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}
{{- include "twinlog.secretNames" . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* All secrets to mount, as a list in YAML. */ -}}
{{- define "twinlog.secrets" -}}
{{- $named := "" -}}
{{- if not .Values.existingConfigMap -}}
{{- $named = include "twinlog.secretNames" (get (include "twinlog.mirror" . | fromYaml) "spec") -}}
{{- end -}}
{{- concat (splitList "\n" $named) .Values.extraSecrets | compact | uniq | sortAlpha | toYaml -}}
{{- end -}}

{{- /* Config maps that the resource names and that may come later, as a list in YAML. */ -}}
{{- define "twinlog.optionalConfigMaps" -}}
{{- $named := list -}}
{{- if not .Values.existingConfigMap -}}
{{- $spec := get (include "twinlog.mirror" . | fromYaml) "spec" | default dict -}}
{{- $named = append $named (dig "valueFrom" "configMapKeyRef" "name" "" (get $spec "logging" | default dict)) -}}
{{- range $mirror := get $spec "mirrors" | default list -}}
{{- range $kind := list "sourceConnector" "checkpointConnector" "heartbeatConnector" -}}
{{- $named = append $named (dig "alterOffsets" "fromConfigMap" "name" "" (get $mirror $kind | default dict)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kept := list -}}
{{- range $named | compact | uniq -}}
{{- if not (has . $.Values.extraConfigMaps) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- $kept | sortAlpha | toYaml -}}
{{- end -}}

{{- /* A probe's times: those of the resource, as Strimzi takes them, over those of the values. */ -}}
{{- define "twinlog.probe" -}}
{{- $own := dict -}}
{{- if not .root.Values.existingConfigMap -}}
{{- $own = dig "spec" .name dict (include "twinlog.mirror" .root | fromYaml) | default dict -}}
{{- end -}}
{{- merge (deepCopy $own) (get .root.Values .name) | toYaml -}}
{{- end -}}

{{- define "twinlog.local" -}}
{{- if hasPrefix "local" .Values.spark.master -}}true{{- end -}}
{{- end -}}

{{- define "twinlog.executors" -}}
{{- $wanted := .Values.spark.executors -}}
{{- if kindIs "invalid" $wanted -}}
{{- $wanted = 3 -}}
{{- if not .Values.existingConfigMap -}}
{{- $wanted = dig "spec" "replicas" 3 (include "twinlog.mirror" . | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- $wanted -}}
{{- end -}}

{{- /* Spark's settings, which the user's own win over, as an object in YAML. */ -}}
{{- define "twinlog.sparkConf" -}}
{{- $conf := dict -}}
{{- if not (include "twinlog.local" .) -}}
{{- $conf = dict
  "spark.driver.host" "$(POD_IP)"
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.driver.pod.name" "$(POD_NAME)"
  "spark.kubernetes.container.image" (include "twinlog.image" .)
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
  "spark.kubernetes.executor.podTemplateFile" "/etc/twinlog/executor/pod.yaml"
  "spark.kubernetes.executor.podTemplateContainerName" "executor"
  "spark.kubernetes.executor.disableConfigMap" "true"
  "spark.kubernetes.driver.service.deleteOnTermination" "false"
  "spark.kubernetes.driver.ownPersistentVolumeClaim" "false"
  "spark.kubernetes.driver.reusePersistentVolumeClaim" "false"
  "spark.executor.instances" (include "twinlog.executors" .)
  "spark.executor.cores" (toString .Values.spark.cores)
  "spark.executor.memory" .Values.spark.memory
  "spark.kubernetes.decommission.script" "/opt/twinlog/bin/decommission"
-}}
{{- with .Values.spark.memoryOverhead -}}
{{- $_ := set $conf "spark.executor.memoryOverhead" . -}}
{{- end -}}
{{- end -}}
{{- merge (deepCopy .Values.spark.conf) $conf | toYaml -}}
{{- end -}}
