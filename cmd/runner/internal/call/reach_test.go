package call

import (
	"net"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

func TestWhetherPoliciesAreEnforcedIsMeasured(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	open, shut := listener.Addr().String(), "127.0.0.1:1"
	for name, tc := range map[string]struct {
		proxy, backend string
		code           int
		says           string
	}{
		"both are open":           {open, open, runconfig.ReachOpen, "are not enforced: this pod reaches " + open},
		"the backend is closed":   {open, shut, runconfig.ReachClosed, "are enforced: " + shut + " is closed"},
		"nothing is reached":      {shut, shut, runconfig.ReachUnknown, "since this pod does not reach " + shut},
		"the backend has no name": {open, "nobody.invalid:1", runconfig.ReachUnknown, "is not known: "},
		"no backend is named":     {open, "", 2, "--proxy or --backend is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			code := Reach(t.Context(), []string{"--proxy=" + tc.proxy, "--backend=" + tc.backend}, &out, &out)
			if code != tc.code || !strings.Contains(out.String(), tc.says) {
				t.Errorf("exit code %d, saying %q; want %d, and %q", code, out.String(), tc.code, tc.says)
			}
		})
	}
	url, _ := echo(t)
	var out strings.Builder
	if code := Main(t.Context(), []string{"--url=" + url, "--backend=" + open, "--timeout=20s"}, &out, &out); code != 0 ||
		!strings.Contains(out.String(), "has the tools echo") ||
		!strings.Contains(out.String(), "NetworkPolicies are not enforced") {
		t.Errorf("exit code %d of a call, saying %q", code, out.String())
	}
}
