// Registry is a registry in memory, for hack/verify-release.sh: at an address of the loopback interface, until it is
// stopped.
//
//	go -C hack/images run ./registry 127.0.0.1:5000
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("registry: name the address to serve at, for example 127.0.0.1:5000")
	}
	server := &http.Server{
		Addr:              os.Args[1],
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
