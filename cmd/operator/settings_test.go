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
	s.qps = -1
	if s.limit(other); other.QPS != -1 {
		t.Errorf("without a bound the client's is %v, want -1", other.QPS)
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"--runner-image is missing":      {},
		"--config-rollout-share is 0":    {"--runner-image=r", "--config-rollout-share=0"},
		"--config-rollout-share is 101":  {"--runner-image=r", "--config-rollout-share=101"},
		"--burst is 0":                   {"--runner-image=r", "--burst=0"},
		"--lease-namespace is missing":   {"--runner-image=r", "--leader-elect", "--lease-namespace="},
		"--runner-image-pull-policy is ": {"--runner-image=r", "--runner-image-pull-policy=Sometimes"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", args, err, says)
		}
	}
}
