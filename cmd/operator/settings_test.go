package main

import (
	"io"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// --qps is the bound of the process: of every kind, and as whoever it is written.
func TestEveryClientSharesOneBound(t *testing.T) {
	s, err := parse([]string{"--runner-image=r", "--qps=7", "--burst=3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{}
	s.limit(config)
	other := rest.CopyConfig(config)
	taken := 0
	for range 4 {
		for _, c := range []*rest.Config{config, other} {
			if c.RateLimiter.TryAccept() {
				taken++
			}
		}
	}
	if taken != 3 || config.RateLimiter.QPS() != 7 {
		t.Errorf("%d requests were let through at once, and %v a second, want 3 and 7", taken, config.RateLimiter.QPS())
	}
	if s, err = parse([]string{"--runner-image=r", "--qps=-1"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if s.limit(other); other.QPS != -1 {
		t.Errorf("without a bound the client's is %v, want -1", other.QPS)
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"--runner-image is missing":        {},
		"--config-rollout-share is 0":      {"--runner-image=r", "--config-rollout-share=0"},
		"--config-rollout-share is 101":    {"--runner-image=r", "--config-rollout-share=101"},
		"--burst is 0":                     {"--runner-image=r", "--burst=0"},
		"--qps is 0: write how many":       {"--runner-image=r", "--qps=0"},
		"0: write how many objects of eac": {"--runner-image=r", "--concurrency=0"},
		"--concurrency is -1: write how":   {"--runner-image=r", "--concurrency=-1"},
		"--lease-namespace is missing":     {"--runner-image=r", "--leader-elect", "--lease-namespace="},
		"--runner-image-pull-policy is ":   {"--runner-image=r", "--runner-image-pull-policy=Sometimes"},
		"-log-format: write json or text":  {"--runner-image=r", "--log-format=xml"},
		"needs --metrics-secure":           {"--runner-image=r", "--metrics-cert-dir=/certs"},
		"--retry-period is 0s":             {"--runner-image=r", "--leader-elect", "--lease-namespace=n", "--retry-period=0"},
		"--renew-deadline is 2s": {
			"--runner-image=r", "--leader-elect", "--lease-namespace=n",
			"--renew-deadline=2s",
		},
		"--lease-duration is 10s": {
			"--runner-image=r", "--leader-elect", "--lease-namespace=n",
			"--lease-duration=10s",
		},
		"--proxy-resources is not JSON":    {"--runner-image=r", `--proxy-resources={"memory":"1Gi"}`},
		"--proxy-replicas is 0":            {"--runner-image=r", "--proxy-replicas=0"},
		"--proxy-replicas is 101":          {"--runner-image=r", "--proxy-replicas=101"},
		"--proxy-pod-template is not JSON": {"--runner-image=r", "--proxy-pod-template={"},
		"pod-template: proxyDefaults.podT": {"--runner-image=r", `--proxy-pod-template={"spec":{"hostNetwork":true}}`},
		"imagePullPolicy: Freehold states": {
			"--runner-image=r", "--runner-image-pull-policy=Always",
			`--proxy-pod-template={"spec":{"containers":[{"name":"proxy","imagePullPolicy":"Always"}]}}`,
		},
		"--network-defaults is not JSON": {"--runner-image=r", `--network-defaults={"ingress":"Any"}`},
		"has backendIngress \"None\"":    {"--runner-image=r", `--network-defaults={"backendIngress":"None"}`},
		`cidr: "10.0.0.1/8" is no range`: {
			"--runner-image=r",
			`--network-defaults={"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.1/8"}}]}]}`,
		},
		"except[0]: 11.0.0.0/16 is no": {
			"--runner-image=r",
			`--network-defaults={"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}]}]}`,
		},
		"to[0].podSelector.matchLabels": {
			"--runner-image=r",
			`--network-defaults={"egress":[{"to":[{"podSelector":{"matchLabels":{"bad key!":"v"}}}]}]}`,
		},
		"matchExpressions[0].operator": {
			"--runner-image=r",
			`--network-defaults={"egress":[{"to":[{"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]}]}`,
		},
		"--object-defaults is not JSON of": {"--runner-image=r", `--object-defaults={"label":{"a":"b"}}`},
		"-defaults: objectDefaults.labels": {"--runner-image=r", `--object-defaults={"labels":{"freehold.dev/server":"b"}}`},
		"-resources: proxyDefaults.resour": {
			"--runner-image=r",
			`--proxy-resources={"requests":{"memory":"1Gi"},"limits":{"memory":"1Mi"}}`,
		},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", args, err, says)
		}
	}
}

func TestProxyDefaultsAreRead(t *testing.T) {
	const template = `{"spec":{"priorityClassName":"mcp"}}`
	s, err := parse([]string{
		"--runner-image=r", `--proxy-resources={"limits":{"memory":"512Mi"}}`, "--proxy-replicas=2",
		"--proxy-pod-template=" + template,
	}, io.Discard)
	w := s.controllers.Workload
	if err != nil || w.ProxyResources.Limits.Memory().String() != "512Mi" || w.ProxyReplicas != 2 ||
		string(w.ProxyTemplate) != template {
		t.Errorf("got %+v, %v", w, err)
	}
}

// Two items of one name cannot be applied.
func TestANameThatIsGivenTwiceIsOne(t *testing.T) {
	s, err := parse([]string{"--runner-image=r", "--runner-image-pull-secrets=b,a,b"}, io.Discard)
	if got := strings.Join(s.controllers.Workload.RunnerPullSecrets, " "); err != nil || got != "b a" {
		t.Errorf("got %s, %v", got, err)
	}
}
