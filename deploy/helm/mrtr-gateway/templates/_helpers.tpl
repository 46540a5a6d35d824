{{- define "mrtr-gateway.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "mrtr-gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mrtr-gateway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "mrtr-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "mrtr-gateway.labels" -}}
{{ include "mrtr-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "mrtr-gateway.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* Milliseconds of a duration as the gateway reads it: 500ms, 30s, 10m, 1h, 7d, or a number of milliseconds. */ -}}
{{- define "mrtr-gateway.milliseconds" -}}
{{- $text := ternary (int64 .value | toString) (toString .value) (kindIs "float64" .value) -}}
{{- if not (regexMatch "^[0-9]{1,15}(ms|s|m|h|d)?$" $text) -}}
{{- fail (printf "config.%s is %q: expected a duration such as 30s" .key $text) -}}
{{- end -}}
{{- $units := dict "" 1 "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 -}}
{{- mul (regexFind "^[0-9]+" $text | int64) (get $units (regexFind "[a-z]*$" $text)) -}}
{{- end -}}

{{- /* Seconds until the gateway has certainly ended after SIGTERM, and the server after it. */ -}}
{{- define "mrtr-gateway.drainSeconds" -}}
{{- $drain := default dict .Values.config.drain -}}
{{- $total := 0 -}}
{{- range $key, $usual := dict "delay" "0s" "parked" "0s" "timeout" "25s" -}}
{{- $value := get $drain $key -}}
{{- if kindIs "invalid" $value -}}{{- $value = $usual -}}{{- end -}}
{{- if not (hasKey $drain $key) -}}{{- $value = $usual -}}{{- end -}}
{{- $total = add $total (include "mrtr-gateway.milliseconds" (dict "key" (printf "drain.%s" $key) "value" $value)) -}}
{{- end -}}
{{- $server := ternary .Values.server.terminationSeconds 0 .Values.server.enabled -}}
{{- add (div (add $total 999) 1000) 10 $server -}}
{{- end -}}

{{- define "mrtr-gateway.gracePeriod" -}}
{{- $needed := include "mrtr-gateway.drainSeconds" . | int64 -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- $needed -}}
{{- else if lt (int64 $given) $needed -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: expected at least %d, which config.drain can take" (int64 $given) $needed) -}}
{{- else -}}
{{- int64 $given -}}
{{- end -}}
{{- end -}}

{{- /* The whole configuration file: what the user gives, and what follows from other values. */ -}}
{{- define "mrtr-gateway.config" -}}
{{- $ports := .Values.ports -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.routes -}}
{{- $url := ternary (printf "http://127.0.0.1:%d%s" (int .Values.server.port) .Values.server.path) .Values.upstream.url .Values.server.enabled -}}
{{- $_ := set $config "routes" (list (dict "path" "/mcp" "upstream" (dict "url" $url))) -}}
{{- end -}}
{{- if .Values.server.enabled -}}
{{- /* The server ends with its pod: no other pod can resume its streams. */ -}}
{{- range $route := $config.routes -}}
{{- if regexMatch "^https?://(127\\.|localhost[:/]|\\[::1\\])" (dig "upstream" "url" "" $route) -}}
{{- $_ := set $route "continuation" (merge (default dict $route.continuation) (dict "reattach" false)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "listen" (printf ":%d" (int $ports.mcp)) -}}
{{- $_ := set $config "admin" (printf ":%d" (int $ports.admin)) -}}
{{- $seal := default dict $config.seal -}}
{{- if not $seal.audience -}}
{{- $_ := set $seal "audience" (printf "%s-%s" .Release.Namespace (include "mrtr-gateway.fullname" .) | trunc 64 | trimSuffix "-") -}}
{{- end -}}
{{- if .Values.seal.existingSecret -}}
{{- $keys := list -}}
{{- range .Values.seal.keys -}}
{{- $keys = append $keys (dict "kid" .kid "key" (printf "file:/run/secrets/seal/%s" .secretKey)) -}}
{{- end -}}
{{- $_ := set $seal "keys" $keys -}}
{{- $relay := dict "listen" (printf ":%d" (int $ports.relay)) "advertise" (printf "http://${POD_IP}:%d" (int $ports.relay)) -}}
{{- $_ := set $config "relay" $relay -}}
{{- end -}}
{{- $_ := set $config "seal" $seal -}}
{{- if .Values.redis.existingSecret -}}
{{- $_ := set $config "redis" (merge (dict "url" (printf "file:/run/secrets/redis/%s" .Values.redis.secretKey)) (default dict $config.redis)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* The Secrets to mount, by the name of their folder below /run/secrets. */ -}}
{{- define "mrtr-gateway.secrets" -}}
{{- $secrets := deepCopy .Values.secretFiles -}}
{{- with .Values.seal.existingSecret -}}{{- $_ := set $secrets "seal" . -}}{{- end -}}
{{- with .Values.redis.existingSecret -}}{{- $_ := set $secrets "redis" . -}}{{- end -}}
{{- toYaml $secrets -}}
{{- end -}}
