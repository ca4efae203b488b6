package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/resource"
)

// lacking asks for the rights to list that the user lacks; it is empty for other errors.
func lacking(err error) string {
	kinds := map[string]bool{}
	forbidden(err, kinds)
	if len(kinds) == 0 {
		return ""
	}
	return "You may not list " + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ") +
		": ask for that right, or for somebody who has it."
}

// forbidden collects the kinds of an error and its parts.
func forbidden(err error, kinds map[string]bool) {
	if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsForbidden(err) { // what it wraps is looked at below
		if details := status.Status().Details; details != nil && details.Kind != "" {
			kinds[strings.TrimSuffix(details.Kind+"."+details.Group, ".")] = true
		}
		return
	}
	switch several := err.(type) { //nolint:errorlint // see above
	case interface{ Unwrap() []error }:
		for _, each := range several.Unwrap() {
			forbidden(each, kinds)
		}
	case interface{ Errors() []error }:
		for _, each := range several.Errors() {
			forbidden(each, kinds)
		}
	default:
		if inner := errors.Unwrap(err); inner != nil {
			forbidden(inner, kinds)
		}
	}
}

// missing is an error if the namespace of the flags does not exist, nil if the user may not read it.
func (c *cli) missing() error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	_, err = all(resource.NewBuilder(c.flags).Unstructured().ResourceTypeOrNameArgs(false, "namespaces.v1.",
		namespace).Flatten().Do())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q", namespace)
	}
	return nil
}
