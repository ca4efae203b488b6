package call

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// dialed is how long a connection may take: a policy that drops packets lets the caller wait.
const dialed = 5 * time.Second

// misused is the exit code for wrong flags.
const misused = 2

// Reach runs `freehold-runner reach` until ctx ends: it measures whether NetworkPolicies keep the pod that it runs in
// from a server's backend, as they keep all but the server's proxies. Pods of the backend have to be ready: one
// without is closed to everybody. It returns an exit code of runconfig.
func Reach(ctx context.Context, args []string, out, failures io.Writer) int {
	proxy, backend := "", ""
	flags := flag.NewFlagSet("freehold-runner reach", flag.ContinueOnError)
	flags.SetOutput(failures)
	flags.StringVar(&proxy, "proxy", "", "HOST:PORT of the server's proxy, which everybody may reach (required)")
	flags.StringVar(&backend, "backend", "", "HOST:PORT of the server's backend, which only proxies may reach (required)")
	switch err := flags.Parse(args); {
	case err != nil:
		return misused
	case proxy == "" || backend == "":
		fmt.Fprintln(failures, "freehold-runner reach: --proxy or --backend is missing: write HOST:PORT of both")
		return misused
	}
	// Where the proxy is not reached either, something else keeps this pod from the backend.
	if err := dial(ctx, proxy); err != nil {
		fmt.Fprintf(out, "whether NetworkPolicies are enforced is not known, since this pod does not reach %s: %v\n",
			proxy, err)
		return runconfig.ReachUnknown
	}
	code, says := reached(ctx, backend)
	fmt.Fprintln(out, says)
	return code
}

// reached says whether this process connects to a backend.
func reached(ctx context.Context, backend string) (code int, says string) {
	err := dial(ctx, backend)
	var unresolved *net.DNSError
	switch {
	case errors.As(err, &unresolved):
		return runconfig.ReachUnknown, fmt.Sprintf("whether NetworkPolicies are enforced is not known: %v", err)
	case err != nil:
		return runconfig.ReachClosed, fmt.Sprintf("NetworkPolicies are enforced: %s is closed to this pod", backend)
	}
	return runconfig.ReachOpen, fmt.Sprintf("NetworkPolicies are not enforced: this pod reaches %s past the "+
		"proxy. Use a network plugin that enforces them", backend)
}

func dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialed)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
