{{/* The container of vLLM beside the worker. Why each line is there: deploy/components/vllm/worker.yaml. */}}
{{- define "roost.vllm" -}}
{{- $engine := .root.Values.engine -}}
- name: engine
  image: {{ $engine.image }}
  command:
    - vllm
    - serve
    - {{ .model }}
    - --host=127.0.0.1
    - --port=8000
    - --enable-prefix-caching
    - --enable-prompt-tokens-details
    - >-
      --kv-events-config={"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5657"}
  args: {{- toYaml (prepend $engine.args (printf "--tensor-parallel-size=%d" (int .root.Values.gpus))) | nindent 4 }}
  env:
    - {name: HOME, value: /tmp}
    - {name: USER, value: roost}
    - {name: HF_HUB_OFFLINE, value: "1"}
    - {name: VLLM_NO_USAGE_STATS, value: "1"}
  startupProbe:
    exec: &health
      command: [python3, -c, "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 360
    terminationGracePeriodSeconds: 10
  livenessProbe:
    exec: *health
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
    terminationGracePeriodSeconds: 10
  lifecycle:
    preStop:
      exec:
        command: [bash, -c, "while (</dev/tcp/127.0.0.1/9101) 2>/dev/null; do sleep 0.5; done"]
  resources:
    {{- $limits := merge (dict "nvidia.com/gpu" (toString .root.Values.gpus)) ($engine.resources.limits | default dict) }}
    {{- toYaml (merge (dict "limits" $limits) $engine.resources) | nindent 4 }}
  securityContext:
    {{- include "roost.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - {name: {{ ternary "models" "model" (ne .root.Values.model.existingClaim "") }}, mountPath: /models, readOnly: true}
    - {name: engine-tmp, mountPath: /tmp}
    - {name: engine-shm, mountPath: /dev/shm}
{{- end }}
