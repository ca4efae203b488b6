package main

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// redacted stands for what is left out.
const redacted = "REDACTED"

// redact removes from an object what may be a secret: values of environment
// variables, headers and flags, also in the JSON of a ConfigMap or an annotation, the data of a Secret,
// and the copy of the whole object that kubectl keeps in an annotation. Names, and
// references to Secrets, stay.
func redact(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
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
				data[key] = redactText(text)
				continue
			}
			data[key] = redacted
		}
	}
	redactValue(u.Object)
	return u
}

// redactTexts redacts annotations, of which one has the run config.
func redactTexts(annotations any) {
	texts, ok := annotations.(map[string]any)
	if !ok {
		return
	}
	for key, value := range texts {
		if text, isText := value.(string); isText {
			texts[key] = redactText(text)
		}
	}
}

// redactText redacts JSON; other text stays.
func redactText(text string) string {
	var value any
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	redactValue(value)
	data, err := json.Marshal(value)
	if err != nil {
		return redacted
	}
	return string(data)
}

// redactValue redacts, anywhere below a value, the values of variables and headers, in
// lists of {name, value} and in maps, and those of flags.
func redactValue(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			switch key {
			case "env", "headers", "httpHeaders":
				redactNamed(below)
			case "args", "command":
				redactFlags(below)
			case "annotations":
				redactTexts(below)
			}
			redactValue(below)
		}
	case []any:
		for _, item := range v {
			redactValue(item)
		}
	}
}

// redactFlags redacts what follows a flag, as --name=value and as an item of its own.
func redactFlags(arguments any) {
	list, ok := arguments.([]any)
	if !ok {
		return
	}
	follows := false
	for i, item := range list {
		text, _ := item.(string)
		name, _, joined := strings.Cut(text, "=")
		flag := strings.HasPrefix(text, "-")
		switch {
		case flag && joined:
			list[i] = name + "=" + redacted
		case !flag && follows:
			list[i] = redacted
		}
		follows = flag && !joined
	}
}

func redactNamed(values any) {
	switch list := values.(type) {
	case []any:
		for _, item := range list {
			if variable, ok := item.(map[string]any); ok && variable["value"] != nil {
				variable["value"] = redacted
			}
		}
	case map[string]any:
		for name, value := range list {
			if _, text := value.(string); text {
				list[name] = redacted
			}
		}
	}
}
