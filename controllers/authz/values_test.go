package authz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"
)

func TestRequest_ConvertsTheArgumentsThatPoliciesRead(t *testing.T) {
	const arguments = `{"path":"/a","other":[1,2],"more":{"x":1},"odd":1e300}`
	for text, want := range map[string]string{
		`permit(principal, action, resource);`:                                      "",
		`permit(principal, action, resource) when { resource.arg_path like "/*" };`: "arg_path",
		`permit(principal, action, resource) when { resource has arg_other && context.arg_path == "/" };`: "arg_other " +
			"arg_path",
		`permit(principal, action, resource == Tool::"b") when { resource.arg_path == "" };`: "",
		`permit(principal, action, resource) when { context has arg_more };`:                 "arg_more",
	} {
		policies, err := Parse([]Source{{"p", text}}, "")
		if err != nil {
			t.Fatal(err)
		}
		_, entities, err := policies.request(user, tool("a", arguments))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, name := range []string{"arg_more", "arg_odd", "arg_other", "arg_path"} {
			if _, made := entities.(*world).arguments[types.String(name)]; made {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\nmakes %v of the arguments: want %s", text, got, want)
		}
	}
}

// A policy may compare the context as a whole.
func TestRequest_ConvertsAllArgumentsForAPolicyOfTheWholeContext(t *testing.T) {
	policies, err := Parse([]Source{{
		"p",
		`permit(principal, action, resource) when { context == {arg_a: 1, arg_b: [2]} };`,
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	anybody := Caller{Subject: "ann"}
	if !policies.Decide(anybody, tool("a", `{"a":1,"b":[2]}`)).Allowed ||
		policies.Decide(anybody, tool("a", `{"a":1,"b":[2],"c":3}`)).Allowed {
		t.Error("the context is not the arguments")
	}
}

// Cedar looks for an element among all before it whose hash is the same; pairs of one sum have one hash.
func TestDecide_BoundsTheComparisonsOfASet(t *testing.T) {
	pairs := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("[%d,%d]", i, 2*n-i))
		}
		return `{"a":[` + strings.Join(all, ",") + `]}`
	}
	numbers := func(n int) string { return `{"a":[` + strings.Repeat("0,", n-1) + `0]}` }
	policies, err := Parse([]Source{{"p", `permit(principal, action, resource) when { resource has arg_a };`}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for arguments, unclear := range map[string]string{
		pairs(300): "", pairs(4000): "more than 1000 values", numbers(maxElements): "",
		numbers(maxElements + 1):           "more than 4096 elements",
		`{"a":[{"b":` + pairs(400) + `}]}`: "more than 1000 values",
	} {
		got := policies.Decide(user, tool("a", arguments))
		if (unclear == "") != got.Allowed || !strings.Contains(got.Unclear, unclear) {
			t.Errorf("%.40s… of %d bytes: got %+v, want %q", arguments, len(arguments), got, unclear)
		}
	}
}

// What no policy reads takes nothing, whatever it is.
func TestRequest_WhatNoPolicyReadsTakesNoMemory(t *testing.T) {
	policies, err := Parse([]Source{{"p", `permit(principal, action, resource) when { resource.arg_path like "/*" };`}},
		"")
	if err != nil {
		t.Fatal(err)
	}
	few, many := `{"path":"/a","b":[0]}`, `{"path":"/a","b":[`+strings.Repeat("0,", 10_000)+`0]}`
	count := func(arguments string) float64 {
		call := tool("a", arguments)
		call.Arguments = jsontext.Value(arguments)
		return testing.AllocsPerRun(10, func() { _, _, _ = policies.request(user, call) })
	}
	if a, b := count(few), count(many); b > a+20 {
		t.Errorf("10,000 values that no policy reads take %v allocations, one %v", b, a)
	}
}
