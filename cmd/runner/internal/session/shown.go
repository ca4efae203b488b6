package session

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// shownSize is how many bytes a credential has.
const shownSize = 32

// Shows is what a proxy shows the bridges of its server, as the values of a header, which nobody may change. It is nil
// where there is no key. What the Secret has besides the key to seal with is shown too: pods that were made with a key
// of before answer until they are replaced.
func (k *Keys) Shows() []string { return k.set().shows }

// Sums are the lower-case hexadecimal SHA-256 of what proves each key, that of the key to seal with first. A bridge
// need know no more.
func (k *Keys) Sums() (sums []string, err error) {
	keys, err := k.current()
	for _, key := range keys {
		sum := sha256.Sum256([]byte(key.shown))
		sums = append(sums, hex.EncodeToString(sum[:]))
	}
	return sums, err
}

// NotTaken is why a bridge of the server does not take what a proxy shows.
func (k *Keys) NotTaken() error {
	if _, err := k.current(); err != nil {
		return err
	}
	return fmt.Errorf("the backend's pods take no proxy with the key in the Secret %s: they were made with another one, "+
		"and are replaced within minutes, or with a new spec.restartedAt", k.secret)
}

func shows(keys []key) []string {
	var all []string
	for _, key := range keys {
		all = append(all, key.shown)
	}
	return []string{strings.Join(all, " ")}
}

// shownFor is what proves an entry.
func (k *Keys) shownFor(data []byte) (string, error) {
	shown, err := hkdf.Key(sha256.New, data, nil, "freehold.dev bridge v1 of server "+k.server, shownSize)
	return hex.EncodeToString(shown), err
}
