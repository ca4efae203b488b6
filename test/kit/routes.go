package kit

import (
	_ "embed"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed httproutes.yaml
var httpRoutes string

// ServeHTTPRoutes has the API server serve Gateway API's HTTPRoute, without a controller, also to other tests.
func (s *Env) ServeHTTPRoutes() {
	s.Helper()
	crd := s.Intent(httpRoutes)
	crd.SetNamespace("")
	s.Must(s.Client.Apply(s.Ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("gateway-api")),
		"applying the CustomResourceDefinition of HTTPRoutes")
	const served = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: served}, spec: {}}"
	_, err := s.ApplyErr("kit", served)
	for end := time.Now().Add(s.Patience); err != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, err = s.ApplyErr("kit", served)
	}
	s.Must(err, "waiting until HTTPRoutes are served")
}
