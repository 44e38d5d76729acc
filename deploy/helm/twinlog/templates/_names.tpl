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
  "spark.executor.instances" (include "twinlog.executors" .)
  "spark.executor.cores" (toString .Values.spark.cores)
  "spark.executor.memory" .Values.spark.memory
  "spark.executor.memoryOverhead" .Values.spark.memoryOverhead
-}}
{{- end -}}
{{- merge (deepCopy .Values.spark.conf) $conf | toYaml -}}
{{- end -}}
