// Package runner runs the runner's binary against a real API server with the
// rights of its ServiceAccount, in front of a real MCP server.
//
// suite_test.go starts the API server, wire_test.go is a way to it that can be
// cut, process_test.go starts runners, and runner_test.go has the stories.
package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane  *kit.Plane
	binary string
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code, err := withPlane(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withPlane(tests func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "freehold-runner-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "freehold-runner")
	if err := kit.Build(context.Background(), "./cmd/runner", binary); err != nil {
		return 0, err
	}
	plane, err = kit.Start(context.Background())
	defer func() {
		if stopped := plane.Stop(); err == nil {
			err = stopped
		}
	}()
	if err == nil {
		err = plane.Install(context.Background())
	}
	if err != nil {
		return 0, err
	}
	return tests(), nil
}
