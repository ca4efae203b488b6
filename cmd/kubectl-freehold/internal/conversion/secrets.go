package conversion

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"
)

var (
	// secretNames are names of variables, headers, flags and fields whose values are secrets; plainNames are those that
	// only speak of one.
	secretNames = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|pass($|[-_])|api[-_]?key|private[-_]?key|` +
		`(access|auth|session|signing|encryption|service)[-_]?key|credential|authorization|cookie|bearer|basic[-_]?auth|` +
		`connection[-_]?string|mnemonic|webhook|(^|[-_])(pat|pwd|key|dsn|seed)$)`)
	plainNames = regexp.MustCompile(`(?i)((^|[-_])(max|num|min)[-_]|[-_](file|path|uri|ttl|limit|expiry|issuer|count|name|` +
		`endpoint|header|type|ref|dir|algorithm|length)$|token[-_]?url$)`)
	// secretShapes are tokens of known makers, credentials behind their names, and those in URLs, wherever they stand.
	secretShapes = regexp.MustCompile(`\b(gh[pousr]_|github_pat_|glpat-|sk-|sk_|pk_|xox[abprse]-|xapp-|AKIA|ASIA|eyJ|AIza|` +
		`ya29\.|npm_|pypi-|dop_v1_|hf_|shpat_|SG\.|lin_api_|ntn_|figd_|tvly-|pplx-|r8_|ATATT|dckr_pat_)[A-Za-z0-9._/+=-]{6,}|` +
		`(?i:\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,})|://[^/@\s$]+@|` +
		`hooks\.slack\.com/services/\S+|discord(app)?\.com/api/webhooks/\S+|` +
		`(?i:(authorization|api[-_]?key|passw(or)?d|passphrase|secret|token|access[-_]?key|pwd)\\?["']?\s*[:=]\s*\\?["']?` +
		`[^\s"'\\,;&{}$<(]+)`)
	opaque = regexp.MustCompile(`^[A-Za-z0-9_+/=-]{24,}$`)
	// counts are numbers of tokens, of which models have many.
	counts = regexp.MustCompile(`(?i)tokens=[0-9]+$`)
)

// isSecret reports whether a value is one by its name, or by its shape.
func isSecret(name, value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "none", "null":
		return false
	}
	named := secretNames.MatchString(name) && !plainNames.MatchString(name)
	return named && !counts.MatchString(name+"="+value) || looksSecret(value)
}

// looksSecret reports whether a text is as long and as mixed as a key is.
func looksSecret(value string) bool {
	if withoutSecrets(value) != value {
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

// withoutSecrets is a text with hidden in the place of each shape of a secret.
func withoutSecrets(text string) string {
	return secretShapes.ReplaceAllStringFunc(text, func(found string) string {
		if found == "://git@" { // is how ssh names everybody
			return found
		}
		return hidden
	})
}

// scrub takes out of the finished object what has the shape of a secret, wherever it stands, and says where. What may
// hold secrets by name is in a Secret by now.
func (c *conversion) scrub(path string, value any) any {
	switch v := value.(type) {
	case string:
		if clean := withoutSecrets(v); clean != v {
			c.todo(path + ": it has a secret, which is not printed: write it from a Secret")
			return clean
		}
	case []any:
		for i := range v {
			v[i] = c.scrub(fmt.Sprintf("%s[%d]", path, i), v[i])
		}
	case map[string]any:
		for _, key := range sorted(v) {
			if key != "authzConfig" && key != "policies" { // Cedar compares with words such as token
				v[key] = c.scrub(path+"."+key, v[key])
			}
		}
	}
	return value
}

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
	c.hideValues("spec.env", items(c.at("spec.env")), expand)
	c.hideValues("spec.headers", items(c.at("spec.headers")), expand)
	for _, template := range []string{"spec.podTemplate.spec.", "spec.proxy.podTemplate.spec."} {
		for _, kind := range []string{"containers", "initContainers"} {
			for _, one := range items(c.at(template + kind)) {
				at := template + kind + "[name=" + text(one["name"]) + "].env"
				c.hideValues(at, items(one["env"]), expand)
			}
		}
	}
	c.hideArgs(expand)
	c.main["spec"] = c.scrub("spec", c.main["spec"])
	if metadata, is := c.main["metadata"].(map[string]any); is && metadata["annotations"] != nil {
		metadata["annotations"] = c.scrub("metadata.annotations", metadata["annotations"])
	}
}

// hideValues moves the secrets of a list of variables or headers.
func (c *conversion) hideValues(field string, list []map[string]any, expand bool) {
	for _, one := range list {
		value, plain := one["value"].(string)
		if !plain {
			continue
		}
		name := text(one["name"])
		if expand {
			value, plain = withDefaults(value)
			one["value"], plain = value, !plain
		}
		hides := isSecret(name, value)
		if c.ofImage[name] {
			hides = withoutSecrets(value) != value // everybody reads it in the image
		}
		if plain && !hides {
			continue
		}
		delete(one, "value")
		one["valueFrom"] = map[string]any{"secretKeyRef": c.secretKey(name, field+"[name="+name+"]", value)}
	}
}

// secretKey adds an empty key to the server's Secret, and refers to it. Of is the field that had the value.
func (c *conversion) secretKey(key, of, value string) map[string]any {
	secret := c.secretOf()
	data := secret["stringData"].(map[string]any) //nolint:forcetypeassert // as secretOf made it
	for base, n := key, 2; data[key] != nil; n++ {
		key = fmt.Sprintf("%s-%d", base, n)
	}
	data[key] = ""
	said := of + " had a secret in the file, which is not printed"
	if parts := reference.FindStringSubmatch(value); parts != nil {
		said = fmt.Sprintf("%s was ${%s} in the file", of, cmp.Or(parts[1], parts[3], parts[4]))
		// What stands around a variable is shown where it is no secret itself.
		if around := strings.Replace(value, parts[0], "", 1); around != "" && schemes.MatchString(around) {
			said = fmt.Sprintf("%s was %q in the file", of, around+"${"+cmp.Or(parts[1], parts[3], parts[4])+"}")
		}
	}
	c.secrets = append(c.secrets, fmt.Sprintf("stringData.%s: write the value: %s", key, said))
	return map[string]any{"name": secret["metadata"].(map[string]any)["name"], "key": key} //nolint:forcetypeassert // ours
}

// schemes are how the value of a header may begin, before a credential.
var schemes = regexp.MustCompile(`^(?i)((bearer|basic|token|apikey) )?$`)

var isVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var notInVariable = regexp.MustCompile(`[^A-Z0-9]+`)

// hideArgs has the container get secrets of its arguments from variables: Kubernetes puts those in place of $(NAME).
func (c *conversion) hideArgs(expand bool) {
	for _, field := range []string{"spec.command", "spec.args"} {
		list, _ := c.at(field).([]any)
		flag := ""
		for i := range list {
			word := text(list[i])
			before, value, joined := strings.Cut(word, "=")
			if !joined || !strings.HasPrefix(before, "-") && !isVariable.MatchString(before) {
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
			if name == "" || c.hasVariable(name) {
				name = strings.TrimPrefix(fmt.Sprintf("%s_ARG_%d", name, i+1), "_")
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
