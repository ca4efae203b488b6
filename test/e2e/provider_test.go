package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/conformance"
)

// provider is an OpenID provider of others that runs in the cluster
// (https://www.npmjs.com/package/oidc-provider), with a CA of its own.
type provider struct {
	issuer string
	client *http.Client
	caFile string
}

const providerManifests = `
apiVersion: v1
kind: ConfigMap
metadata: {name: provider-ca}
data: {ca.crt: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: provider-tls}
type: kubernetes.io/tls
stringData: {tls.crt: %q, tls.key: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: provider-client}
stringData: {secret: of the proxies}
---
apiVersion: v1
kind: Service
metadata: {name: provider}
spec: {selector: {app: provider}, ports: [{port: 8443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: provider}
spec:
  selector: {matchLabels: {app: provider}}
  template:
    metadata: {labels: {app: provider}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      volumes: [{name: tls, secret: {secretName: provider-tls}}]
      containers:
      - name: provider
        image: %s
        command: [/node, /provider.mjs]
        env:
        - {name: ISSUER, value: %q}
        - {name: TLS, value: /tls}
        - {name: OPAQUE, value: %q}
        volumeMounts: [{name: tls, mountPath: /tls}]
        readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`

// private hides what it is: the Go SDK lets an http.Transport reach no provider with a private address, which all are
// here.
type private struct{ http.RoundTripper }

// gateway is the way to the server's proxy from outside the cluster, with TLS.
func (s story) gateway() *httptest.Server {
	GinkgoHelper()
	to, err := url.Parse("http://" + workload.ProxyName(s.name) + "." + s.namespace + ".svc:8000")
	Expect(err).NotTo(HaveOccurred())
	gateway := httptest.NewTLSServer(conformance.NewFront(to, ""))
	DeferCleanup(gateway.Close)
	return gateway
}

// newProvider starts one in the story's namespace, whose tokens for one resource are opaque. Its CA is in the ConfigMap
// provider-ca; its clients trust others too.
func newProvider(ctx context.Context, s story, opaque string, others ...*x509.Certificate) provider {
	GinkgoHelper()
	host := "provider." + s.namespace + ".svc"
	certificate, key := selfSigned(host)
	p := provider{issuer: "https://" + host + ":8443", caFile: filepath.Join(GinkgoT().TempDir(), "ca.crt")}
	trusted := certificate
	for _, other := range others {
		trusted = append(slices.Clip(trusted), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Raw})...)
	}
	Expect(os.WriteFile(p.caFile, trusted, 0o600)).To(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(trusted)).To(BeTrue())
	p.client = &http.Client{
		Transport: private{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		Timeout:   30 * time.Second,
	}

	s.applyAll(ctx, fmt.Sprintf(providerManifests, certificate, certificate, key, "freehold.dev/provider:"+version(),
		p.issuer, opaque))
	Eventually(ctx, func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(cluster.Get(ctx, s.key("provider"), deployment)).To(Succeed())
		g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(1))
	}).Should(Succeed())
	reachable(ctx, p.issuer)
	return p
}

// selfSigned is a certificate of a host, its own CA, and its key.
func selfSigned(host string) (certificate, key []byte) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func (s story) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

// applyAll applies objects in the story's namespace, as Git does.
func (s story) applyAll(ctx context.Context, manifests string) {
	GinkgoHelper()
	s.applyAs(ctx, "git", manifests)
}

func (s story) applyAs(ctx context.Context, manager, manifests string) {
	GinkgoHelper()
	for manifest := range strings.SplitSeq(manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(manifest), &u.Object)).To(Succeed())
		u.SetNamespace(s.namespace)
		Expect(cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager),
			client.ForceOwnership)).To(Succeed())
	}
}

// owner are the field managers that own a field of the server's spec, as managedFields spell it.
func (s story) owner(ctx context.Context, field string) []string {
	GinkgoHelper()
	var managers []string
	for _, entry := range s.server(ctx).ManagedFields {
		if entry.Subresource == "" && entry.FieldsV1 != nil &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"`+field+`"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// configStatus is the status of a configuration.
func configStatus(config client.Object) v1alpha1.ConfigStatus {
	switch c := config.(type) {
	case *v1alpha1.MCPOIDCConfig:
		return c.Status
	case *v1alpha1.MCPAuthzConfig:
		return c.Status
	}
	return v1alpha1.ConfigStatus{}
}
