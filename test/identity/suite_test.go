// Package identity holds who may do what, on a real API server with the roles
// that the chart installs: the operator's program works with them, each of
// their rights is needed, and what is in none of them is refused. Who wrote is
// read from the audit log.
package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane *kit.Plane
	// program is the operator's.
	program  string
	freehold = contract.Freehold()
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "freehold-identity-")
	program = filepath.Join(dir, "operator")
	if err == nil {
		err = kit.Build(ctx, "./cmd/operator", program)
	}
	if err == nil {
		plane, err = kit.Start(ctx, kit.Audited())
	}
	if err == nil {
		err = plane.Install(ctx)
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, plane.Stop(), os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// installed is who has an identity of the contract, where no server has it.
func installed(identity string) *rest.Config {
	return plane.AsServiceAccount(kit.SystemNamespace, identity)
}

// connect is a client that can also watch.
func connect(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: plane.Scheme, Mapper: plane.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
