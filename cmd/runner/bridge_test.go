package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// What the proxy has to collect garbage seldom is not in the container of a user's server.
func TestABridgeTakesNoBallast(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, runconfig.BridgeCommand, "-h")
	command.Env = append(os.Environ(), "GODEBUG=inittrace=1") // https://pkg.go.dev/runtime#hdr-Environment_Variables
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	inits := regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, `).FindAllSubmatch(said, -1)
	if len(inits) == 0 {
		t.Fatalf("nothing is initialized: %s", said)
	}
	for _, init := range inits {
		if n, err := strconv.Atoi(string(init[2])); err != nil || n >= ballastSize/4 {
			t.Errorf("package %s takes %s bytes before it is known that this is a bridge", init[1], init[2])
		}
	}
}
