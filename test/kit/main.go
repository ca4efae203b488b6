package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs the tests of a package beside a plane, and ends the process. prepare is
// called before them, with a directory that is removed after them.
func Main(m *testing.M, plane **Plane, prepare func(ctx context.Context, dir string) error, options ...Option) {
	log.SetLogger(logr.Discard())
	code, err := beside(m, plane, prepare, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func beside(
	m *testing.M, plane **Plane, prepare func(ctx context.Context, dir string) error,
	options []Option,
) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "freehold-tests-")
	if err != nil {
		return 0, err
	}
	*plane, err = Start(ctx, options...)
	defer func() { err = errors.Join(err, (*plane).Stop(), os.RemoveAll(dir)) }()
	if err == nil && prepare != nil {
		err = prepare(ctx, dir)
	}
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}
