package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// settings are what the runner is told: the run config, and the mark that its
// pod was made for, frozen in the environment.
type settings struct {
	run    runconfig.RunConfig
	env    workload.Mark
	envErr error
}

// read reads flags, file and environment. A run config that is missing or
// invalid is an error of one line; an environment without a mark is not, since
// calls can be served without one, but nothing will be applied.
func read(args []string, getenv func(string) (string, bool)) (settings, error) {
	flags := flag.NewFlagSet("freehold-runner", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", filepath.Join(runconfig.MountPath, runconfig.FileName), "path of the run config")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	data, err := os.ReadFile(*path)
	if err != nil {
		return settings{}, fmt.Errorf("reading the run config: %w", err)
	}
	s := settings{}
	if s.run, err = runconfig.Decode(data); err != nil {
		return settings{}, fmt.Errorf("reading the run config %s: %w", *path, err)
	}
	s.env, s.envErr = mark(getenv)
	return s, nil
}

// mark is the mark of the environment. There is no fallback to the file: an
// old pod on a newer file would else write the newer content as its own.
func mark(getenv func(string) (string, bool)) (workload.Mark, error) {
	generation, ok := getenv(runconfig.EnvGeneration)
	if !ok {
		return workload.Mark{}, fmt.Errorf("%s is not set", runconfig.EnvGeneration)
	}
	hash, ok := getenv(runconfig.EnvHash)
	if !ok {
		return workload.Mark{}, fmt.Errorf("%s is not set", runconfig.EnvHash)
	}
	return workload.ParseMark(generation, hash)
}
