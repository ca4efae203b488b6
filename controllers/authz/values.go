package authz

import (
	"fmt"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep objects and arrays of claims and arguments may be nested.
const maxDepth = 32

// attributes turns the members of a JSON object into attributes, their names
// behind prefix. Whole numbers are Longs, others decimals; null is left out, as
// an attribute that is absent. What Cedar has no value for is an error: left
// out, it would let a policy that forbids it pass.
func attributes(into types.RecordMap, prefix string, object jsontext.Value) error {
	if len(object) == 0 || object.Kind() == 'n' {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return err
	}
	for name, raw := range members {
		v, err := value(raw, 0)
		if err != nil {
			return fmt.Errorf("%s%s: %w", prefix, name, err)
		}
		if v != nil {
			into[types.String(prefix+name)] = v
		}
	}
	return nil
}

func value(raw jsontext.Value, depth int) (types.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
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
		return set(raw, depth)
	default:
		record := types.RecordMap{}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		for name, each := range members {
			v, err := value(each, depth+1)
			if err != nil {
				return nil, err
			}
			if v != nil {
				record[types.String(name)] = v
			}
		}
		return types.NewRecord(record), nil
	}
}

func set(raw jsontext.Value, depth int) (types.Value, error) {
	var items []jsontext.Value
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	var values []types.Value
	for _, each := range items {
		v, err := value(each, depth+1)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values = append(values, v)
		}
	}
	return types.NewSet(values...), nil
}

// number is a Long if it is whole, as 5 and 5.0 are, and else a decimal, which
// has four digits after the point.
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
