//go:build !linux

package main

import "errors"

const (
	firstCommand     = "first"
	superviseCommand = "supervise"
	relayCommand     = "relay"
)

var errNotLinux = errors.New("without kind and a container engine a cluster needs Linux")

func own(settings) (cluster, error)           { return nil, errNotLinux }
func inside(string, []string, settings) error { return errNotLinux }
