package runspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Largest bounds the characters of a whole spec. It leaves room for the largest entities that the schema of policies
// allows. The policy freehold-size in config/policy refuses larger ones, and counts no less than TooLarge does.
const Largest = 384 << 10

// TooLarge returns an error for a spec above Largest: one stored before there was a bound, or without the policy.
// Such a spec is not rendered.
func TooLarge(spec any) error {
	data, err := json.Marshal(spec)
	if err != nil || len(data) <= Largest {
		return nil //nolint:nilerr // what cannot be encoded is said with the field that it is in
	}
	characters, words := 0, json.NewDecoder(bytes.NewReader(data))
	for word, err := words.Token(); err == nil; word, err = words.Token() {
		if text, ok := word.(string); ok {
			characters += utf8.RuneCountInString(text)
		}
	}
	if characters <= Largest {
		return nil
	}
	return fmt.Errorf("more than %d characters: move long values into a ConfigMap or Secret that volumes or envFrom "+
		"name, "+
		"and policies into an MCPAuthzConfig, or write policies for groups instead of for each caller", Largest)
}
