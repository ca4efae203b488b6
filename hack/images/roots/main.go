// Roots writes the root certificates that the public web rests on, in PEM, for an image that is made from nothing: the
// ones of Mozilla, as the Go project ships them. Those that Mozilla trusts within limits only, which PEM cannot say,
// are left out.
//
//	go -C hack/images run ./roots > bin/roots.pem
package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "roots:", err)
		os.Exit(1)
	}
}

func write(to io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(to, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return nil
}
