// Package runner runs the runner's binary against a real API server with the
// rights of its ServiceAccount, in front of a real MCP server.
//
// suite_test.go starts the API server, wire_test.go is a way to it that can be
// cut, process_test.go starts runners, and runner_test.go has the stories.
package runner

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane  *kit.Plane
	binary string
)

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, dir string) error {
		binary = filepath.Join(dir, "freehold-runner")
		return errors.Join(kit.Build(ctx, "./cmd/runner", binary), plane.Install(ctx))
	})
}
