package runconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// ContentHash names the content: lower-case hexadecimal SHA-256 of the encoding with Workload zero. Workload is left
// out because the operator chooses the generation by comparing this hash, and because with it the file could not
// carry its own hash. The error is Encode's.
func (c RunConfig) ContentHash() (string, error) {
	c.Workload = Workload{}
	data, err := c.Encode()
	if err != nil {
		return "", err
	}
	return HashOf(data), nil
}

// HashOf names an encoding: lower-case hexadecimal SHA-256. Of a run config without its revision it is the ContentHash.
func HashOf(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// Verify says whether the content is the one that its revision was claimed for. The error gives both hashes; a run
// config with such an error must not be applied.
func (c RunConfig) Verify() error {
	hash, err := c.ContentHash()
	if err != nil {
		return err
	}
	if hash != c.Workload.Hash {
		return fmt.Errorf("run config: the content has hash %s, its revision says %q", hash, c.Workload.Hash)
	}
	return nil
}
