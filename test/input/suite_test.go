// Package input shows bad input to a real API server and, where that takes it, to the real operator: every mistake has
// a row, and every row says what the person who made it reads. rows_test.go is what a row is, *_rows_test.go are the
// rows by subject, refused_test.go judges those that the API server refuses, named_test.go those that a condition
// names, and docs_test.go writes docs/errors.md from both.
package input

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/golden"
	"github.com/freehold-dev/freehold/test/kit"
)

// plane is started by the first test that needs it: writing the document needs none.
var plane = sync.OnceValues(func() (*kit.Plane, error) { return kit.Start(context.Background()) })

var started atomic.Bool

func TestMain(m *testing.M) {
	flag.Parse()
	if golden.Updates() { // which needs no API server
		if err := flag.Set("test.run", "TestTheDocumentIsThatOfTheRows"); err != nil {
			panic(err)
		}
	}
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if started.Load() {
		if p, _ := plane(); p != nil { // its error failed a test
			if err := p.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// newEnv gives a test a namespace.
func newEnv(t *testing.T) *kit.Env {
	t.Helper()
	started.Store(true)
	p, err := plane()
	if err != nil {
		t.Fatal(err)
	}
	return kit.NewEnv(t, p)
}
