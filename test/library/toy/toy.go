// Package toy is a kind of shared configuration that we do not have: its types, and all that the
// frame of controllers/configs asks of a kind. A list of origins stands for what a kind enforces.
package toy

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// MCPToolConfig is a configuration to which spec.toolConfigRef of a server refers.
type MCPToolConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Origins []string `json:"origins"`
	} `json:"spec"`
	Status v1alpha1.ConfigStatus `json:"status,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (c *MCPToolConfig) DeepCopyObject() runtime.Object {
	out := *c
	c.DeepCopyInto(&out.ObjectMeta)
	c.Status.DeepCopyInto(&out.Status)
	out.Spec.Origins = slices.Clone(c.Spec.Origins)
	return &out
}

// GetConfigSpec is the spec.
func (c *MCPToolConfig) GetConfigSpec() any { return &c.Spec }

// GetConfigStatus is the status.
func (c *MCPToolConfig) GetConfigStatus() *v1alpha1.ConfigStatus { return &c.Status }

// Saying is one with these origins.
func Saying(origins ...string) *MCPToolConfig {
	c := &MCPToolConfig{}
	c.Namespace, c.Name, c.Spec.Origins = "team", "few", origins
	return c
}

// Kind is MCPToolConfig.
type Kind struct{}

// Row has its managers.
func (Kind) Row() contract.Config {
	row := contract.ConfigOf("MCPOIDCConfig")
	row.Object = ownership.Object{GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("MCPToolConfig")}
	return row
}

// New is an empty one.
func (Kind) New() frame.Object { return &MCPToolConfig{} }

// Intent states a status.
func (Kind) Intent(
	name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration, _ []kinds.Object,
) runtime.ApplyConfiguration {
	return v1alpha1ac.MCPOIDCConfig(name, namespace).WithKind("MCPToolConfig").WithStatus(status)
}

// Check wants an origin.
func (Kind) Check(object frame.Object) frame.Verdict {
	spec := frame.As[*MCPToolConfig](object).Spec
	if len(spec.Origins) == 0 {
		return frame.Verdict{Err: errors.New("spec.origins is empty: write one")}
	}
	return frame.Contributes(origins(slices.Sorted(slices.Values(spec.Origins))))
}

// Guard lets no origin in.
func (Kind) Guard(proxy *runconfig.Proxy, _ frame.Referrer) { proxy.AllowedOrigins = []string{"none"} }

// AccessCheck is by origins.
func (Kind) AccessCheck() string { return "origins" }

// Before are the origins of a run config.
func (Kind) Before(ran *runconfig.Proxy) frame.Contribution {
	if len(ran.AllowedOrigins) == 0 {
		return nil
	}
	return origins(ran.AllowedOrigins)
}

type origins []string

// Hash names them.
func (o origins) Hash() string { return frame.HashOf(o) }

// AddTo states them.
func (o origins) AddTo(proxy *runconfig.Proxy, _ frame.Referrer) []frame.Problem {
	proxy.AllowedOrigins = o
	return nil
}
