{{- /* Refuses values that would render and then not work. */ -}}
{{- define "mrtr-gateway.validate" -}}
{{- $v := .Values -}}
{{- range list "listen" "admin" "relay" -}}
{{- if hasKey $v.config . -}}
{{- fail (printf "config.%s: it follows from ports.* and seal.existingSecret; set those" .) -}}
{{- end -}}
{{- end -}}
{{- if dig "seal" "keys" nil $v.config -}}
{{- fail "config.seal.keys: a ConfigMap is no place for keys; set seal.existingSecret" -}}
{{- end -}}
{{- if dig "redis" "url" nil $v.config -}}
{{- fail "config.redis.url: it can hold a password; set redis.existingSecret" -}}
{{- end -}}
{{- if and $v.config.redis (not $v.redis.existingSecret) -}}
{{- fail "config.redis needs redis.existingSecret: set it to the Secret with the URL" -}}
{{- end -}}
{{- range list "seal" "redis" -}}
{{- if hasKey $v.secretFiles . -}}
{{- fail (printf "secretFiles.%s: this folder is for %s.existingSecret; expected another name" . .) -}}
{{- end -}}
{{- end -}}
{{- if and $v.server.enabled $v.upstream.url -}}
{{- fail "upstream.url and server.enabled: expected one of them. The first is for a server elsewhere, the second for one in the same pod" -}}
{{- end -}}
{{- if and $v.config.routes $v.upstream.url -}}
{{- fail "upstream.url and config.routes: expected one of them" -}}
{{- end -}}
{{- if not (or $v.server.enabled $v.upstream.url $v.config.routes) -}}
{{- fail "no server: set upstream.url (a server elsewhere), server.enabled (one in the same pod), or config.routes" -}}
{{- end -}}
{{- if $v.server.enabled -}}
{{- if not $v.server.image -}}
{{- fail "server.enabled without server.image: expected the image of the legacy server" -}}
{{- end -}}
{{- if semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "server.enabled needs Kubernetes 1.29, for sidecars that end last; this is %s" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- if and (or $v.autoscaling.enabled (gt (int $v.replicaCount) 1)) (not $v.seal.existingSecret) -}}
{{- fail (printf "seal.existingSecret is needed for more than one replica, which share its keys. Make one with: kubectl create secret generic %s-seal --from-literal=key=$(openssl rand -base64 32 | tr '+/' '-_' | tr -d '=')" (include "mrtr-gateway.fullname" .)) -}}
{{- end -}}
{{- end -}}
