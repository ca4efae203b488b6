package podtemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// releaseLimit bounds the overlay of a release in bytes: it is decoded and merged for each proxy, and is a flag of
// the operator.
const releaseLimit = 16 << 10

// releaseOverlay is the overlay of all proxies, below those of the specs. The same rules hold for both.
func releaseOverlay(raw []byte) overlay {
	o := proxyOverlay(&v1alpha1.ProxySpec{})
	o.field, o.raw, o.instead = "proxyDefaults.podTemplate", raw, map[string]string{"resources": "proxyDefaults.resources"}
	return o
}

// CheckRelease finds problems of a release's overlay independent of any spec: it is merged into a proxy that has
// every feature.
func CheckRelease(opts Release) []Problem {
	if len(opts.ProxyTemplate) > releaseLimit {
		return []Problem{{
			releaseOverlay(nil).field,
			fmt.Sprintf("is longer than %d bytes: keep what all proxies need, and put long texts into ConfigMaps",
				releaseLimit),
		}}
	}
	key := &runconfig.Key{Name: "a", Key: "a"}
	_, problems := Proxy(Names{ServiceAccount: "a", RunConfig: "a"}, &v1alpha1.ProxyWorkloadSpec{}, runconfig.RunConfig{
		Proxy: runconfig.Proxy{
			Port: runspec.ProxyPort(nil), SessionSecret: "a",
			Authentication: &runconfig.Authentication{CABundle: key},
		},
		Remote: &runconfig.Remote{Transport: string(v1alpha1.TransportSSE), CABundle: key},
	}, opts)
	return problems
}

// overlaid merges the overlays of the spec and the release into a proxy's template, or neither if there are problems;
// those of the release come first, since the author of a spec cannot correct them. containers allows the spec's
// overlay to add some.
func overlaid(
	template *corev1ac.PodTemplateSpecApplyConfiguration, spec *v1alpha1.ProxySpec, containers bool, ofRelease []byte,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	release, own := releaseOverlay(ofRelease), proxyOverlay(spec)
	merged, problems := own.over(release).complete(template)
	if !containers {
		problems = append(problems, own.ownContainers()...)
	}
	if len(problems) == 0 {
		return merged, nil
	}
	if _, theirs := release.complete(template); len(theirs) > 0 {
		problems = theirs
	}
	return template, problems
}

// complete merges, and finds what is missing then.
func (o overlay) complete(
	ours *corev1ac.PodTemplateSpecApplyConfiguration,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	merged, problems := o.merge(ours)
	if len(problems) == 0 {
		problems = incomplete(o.field, merged, runconfig.Backend{})
	}
	return merged, problems
}

// over is an overlay merged over the one below. If either is unreadable the result is that one, whose merge reports
// why.
func (o overlay) over(below overlay) overlay {
	if len(bytes.TrimSpace(o.raw)) == 0 {
		return below
	}
	if len(bytes.TrimSpace(below.raw)) == 0 {
		return o
	}
	lower, err := below.typed()
	if err != nil {
		return below
	}
	upper, err := o.typed()
	if err != nil {
		return o
	}
	if o.raw, err = laidOver(lower, upper); err != nil {
		o.raw = fmt.Appendf(nil, "%q", err.Error()) // cannot happen: both are pod templates. It is refused as none
	}
	return o
}

// typed converts an overlay to the API server's schema, which has no empty values; meaningful ones were found before.
func (o overlay) typed() (*typed.TypedValue, error) {
	template, problems := o.decode()
	if problems = append(problems, Check(o.field, template)...); len(problems) > 0 {
		return nil, Problems(problems)
	}
	walk("", reflect.ValueOf(template), normalise)
	fields, err := toFields(template)
	if err != nil {
		return nil, err
	}
	return toTyped(fields)
}

// wholes are fields that an overlay states as a whole, though the schema merges their content: two handlers side by
// side are refused.
var wholes = slices.Concat(closed, []string{"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"})

// laidOver merges two overlays field by field. A value that is one unit, such as each item of a list except a
// container, replaces the lower one in its place: a variable may refer to those before it.
func laidOver(lower, upper *typed.TypedValue) ([]byte, error) {
	below, err := lower.ToFieldSet()
	if err != nil {
		return nil, err
	}
	set, err := upper.ToFieldSet()
	if err != nil {
		return nil, err
	}
	replaced, items := fieldpath.NewSet(), statements{}
	set.Iterate(func(path fieldpath.Path) {
		for i := 2; i <= len(path); i++ {
			here, last := path[:i], path[i-1]
			switch {
			case last.Key != nil && !isContainer(here):
				items[here.String()] = true
				return
			case last.FieldName != nil && slices.Contains(wholes, *last.FieldName):
				replaced.Insert(here.Copy())
				return
			}
		}
	})
	below.Iterate(func(path fieldpath.Path) {
		for i := 2; i < len(path); i++ {
			if items[path[:i].String()] && !isKey(path[:i+1]) {
				replaced.Insert(path[:i+1].Copy())
			}
		}
	})
	joined, err := lower.RemoveItems(replaced).Merge(upper)
	if err != nil {
		return nil, err
	}
	root, _ := joined.AsValue().Unstructured().(map[string]any)
	return json.Marshal(root["template"])
}
