// Command redis serves Argo CD's cache from memory at the address that it is given, until it is killed.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: redis ADDRESS")
		os.Exit(2)
	}
	if err := miniredis.NewMiniRedis().StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}
