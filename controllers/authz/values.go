package authz

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth is how deep objects and arrays of claims and arguments may be nested.
	maxDepth = 32
	// maxElements is how many elements an array of arguments may have: Cedar compares each with those before it whose hash
	// is the same, and callers can choose values for which it is.
	maxElements = 4096
	// maxNested is how many values there may be in an array of arrays or objects, of which each comparison is as many as
	// they hold.
	maxNested = 1000
)

var (
	errElements = fmt.Errorf("an array that a policy reads has more than %d elements", maxElements)
	errNoObject = errors.New("it is no object")
	errNested   = fmt.Errorf("an array of arrays or objects that a policy reads has more than %d values in it", maxNested)
)

type values struct {
	// trusted says that an issuer wrote them, and no caller.
	trusted bool
	count   int
}

// attributes turns those members of a JSON object that are read into attributes, their names behind prefix. Whole
// numbers are Longs, others decimals; null is left out, as an attribute that is absent. What Cedar has no value for
// is an error: left out, it would let a policy that forbids it pass.
func (v *values) attributes(into types.RecordMap, prefix string, object jsontext.Value,
	reads func(name string) bool,
) error {
	if len(object) == 0 || object.Kind() == 'n' {
		return nil
	}
	decoder := decoders.Get().(*jsontext.Decoder) //nolint:forcetypeassert // nothing else is in it
	decoder.Reset(bytes.NewBuffer(object))        // which it reads where it is
	defer putBack(decoder)
	if begin, err := decoder.ReadToken(); err != nil || begin.Kind() != '{' {
		return errors.Join(err, errNoObject)
	}
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		raw, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if !reads(name) {
			continue
		}
		made, err := v.value(raw, 0)
		if err != nil {
			return fmt.Errorf("%s%s: %w", prefix, Shown(name), err)
		}
		if made != nil {
			into[types.String(prefix+name)] = made
		}
	}
	_, err := decoder.ReadToken()
	return err
}

func (v *values) value(raw jsontext.Value, depth int) (types.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	v.count++
	switch raw.Kind() {
	case 'n':
		return nil, nil //nolint:nilnil // null is no value
	case 't', 'f':
		return types.Boolean(raw.Kind() == 't'), nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return types.String(s), err
	case '0':
		return number(string(raw))
	case '[':
		return v.set(raw, depth)
	default:
		record := types.RecordMap{}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		for name, each := range members {
			made, err := v.value(each, depth+1)
			if err != nil {
				return nil, err
			}
			if made != nil {
				record[types.String(name)] = made
			}
		}
		return types.NewRecord(record), nil
	}
}

func (v *values) set(raw jsontext.Value, depth int) (types.Value, error) {
	var items []jsontext.Value
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if len(items) > maxElements && !v.trusted {
		return nil, errElements
	}
	var all []types.Value
	nested, before := false, v.count
	for _, each := range items {
		made, err := v.value(each, depth+1)
		if err != nil {
			return nil, err
		}
		if made == nil {
			continue
		}
		nested = nested || each.Kind() == '[' || each.Kind() == '{'
		if nested && v.count-before > maxNested && !v.trusted {
			return nil, errNested
		}
		all = append(all, made)
	}
	return types.NewSet(all...), nil
}

// number is a Long if it is whole, as 5 and 5.0 are, and else a decimal, which has four digits after the point.
func number(text string) (types.Value, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Long(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, err
	}
	const exact = 1 << 53 // above, a float stands for several whole numbers
	if f == float64(int64(f)) && f < exact && f > -exact {
		return types.Long(int64(f)), nil
	}
	return types.NewDecimalFromFloat(f)
}
