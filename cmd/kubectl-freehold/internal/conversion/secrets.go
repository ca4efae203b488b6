package conversion

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

var (
	// secretNames are names of variables, headers, flags and fields whose values are secrets; plainNames are those that
	// only speak of one.
	secretNames = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|api[-_]?key|private[-_]?key|access[-_]?key|` +
		`auth[-_]?key|credential|authorization|cookie|bearer|(^|[-_])(pat|pwd|key|dsn)$)`)
	plainNames = regexp.MustCompile(`(?i)((^|[-_])max[-_]|tokens$|[-_](file|path|url|uri|ttl|limit|expiry|issuer|count|name|id|` +
		`endpoint|header|type|ref|dir|algorithm|length)$)`)
	// secretShapes are how tokens of known makers begin, and a password in a URL.
	secretShapes = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|sk_|pk_|xox[abprse]-|xapp-|AKIA|ASIA|eyJ|AIza|` +
		`ya29\.|npm_|pypi-|dop_v1_|hf_|shpat_|SG\.|lin_api_|ntn_|secret_|figd_|tvly-|pplx-|r8_|ATATT|dckr_pat_|(?i:bearer|basic) )|` +
		`://[^/@\s:]*:[^/@\s]+@`)
	opaque = regexp.MustCompile(`^[A-Za-z0-9_+/=-]{24,}$`)
)

// isSecret reports whether a value is one by its name, or by its shape.
func isSecret(name, value string) bool {
	switch value {
	case "", "true", "false", "yes", "no", "0", "1", "none", "null":
		return false
	}
	return secretNames.MatchString(name) && !plainNames.MatchString(name) || looksSecret(value)
}

// looksSecret reports whether a text is as long and as mixed as a key is.
func looksSecret(value string) bool {
	if secretShapes.MatchString(value) {
		return true
	}
	const mixed = 3.5 // bits a character: words of a language have less
	return opaque.MatchString(value) && strings.ContainsAny(value, "0123456789") &&
		!strings.HasPrefix(value, "/") && entropy(value) >= mixed
}

// entropy is in bits a character.
func entropy(value string) (bits float64) {
	counts := map[rune]int{}
	for _, r := range value {
		counts[r]++
	}
	for _, n := range counts {
		p := float64(n) / float64(len(value))
		bits -= p * math.Log2(p)
	}
	return bits
}

// hidden stands in comments for a secret.
const hidden = "(not printed)"

// redacted is a value without the secrets in it. Path is that of the field that has it.
func redacted(path string, value any) any {
	switch v := value.(type) {
	case string:
		name := path[strings.LastIndex(path, ".")+1:]
		if name != "key" && isSecret(name, v) { // that of a Secret is none itself
			return hidden
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redacted(path, v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		named := text(v["name"]) // of a variable, a header
		for key := range v {
			of := key
			if key == "value" && named != "" {
				of = named
			}
			out[key] = redacted(of, v[key])
		}
		return out
	}
	return value
}

// reference is a variable in a file of a client: ${X}, ${X:-default}, ${env:X}, {env:X}, ${input:X} and %X%.
var reference = regexp.MustCompile(`\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_.-]*)(?::-([^}]*))?\}|` +
	`\{env:([A-Za-z_][A-Za-z0-9_]*)\}|%([A-Z_][A-Z0-9_]*)%`)

// withDefaults has the defaults of variables in their place, and whether variables without one are left.
func withDefaults(value string) (text string, left bool) {
	text = reference.ReplaceAllStringFunc(value, func(found string) string {
		if parts := reference.FindStringSubmatch(found); strings.Contains(found, ":-") {
			return parts[2]
		}
		return found
	})
	return text, reference.MatchString(text)
}

// hide moves secrets out of the spec into a Secret with empty keys. Expand says that variables in values are those of a
// client, which a cluster does not know; in manifests they are those of the tool that applies them.
func (c *conversion) hide(expand bool) {
	if c.kind.to == "" {
		return
	}
	for _, field := range []string{"spec.env", "spec.headers"} {
		for _, one := range items(c.at(field)) {
			value, plain := one["value"].(string)
			if !plain {
				continue
			}
			name := text(one["name"])
			if expand {
				value, plain = withDefaults(value)
				one["value"], plain = value, !plain
			}
			if plain && !isSecret(name, value) {
				continue
			}
			delete(one, "value")
			one["valueFrom"] = map[string]any{"secretKeyRef": c.secretKey(name, field+"[name="+name+"]", value)}
		}
	}
	c.hideArgs(expand)
}

// secretKey adds an empty key to the server's Secret, and refers to it. Of is the field that had the value.
func (c *conversion) secretKey(key, of, value string) map[string]any {
	secret := c.secretOf()
	said := of + " had a secret in the file, which is not printed"
	if found := reference.FindString(value); found != "" {
		// What stands around a variable is shown where it is no secret itself.
		if around := strings.Replace(value, found, "", 1); schemes.MatchString(around) {
			found = value
		}
		said = fmt.Sprintf("%s was %q in the file", of, found)
	}
	if _, there := get(secret, "stringData."+key); !there {
		secret["stringData"].(map[string]any)[key] = ""
		c.secrets = append(c.secrets, fmt.Sprintf("stringData.%s: write the value: %s", key, said))
	}
	return map[string]any{"name": secret["metadata"].(map[string]any)["name"], "key": key}
}

// schemes are how the value of a header may begin, before a credential.
var schemes = regexp.MustCompile(`^(?i)((bearer|basic|token|apikey) )?$`)

var notInVariable = regexp.MustCompile(`[^A-Z0-9]+`)

// hideArgs has the container get secrets of its arguments from variables: Kubernetes puts those in place of $(NAME).
func (c *conversion) hideArgs(expand bool) {
	for _, field := range []string{"spec.command", "spec.args"} {
		list, _ := c.at(field).([]any)
		flag := ""
		for i := range list {
			word := text(list[i])
			before, value, joined := strings.Cut(word, "=")
			if !joined || !strings.HasPrefix(before, "-") {
				before, value, joined = flag, word, false
			}
			flag = ""
			if strings.HasPrefix(word, "-") && !joined {
				flag = word
			}
			left := false
			if expand {
				value, left = withDefaults(value)
			}
			if !left && (strings.HasPrefix(value, "-") || !isSecret(strings.TrimLeft(before, "-"), value)) {
				if expand && !joined {
					list[i] = value
				} else if expand {
					list[i] = before + "=" + value
				}
				continue
			}
			name := strings.Trim(notInVariable.ReplaceAllString(strings.ToUpper(before), "_"), "_")
			if name == "" {
				name = fmt.Sprintf("ARG_%d", i+1)
			}
			add(c.main, "spec.env", map[string]any{
				"name": name, "valueFrom": map[string]any{
					"secretKeyRef": c.secretKey(name, fmt.Sprintf("%s[%d]", field, i), value),
				},
			})
			list[i] = "$(" + name + ")"
			if joined {
				list[i] = before + "=$(" + name + ")"
			}
		}
	}
}
