package authz

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/go-json-experiment/json/jsontext"
)

// longer is how many times as long as the text its form may be: it is stored.
const longer = 4

// Canonical is the text of policies in one form, whatever spaces, comments and
// order of statements they were written in. Text that cannot be read stays as it
// is, and so does text of which the form would mean something else or be far longer.
func Canonical(text string) string {
	if tooLarge("", text) != nil {
		return text
	}
	parsing.Lock()
	defer parsing.Unlock()
	list, err := cedar.NewPolicyListFromBytes("", []byte(text))
	if err != nil || len(list) == 0 {
		return text
	}
	statements := make([]string, 0, len(list))
	for _, policy := range list {
		statement := policy.MarshalCedar()
		var again cedar.Policy
		if again.UnmarshalCedar(statement) != nil || !same(policy, &again) {
			return text
		}
		statements = append(statements, string(statement))
	}
	slices.Sort(statements)
	form := strings.Join(slices.Compact(statements), "\n")
	if len(form) > longer*len(text) {
		return text
	}
	return form
}

// same reports whether two policies are one but for where they were written. It
// compares what was parsed: their JSON takes time by the square of how deep they nest.
func same(a, b *cedar.Policy) bool {
	one, other := ast.Policy(*a.AST()), ast.Policy(*b.AST())
	one.Position, other.Position = ast.Position{}, ast.Position{}
	return reflect.DeepEqual(one, other)
}

// formed is how deep the entities nest whose form is made: it takes time by the depth.
const formed = 32

// CanonicalEntities is the same of entities.
func CanonicalEntities(text string) string {
	var entities, again types.EntityMap
	if text == "" || nests(text, formed) || json.Unmarshal([]byte(text), &entities) != nil {
		return text
	}
	form, err := entities.MarshalJSON()
	if err != nil || json.Unmarshal(form, &again) != nil || len(again) != len(entities) {
		return text
	}
	for uid, entity := range entities {
		if other, ok := again[uid]; !ok || !entity.Equal(other) {
			return text
		}
	}
	return string(form)
}

// nests reports whether JSON nests deeper than this.
func nests(text string, most int) bool {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false // the end, or what is no JSON
		}
		if d.StackDepth() > most {
			return true
		}
	}
}
