// Package frame is what all kinds of shared configurations have in common. Kind is what
// tells one from the others, Content one that contributes to run configs, Set what a workload
// refers to of those. It is pure.
package frame

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Object is a configuration.
type Object interface {
	metav1.Object
	runtime.Object
	v1alpha1.SharedConfig
}

// Kind is a kind of configuration: all that the frame asks of it.
type Kind interface {
	// Row has its managers, finalizer and conditions.
	Row() contract.Config
	// New is an empty object.
	New() Object
	// Intent states the status of an object, to which these workloads refer.
	Intent(name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration,
		referrers []kinds.Object) runtime.ApplyConfiguration
	// Check is what an object says, whoever refers to it. It may take long: a store asks once for each spec.
	Check(Object) Verdict
}

// Content is a kind of which an object is part of the content of all workloads that refer to it.
type Content interface {
	Kind
	// AccessCheck names the check that a proxy makes of calls by a configuration of the kind, empty for a kind by which
	// no call is refused. A proxy whose pods do not carry that name stops once the check is asked for.
	AccessCheck() string
	// Guard states that the proxy holds calls against an object of the kind, and what the
	// workload itself says in its reference. No call passes.
	Guard(*runconfig.Proxy, Referrer)
	// Before is what an object contributed to the run config of a proxy, nil where neither that nor Guard is in it.
	Before(*runconfig.Proxy) Contribution
}

// Referrer is a workload that refers to a configuration.
type Referrer struct {
	Spec *v1alpha1.ProxyWorkloadSpec
	// URL is where clients in the cluster call it.
	URL string
}

// Contribution is what a configuration contributes to the run configs of all that refer to it.
type Contribution interface {
	// Hash names it.
	Hash() string
	// AddTo states it, and what the workload itself says in its reference. The problems are those of that.
	AddTo(*runconfig.Proxy, Referrer) []Problem
}

// Problem is what is wrong with a field of a workload.
type Problem struct{ Field, Message string }

// Verdict is what was found about a spec.
type Verdict struct {
	// Err is why nothing can be enforced by it, nil if it can.
	Err error
	// Hash names what it contributes, empty with Err.
	Hash string
	// Unmatched are its statements that match no call.
	Unmatched []string
	// Policies is how many it has, nil for a kind that has none.
	Policies *int32
	// Contribution is nil with Err, and where a store does not keep it.
	Contribution Contribution
}

// Contributes is the verdict about a spec that contributes something.
func Contributes(c Contribution) Verdict { return Verdict{Hash: c.Hash(), Contribution: c} }

// HashOf names a part of a run config.
func HashOf(part any) string {
	data, err := json.Marshal(part)
	if err != nil {
		return "" // as no plain data is
	}
	return runconfig.HashOf(data)
}

// As is an object of a kind in its own type. Another one is a defect of the program.
func As[T Object](object Object) T {
	typed, ok := object.(T)
	if !ok {
		panic(fmt.Sprintf("a %T is taken for a %T", object, typed))
	}
	return typed
}
