package session

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
)

// markSize is how many bytes a mark has.
const markSize = 18

// Mark is another text for another text. Proxies of the server make the same one, and nobody else can while they have a
// key.
func (k *Keys) Mark(text string) string {
	secret := ""
	if keys, err := k.current(); err == nil {
		secret = keys[0].shown
	}
	mac := hmac.New(sha256.New, []byte("freehold.dev mark v1 "+cmp.Or(secret, k.server)))
	mac.Write([]byte(text))
	return encoding.EncodeToString(mac.Sum(nil)[:markSize])
}
