// Package store keeps what shared configurations say, for all controllers: one text
// is parsed once, whoever asks, and one at a time, since what the parser makes of it takes
// fifty times as much memory. It is keyed by content. Read is where to begin.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// remembered is how many verdicts are kept, mostWhole how many with what they contribute, and
// mostLarge how many of those that a cache does not keep, which hold megabytes.
const remembered, mostWhole, mostLarge = 1 << 14, 128, 2

// Store is for all controllers of a process.
type Store struct {
	// reading is held by who parses, and readingLarge by who parses what takes seconds, so
	// that nobody waits for that who has little to read.
	reading, readingLarge  sync.Mutex
	verdicts, small, large *lru.Cache
}

// content names what a configuration of a kind says.
type content struct{ kind, digest string }

// New is an empty one.
func New() *Store {
	return &Store{verdicts: lru.New(remembered), small: lru.New(mostWhole), large: lru.New(mostLarge)}
}

// Digest names the spec of a configuration by its content, and size is that of its JSON. One
// that a cache holds in part has the digest that it was cut with.
func Digest(config frame.Object) (digest string, size int) {
	if reconcile.IsCut(config) {
		return reconcile.CutDigest(config), reconcile.LargeObject
	}
	data, err := json.Marshal(config.GetConfigSpec())
	if err != nil {
		return "", 0 // as no plain data is
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), len(data)
}

// Verdict is what is known of a configuration, perhaps without what it contributes; false of
// one that a cache holds in part and nobody has read yet.
func (s *Store) Verdict(kind frame.Kind, config frame.Object) (frame.Verdict, bool) {
	key, _ := keyOf(kind, config)
	if found, ok := s.verdicts.Get(key); ok {
		verdict, _ := found.(frame.Verdict)
		return verdict, true
	}
	if reconcile.IsCut(config) {
		return frame.Verdict{}, false
	}
	return s.Read(kind, config), true
}

// Whole is what is known of a configuration with what it contributes, false if that is not kept.
func (s *Store) Whole(kind frame.Kind, config frame.Object) (frame.Verdict, bool) {
	key, size := keyOf(kind, config)
	found, ok := s.of(size).Get(key)
	verdict, _ := found.(frame.Verdict)
	return verdict, ok
}

// Read is what a whole configuration says.
func (s *Store) Read(kind frame.Kind, config frame.Object) frame.Verdict {
	key, size := keyOf(kind, config)
	reading := &s.reading
	if size >= reconcile.LargeObject {
		reading = &s.readingLarge
	}
	reading.Lock()
	defer reading.Unlock()
	if known, ok := s.Whole(kind, config); ok {
		return known
	}
	verdict := kind.Check(config)
	s.of(size).Add(key, verdict)
	summary := verdict
	summary.Contribution = nil
	s.verdicts.Add(key, summary)
	return verdict
}

func keyOf(kind frame.Kind, config frame.Object) (content, int) {
	digest, size := Digest(config)
	return content{kind.Row().Object.Kind, digest}, size
}

func (s *Store) of(size int) *lru.Cache {
	if size >= reconcile.LargeObject {
		return s.large
	}
	return s.small
}
