// Package policystore keeps what shared configurations say, for all controllers: one text
// is parsed once, whoever asks, and one at a time, since what the parser makes of it takes
// fifty times as much memory. It is keyed by content. Read is where to begin.
package policystore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// remembered is how many verdicts are kept, mostTexts how many texts, and mostLarge how
// many of those that a cache does not keep, which hold megabytes.
const remembered, mostTexts, mostLarge = 1 << 14, 128, 2

// Verdict is what is known of a configuration without its text.
type Verdict struct {
	// Hash names what it contributes to the content of servers.
	Hash string
	// Err is why its policies cannot be read, and Unmatched are the statements that match
	// no call.
	Err       error
	Unmatched []string
}

// Store is for all controllers of a process.
type Store struct {
	// reading is held by who parses, and readingLarge by who parses what takes seconds, so
	// that nobody waits for that who has little to read.
	reading, readingLarge  sync.Mutex
	verdicts, small, large *lru.Cache
}

// New is an empty one.
func New() *Store {
	return &Store{verdicts: lru.New(remembered), small: lru.New(mostTexts), large: lru.New(mostLarge)}
}

// Digest names the spec of an object by its content, and size is that of its JSON. An
// object that a cache holds in part has the digest that it was cut with.
func Digest(obj client.Object) (digest string, size int) {
	if reconcile.IsCut(obj) {
		return reconcile.CutDigest(obj), reconcile.LargeObject
	}
	var spec any
	switch o := obj.(type) {
	case *v1alpha1.MCPAuthzConfig:
		spec = &o.Spec
	case *v1alpha1.MCPOIDCConfig:
		spec = &o.Spec
	default:
		return "", 0
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return "", 0 // as no plain data is
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), len(data)
}

// Policies are what is known of an MCPAuthzConfig, false of one that a cache holds in part
// and nobody has read yet.
func (s *Store) Policies(config *v1alpha1.MCPAuthzConfig) (Verdict, bool) {
	digest, _ := Digest(config)
	if known, ok := s.verdicts.Get(digest); ok {
		return known.(Verdict), true
	}
	if reconcile.IsCut(config) {
		return Verdict{}, false
	}
	s.Read(config)
	known, ok := s.verdicts.Get(digest)
	verdict, _ := known.(Verdict)
	return verdict, ok
}

// Text is what an MCPAuthzConfig says, false if it is not kept.
func (s *Store) Text(config *v1alpha1.MCPAuthzConfig) (*runspec.SharedPolicies, bool) {
	digest, size := Digest(config)
	found, ok := s.of(size).Get(digest)
	if !ok {
		return nil, false
	}
	policies := found.(runspec.SharedPolicies)
	policies.Deleting = config.DeletionTimestamp != nil
	return &policies, true
}

// Read is what a whole MCPAuthzConfig says.
func (s *Store) Read(config *v1alpha1.MCPAuthzConfig) *runspec.SharedPolicies {
	digest, size := Digest(config)
	reading := &s.reading
	if size >= reconcile.LargeObject {
		reading = &s.readingLarge
	}
	reading.Lock()
	defer reading.Unlock()
	if known, ok := s.Text(config); ok {
		return known
	}
	read := runspec.ReadPolicies(config)
	s.verdicts.Add(digest, Verdict{Hash: read.Hash, Err: read.Err, Unmatched: read.Unmatched})
	s.of(size).Add(digest, read)
	return &read
}

func (s *Store) of(size int) *lru.Cache {
	if size >= reconcile.LargeObject {
		return s.large
	}
	return s.small
}

// Login names what an MCPOIDCConfig contributes to the content of servers, false of one that
// a cache holds in part and nobody has read yet.
func (s *Store) Login(config *v1alpha1.MCPOIDCConfig) (hash string, known bool) {
	digest, _ := Digest(config)
	if found, ok := s.verdicts.Get(digest); ok {
		return found.(Verdict).Hash, true
	}
	if reconcile.IsCut(config) {
		return "", false
	}
	hash = runspec.LoginHash(config)
	s.verdicts.Add(digest, Verdict{Hash: hash})
	return hash, true
}
