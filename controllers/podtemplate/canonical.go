package podtemplate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kjson "sigs.k8s.io/json"
)

// intent converts a pod template of core types to an apply configuration, as the server would store it and without
// empty values. It does not change the template.
func intent[T any](template *corev1.PodTemplateSpec) (*T, error) {
	fields, err := Canonical(template.DeepCopy())
	if err != nil {
		return nil, err
	}
	return fromFields[T](fields)
}

// Canonical returns the fields that an object of core types states, as the API server would store them and without
// empty values. It changes the object.
func Canonical(object any) (map[string]any, error) {
	walk("", reflect.ValueOf(object), normalise)
	return toFields(object)
}

// normalise fills in the server's defaults that an intent must state: inside atomic structs and lists, and in the
// keys of lists. Elsewhere a default is a field that we do not own, and no drift. See
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go.
func normalise(at spot) {
	switch v := at.value.Interface().(type) {
	case *corev1.ObjectFieldSelector:
		v.APIVersion = cmp.Or(v.APIVersion, "v1")
	case *corev1.FileKeySelector:
		v.Optional = cmp.Or(v.Optional, new(false))
	case *corev1.ServiceAccountTokenProjection:
		v.ExpirationSeconds = cmp.Or(v.ExpirationSeconds, new(int64(3600)))
	case *corev1.PodCertificateProjection:
		v.MaxExpirationSeconds = cmp.Or(v.MaxExpirationSeconds, new(int32(86400)))
	case corev1.ContainerPort:
		port := at.value.Addr().Interface().(*corev1.ContainerPort)
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	case corev1.ResourceList:
		at.value.Set(reflect.ValueOf(milli(v)))
	}
}

// milli rounds quantities up to thousandths, as the server does.
func milli(list corev1.ResourceList) corev1.ResourceList {
	rounded := make(corev1.ResourceList, len(list))
	for name, quantity := range list {
		quantity = quantity.DeepCopy()
		quantity.RoundUp(resource.Milli)
		rounded[name] = quantity
	}
	return rounded
}

// resources is nil if both lists are empty.
func resources(limits, requests corev1.ResourceList) *corev1ac.ResourceRequirementsApplyConfiguration {
	out := corev1ac.ResourceRequirements()
	if len(limits) > 0 {
		out.WithLimits(milli(limits))
	}
	if len(requests) > 0 {
		out.WithRequests(milli(requests))
	}
	return out
}

// toFields are the JSON fields of a value, without nulls and empty maps and lists. Empty strings stay: they matter in
// maps and lists, and the core types omit them elsewhere.
func toFields(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod template: %w", err)
	}
	fields := map[string]any{}
	// Integers must stay integers: the merge compares them by type.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		return nil, fmt.Errorf("decoding a pod template: %w", err)
	}
	prune(fields)
	return fields, nil
}

func fromFields[T any](fields map[string]any) (*T, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod template: %w", err)
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decoding a pod template: %w", err)
	}
	return out, nil
}

// prune removes empty values from the leaves up, and reports whether nothing is left. Items of lists stay, because
// their position matters.
func prune(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, child any) bool { return prune(child) })
		return len(v) == 0
	case []any:
		for _, child := range v {
			prune(child)
		}
		return len(v) == 0
	default:
		return false
	}
}

// Claims are the templates of a StatefulSet's claims as the API server stores them. The list is one value to
// server-side apply, so each default that an intent omits is a difference:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go. apiVersion and kind are omitted
// all the same: protobuf, in which typed clients read, has none for an item.
func Claims(
	templates []corev1.PersistentVolumeClaimTemplate,
) ([]*corev1ac.PersistentVolumeClaimApplyConfiguration, error) {
	var claims []*corev1ac.PersistentVolumeClaimApplyConfiguration
	for _, t := range templates {
		fields, err := Canonical(t.DeepCopy())
		if err != nil {
			return nil, err
		}
		claim, err := fromFields[corev1ac.PersistentVolumeClaimApplyConfiguration](fields)
		if err != nil {
			return nil, err
		}
		if claim.Spec == nil {
			claim.Spec = corev1ac.PersistentVolumeClaimSpec()
		}
		if claim.Spec.VolumeMode == nil {
			claim.Spec.WithVolumeMode(corev1.PersistentVolumeFilesystem)
		}
		claims = append(claims, claim.WithStatus(corev1ac.PersistentVolumeClaimStatus().WithPhase(corev1.ClaimPending)))
	}
	return claims, nil
}
