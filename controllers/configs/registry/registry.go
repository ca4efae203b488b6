// Package registry lists the kinds of shared configurations. It is pure.
package registry

import (
	"reflect"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/group"
	"github.com/freehold-dev/freehold/controllers/configs/oidc"
)

var all = []frame.Kind{
	oidc.Kind{},
	authz.Kind{},
	group.Kind{},
}

// All are the kinds.
func All() []frame.Kind { return all }

// Named is the kind of this name, nil if there is none.
func Named(kind string) frame.Kind {
	for _, k := range all {
		if k.Row().Object.Kind == kind {
			return k
		}
	}
	return nil
}

// Content is the kind of this name, nil if there is none, or it contributes nothing to what workloads run.
func Content(kind string) frame.Content {
	content, _ := Named(kind).(frame.Content)
	return content
}

type referring interface{ ConfigRefs() []v1alpha1.ConfigRef }

// Bind is the content to which a workload refers, each with what was found of it. It leaves out kinds that there are
// not.
func Bind(workload referring, found frame.Set) frame.Set {
	var set frame.Set
	for _, ref := range workload.ConfigRefs() {
		bound := frame.Bound{ConfigRef: ref, Rules: Content(ref.Kind)}
		if bound.Rules == nil {
			continue
		}
		if i := slices.IndexFunc(found, func(b frame.Bound) bool { return b.Kind == ref.Kind }); i >= 0 {
			bound.Object, bound.Verdict = found[i].Object, found[i].Verdict
		}
		set = append(set, bound)
	}
	return set
}

// Guards reports whether a workload refers to a configuration by which the proxy refuses calls.
func Guards(workload referring) bool {
	return slices.ContainsFunc(Bind(workload, nil), func(b frame.Bound) bool { return b.Rules.AccessCheck() != "" })
}

// AccessChecks names the access checks that a proxy makes, whoever states what they go by, sorted.
func AccessChecks(proxy runconfig.Proxy) (names []string) {
	for _, k := range all {
		content, is := k.(frame.Content)
		if is && content.AccessCheck() != "" && content.Before(&proxy) != nil {
			names = append(names, content.AccessCheck())
		}
	}
	slices.Sort(names)
	return names
}

// NotEnforced are the fields of a workload that refer to kinds that there are not.
func NotEnforced(workload referring) (fields []string) {
	for _, ref := range workload.ConfigRefs() {
		if Named(ref.Kind) == nil {
			fields = append(fields, "spec."+ref.Field)
		}
	}
	return fields
}

// Read is what whole configurations say that are content.
func Read(configs ...frame.Object) (set frame.Set) {
	for _, config := range configs {
		for _, k := range all {
			content, is := k.(frame.Content)
			if is && reflect.TypeOf(config) == reflect.TypeOf(k.New()) {
				ref := v1alpha1.ConfigRef{Kind: k.Row().Object.Kind, Name: config.GetName()}
				set = append(set, frame.Bound{ConfigRef: ref, Rules: content, Object: config, Verdict: k.Check(config)})
			}
		}
	}
	return set
}
