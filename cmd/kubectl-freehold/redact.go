package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const redacted = "REDACTED"

const (
	// hiddenLength is the minimum of a value that is searched for elsewhere: "true" and "info" are in every log.
	hiddenLength = 8
	// noteLength is the maximum of a foreign annotation that is not JSON. Tools keep packed copies of whole objects in
	// longer ones.
	noteLength = 256
)

// Credentials anywhere in a text. userinfo is the user and password of a URL, up to its last @. passwords follow a
// header of credentials (RFC 9110, section 11.6.2) or a key, the word Basic (RFC 7617) or Bearer (RFC 6750, section
// 2.1), or a name in a URL's query, or are a JSON Web Token (RFC 7519, section 3).
var (
	userinfo  = regexp.MustCompile(`://[^\s/?#"']+@`)
	passwords = regexp.MustCompile(
		`(?i:(authorization["']?[:=][ \t]*[\["']*(?:[a-z]+[ +])?|api[-_]key["']?[:=][ \t]*[\["']*))[^\s"',;\]]{8,}` +
			`|(?i:((?:basic|bearer)[ +]))[A-Za-z0-9._~+/=-]{8,}` +
			`|([?&][A-Za-z0-9_.~%-]+=)[^\s&#"']+` +
			`|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
)

// secretFlag precedes a secret, even one that begins with a dash.
var secretFlag = regexp.MustCompile(`(?i)^-.*(token|key|secret|passw|credential)`)

// assigned is a variable with its value as one argument.
var assigned = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// redactor removes possible secrets from objects, and remembers them, so that it finds them in logs and messages.
type redactor struct {
	// hidden are the removed values.
	hidden map[string]bool
	// open are names, namespaces and images of objects, and the longest name of a transport. A removed value that is
	// part of one is not searched for elsewhere: the bundle would be unreadable.
	open []string
}

func newRedactor() *redactor {
	return &redactor{hidden: map[string]bool{}, open: []string{string(v1alpha1.TransportStreamableHTTP)}}
}

// hide replaces a value. Elsewhere the value may occur line by line, or as a string of Go or JSON.
func (r *redactor) hide(value string) string {
	quoted := strconv.Quote(value)
	forms := append(strings.Split(value, "\n"), value, quoted[1:len(quoted)-1])
	if encoded, err := json.Marshal(value); err == nil {
		forms = append(forms, string(encoded[1:len(encoded)-1]))
	}
	for _, form := range forms {
		if form = strings.TrimSpace(form); len(form) >= hiddenLength && form != redacted {
			r.hidden[form] = true
		}
	}
	return redacted
}

func (r *redactor) isOpen(value string) bool {
	return slices.ContainsFunc(r.open, func(text string) bool { return strings.Contains(text, value) })
}

func (r *redactor) scrub(text string) string { return r.scrubber()(text) }

// scrubber is scrub for many texts, with the values known so far.
func (r *redactor) scrubber() func(string) string {
	values := slices.DeleteFunc(slices.Collect(maps.Keys(r.hidden)), r.isOpen)
	// The longest first: one may be a part of another.
	slices.SortFunc(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return func(text string) string {
		for _, value := range values {
			text = strings.ReplaceAll(text, value, redacted)
		}
		text = userinfo.ReplaceAllString(text, "://"+redacted+"@")
		return passwords.ReplaceAllString(text, "${1}${2}${3}"+redacted)
	}
}

// scrubbed is a copy of a value with each string and key scrubbed. Of keys that become equal one stays.
func scrubbed(value any, scrub func(string) string) any {
	switch v := value.(type) {
	case string:
		return scrub(v)
	case map[string]any:
		to := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			to[scrub(key)] = scrubbed(v[key], scrub)
		}
		return to
	case []any:
		to := make([]any, 0, len(v))
		for _, item := range v {
			to = append(to, scrubbed(item, scrub))
		}
		return to
	}
	return value
}

// redact removes possible secrets from an object: values of environment variables, headers and flags, also in the
// JSON of a ConfigMap or an annotation, the data of a Secret, and the copies of the whole object that tools keep in
// annotations. Names, and references to Secrets, stay.
func (r *redactor) redact(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	r.open = append(r.open, u.GetName(), u.GetNamespace())
	if annotations := u.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		annotations[corev1.LastAppliedConfigAnnotation] = redacted
		u.SetAnnotations(annotations)
	}
	secret := u.GetKind() == "Secret"
	for _, field := range []string{"data", "stringData", "binaryData"} {
		data, ok := u.Object[field].(map[string]any)
		for key, value := range data {
			text, isText := value.(string)
			if ok && isText && !secret && field == "data" {
				data[key] = r.text(text)
				continue
			}
			data[key] = r.hide(text)
		}
	}
	r.value(u.Object)
	return u
}

// annotations redacts annotations, one of which has the run config. A list is removed as a whole: a JSON patch has a
// secret beside its path (RFC 6902), without a telling name.
func (r *redactor) annotations(annotations any) {
	texts, ok := annotations.(map[string]any)
	if !ok {
		return
	}
	for key, value := range texts {
		text, isText := value.(string)
		if !isText {
			continue
		}
		start, whole := strings.TrimSpace(text), json.Valid([]byte(text))
		switch {
		case whole && strings.HasPrefix(start, "{"):
			texts[key] = r.text(text)
		case whole && strings.HasPrefix(start, "["), len(text) > noteLength:
			texts[key] = r.hide(text)
		}
	}
}

// text redacts JSON; other text stays.
func (r *redactor) text(text string) string {
	var value any
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	r.value(value)
	data, err := json.Marshal(value)
	if err != nil {
		return redacted
	}
	return string(data)
}

// value redacts, anywhere below a value, the values of variables and headers, in lists of {name, value} and in maps,
// and those of flags.
func (r *redactor) value(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			switch key {
			case "env", "headers", "httpHeaders":
				r.named(below)
			case "args", "command":
				r.flags(below)
			case "annotations":
				r.annotations(below)
			case "image":
				if image, is := below.(string); is {
					r.open = append(r.open, image)
				}
			}
			r.value(below)
		}
	case []any:
		for _, item := range v {
			r.value(item)
		}
	}
}

// flags redacts the value of a flag, as --name=value and as an item of its own, and that of a variable.
func (r *redactor) flags(arguments any) {
	list, ok := arguments.([]any)
	if !ok {
		return
	}
	follows, secret := false, false
	for i, item := range list {
		text, _ := item.(string)
		name, value, joined := strings.Cut(text, "=")
		flag := strings.HasPrefix(text, "-")
		switch {
		case follows && secret:
			list[i] = r.hide(text)
		case flag && joined, assigned.MatchString(text):
			list[i] = name + "=" + r.hide(value)
		case !flag && follows:
			list[i] = r.hide(text)
		}
		follows = flag && !joined
		secret = follows && secretFlag.MatchString(text)
	}
}

func (r *redactor) named(values any) {
	switch list := values.(type) {
	case []any:
		for _, item := range list {
			if variable, ok := item.(map[string]any); ok && variable["value"] != nil {
				value, _ := variable["value"].(string)
				variable["value"] = r.hide(value)
			}
		}
	case map[string]any:
		for name, value := range list {
			if text, is := value.(string); is {
				list[name] = r.hide(text)
			}
		}
	}
}
