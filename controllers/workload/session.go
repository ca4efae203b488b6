package workload

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// SessionSecret holds the first key of an owner's session ids. It is made and never
// written again: who rotates the keys owns them (docs/how-to/sessions.md).
func SessionSecret(owner Owner, key string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(SessionName(owner.Key()), owner.Namespace).
		WithLabels(Labels(owner.Key(), ComponentRunner)).
		WithOwnerReferences(owner.reference()).
		WithData(map[string][]byte{runconfig.SessionKey: []byte(key)})
}
