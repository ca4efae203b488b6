// Package identity holds who may do what, on a real API server with the roles that the chart installs: the operator's
// program works with them, each of their rights is needed, and what is in none of them is refused. Who wrote is read
// from the audit log.
package identity

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane *kit.Plane
	// program is the operator's.
	program  string
	freehold = contract.Freehold()
)

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, dir string) error {
		program = filepath.Join(dir, "operator")
		return errors.Join(kit.Build(ctx, "./cmd/operator", program), plane.Install(ctx))
	}, kit.Audited())
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
