package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func TestRootsOfThePublicWeb(t *testing.T) {
	var file bytes.Buffer
	if err := write(&file); err != nil {
		t.Fatal(err)
	}
	found, names := 0, map[string]bool{}
	for rest := file.Bytes(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !root.IsCA {
			t.Fatalf("a root that is none: %v, %v", root, err)
		}
		found++
		names[root.Subject.CommonName] = true
	}
	if found < 80 || !names["ISRG Root X1"] {
		t.Errorf("%d roots, with that of Let's Encrypt: %v", found, names["ISRG Root X1"])
	}
}
