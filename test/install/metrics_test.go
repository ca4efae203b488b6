package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// certificateSecret is what the chart is told.
const certificateSecret = "metrics-certificate"

// Prometheus reads metrics as the chart's ServiceMonitor says: over TLS that it verifies by
// the given certificate, with a token that may. The certificate is renewed on the way.
func TestMetricsAreServedWithAGivenCertificate(t *testing.T) {
	s := kit.NewEnv(t, plane)
	install(s)
	port := freePort(s)
	file := filepath.Join(s.TempDir(), "metrics.yaml")
	s.Must(renderTo(file, "bin/tools/helm", "template", "freehold", "config/chart", "--namespace="+kit.SystemNamespace,
		"--show-only=templates/deployment.yaml", "--show-only=templates/metrics.yaml",
		"--show-only=templates/networkpolicy.yaml",
		"--set=metrics.port="+strconv.Itoa(port)+",metrics.secure=true,metrics.certificateSecret="+certificateSecret,
		"--set=metrics.readers[0].name=prometheus,metrics.readers[0].namespace="+s.Namespace,
		"--set=metrics.serviceMonitor.enabled=true,networkPolicy.enabled=true"), "rendering the chart")
	m := &monitored{Env: s, port: port, objects: objects(s, file)}
	find(s, m.objects, "ServiceMonitor", &m.monitor)
	find(s, m.objects, "Deployment", &m.deployment)
	m.applied()
	m.leadsToThePort()
	m.admitsThePort()

	signs, dir := newAuthority(s), s.TempDir()
	m.renew(dir, signs.secret(101, m.endpoint().TLSConfig.ServerName))
	end := operate(s, file, "--metrics-cert-dir="+dir)
	m.mayRead()
	m.answers("", http.StatusUnauthorized)
	m.answers("nonsense", http.StatusUnauthorized)
	m.answers(m.token("stranger"), http.StatusForbidden)
	m.serves(101)
	m.renew(dir, signs.secret(102, m.endpoint().TLSConfig.ServerName))
	m.serves(102)
	end()
}

// monitored is an operator with metrics.
type monitored struct {
	*kit.Env
	port       int
	objects    []*unstructured.Unstructured
	monitor    serviceMonitor
	deployment appsv1.Deployment
}

// serviceMonitor is what the Prometheus Operator reads of a ServiceMonitor here
// (https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.ServiceMonitor).
type serviceMonitor struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []endpoint           `json:"endpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port            string `json:"port"`
	Path            string `json:"path"`
	Scheme          string `json:"scheme"`
	BearerTokenFile string `json:"bearerTokenFile"`
	TLSConfig       struct {
		InsecureSkipVerify bool   `json:"insecureSkipVerify"`
		ServerName         string `json:"serverName"`
		CA                 struct {
			Secret corev1.SecretKeySelector `json:"secret"`
		} `json:"ca"`
	} `json:"tlsConfig"`
}

func (m *monitored) endpoint() endpoint {
	m.Helper()
	if len(m.monitor.Spec.Endpoints) != 1 {
		m.Fatalf("the ServiceMonitor has %d endpoints", len(m.monitor.Spec.Endpoints))
	}
	return m.monitor.Spec.Endpoints[0]
}

// applied applies the rendering, without the ServiceMonitor, whose kind this API server
// does not have, and makes the accounts that read.
func (m *monitored) applied() {
	m.Helper()
	for _, object := range m.objects {
		if object.GetKind() == "ServiceMonitor" {
			continue
		}
		ac := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		m.Must(m.Client.Apply(m.Ctx, ac, client.FieldOwner("kubectl"), client.ForceOwnership), "applying "+object.GetKind())
		if object.GetKind() != "Deployment" {
			// The context of the test has ended by then.
			m.Cleanup(func() { _ = m.Client.Delete(context.Background(), object) })
		}
	}
	for _, name := range []string{"prometheus", "stranger"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: m.Namespace}}
		m.Must(m.Client.Create(m.Ctx, account), "making the account "+name)
	}
}

// leadsToThePort follows the ServiceMonitor as Prometheus does: by labels to one Service, by a
// name to its port, by a name to the container's, which is the one that the operator serves.
func (m *monitored) leadsToThePort() {
	m.Helper()
	var services corev1.ServiceList
	selector, err := metav1.LabelSelectorAsSelector(&m.monitor.Spec.Selector)
	m.Must(err, "reading the selector")
	m.Must(m.Client.List(m.Ctx, &services, client.InNamespace(m.monitor.Metadata.Namespace),
		client.MatchingLabelsSelector{Selector: selector}), "reading Services")
	if len(services.Items) != 1 {
		m.Fatalf("the ServiceMonitor selects %d Services", len(services.Items))
	}
	service := services.Items[0]
	if want := service.Name + "." + service.Namespace + ".svc"; m.endpoint().TLSConfig.ServerName != want {
		m.Errorf("the ServiceMonitor expects the name %s, and calls %s", m.endpoint().TLSConfig.ServerName, want)
	}
	pods := m.deployment.Spec.Template
	for key, value := range service.Spec.Selector {
		if pods.Labels[key] != value {
			m.Errorf("the Service selects %s=%s, which the operator's pods do not have", key, value)
		}
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == m.endpoint().Port })
	if at < 0 || m.containerPort(service.Spec.Ports[at].TargetPort.String()) != m.port {
		m.Errorf("the ServiceMonitor asks for the port %s, which does not lead to %d: %v", m.endpoint().Port, m.port,
			service.Spec.Ports)
	}
}

// admitsThePort holds the NetworkPolicy to the operator's pods and their port.
func (m *monitored) admitsThePort() {
	m.Helper()
	policy := find(m.Env, m.objects, "NetworkPolicy", &networkingv1.NetworkPolicy{})
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	m.Must(err, "reading the policy's selector")
	if !selector.Matches(labels.Set(m.deployment.Spec.Template.Labels)) {
		m.Errorf("the NetworkPolicy does not select the operator's pods: %s", selector)
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port != nil && m.containerPort(p.Port.String()) == m.port && len(rule.From) == 0 {
				return
			}
		}
	}
	m.Errorf("the NetworkPolicy does not admit metrics: %v", policy.Spec.Ingress)
}

// containerPort is the number of a port of the operator's container that has a name.
func (m *monitored) containerPort(name string) int {
	for _, p := range m.deployment.Spec.Template.Spec.Containers[0].Ports {
		if p.Name == name {
			return int(p.ContainerPort)
		}
	}
	return 0
}

// renew writes the Secret, and brings it to where the Deployment mounts it.
func (m *monitored) renew(dir string, data map[string][]byte) {
	m.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificateSecret, Namespace: kit.SystemNamespace}}
	m.Must(client.IgnoreNotFound(m.Client.Delete(m.Ctx, secret)), "replacing the certificate")
	secret.Type, secret.Data = corev1.SecretTypeTLS, data
	m.Must(m.Client.Create(m.Ctx, secret), "writing the certificate")
	pod := m.deployment.Spec.Template.Spec
	volume := slices.IndexFunc(pod.Volumes,
		func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == certificateSecret })
	if volume < 0 {
		m.Fatal("the Deployment has no volume of the certificate")
	}
	mounted := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(v corev1.VolumeMount) bool {
		return v.Name == pod.Volumes[volume].Name &&
			slices.Contains(pod.Containers[0].Args, "--metrics-cert-dir="+v.MountPath)
	})
	if mounted < 0 {
		m.Fatal("the certificate is not mounted where the operator looks for it")
	}
	mount(m.Env, dir, data)
}

// token is that of an account of the test's namespace.
func (m *monitored) token(account string) string {
	m.Helper()
	config, err := plane.ConfigOf(m.Ctx, m.Namespace, account)
	m.Must(err, "asking for a token")
	return config.BearerToken
}

// scrape reads metrics as the endpoint says. It returns the serial number of the certificate too.
func (m *monitored) scrape(token string) (status int, body string, serial int64, err error) {
	m.Helper()
	e := m.endpoint()
	var ca corev1.Secret
	m.Must(m.Client.Get(m.Ctx, client.ObjectKey{Namespace: m.monitor.Metadata.Namespace, Name: e.TLSConfig.CA.Secret.Name},
		&ca), "reading the ServiceMonitor's ca")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.Data[e.TLSConfig.CA.Secret.Key]) || e.TLSConfig.InsecureSkipVerify ||
		e.Scheme != "https" {
		m.Fatalf("the ServiceMonitor verifies nothing: %+v", e)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: e.TLSConfig.ServerName, MinVersion: tls.VersionTLS12},
		// The operator runs here, and not at the Service's address.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port)))
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(m.Ctx, http.MethodGet, e.Scheme+"://"+e.TLSConfig.ServerName+e.Path,
		http.NoBody)
	m.Must(err, "asking for metrics")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return 0, "", 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), response.TLS.PeerCertificates[0].SerialNumber.Int64(), err
}

// mayRead waits until the account that the chart names reads metrics: the operator
// starts, and the API server learns of the role.
func (m *monitored) mayRead() {
	m.Helper()
	if m.endpoint().BearerTokenFile == "" {
		m.Error("the ServiceMonitor sends no token")
	}
	m.eventually("metrics are read with the token of the account in metrics.readers", func() error {
		status, body, _, err := m.scrape(m.token("prometheus"))
		if err == nil && (status != http.StatusOK || !strings.Contains(body, "\nfreehold_")) {
			err = fmt.Errorf("the answer is %d, %.200q", status, body)
		}
		return err
	})
}

// answers holds that a token gets a status, and none of the metrics unless it may.
func (m *monitored) answers(token string, want int) {
	m.Helper()
	status, body, _, err := m.scrape(token)
	m.Must(err, "asking for metrics")
	if status != want || strings.Contains(body, "freehold_") {
		m.Errorf("the answer is %d and %.200q, want %d", status, body, want)
	}
}

// serves waits until the operator answers with a certificate. Whoever asks meanwhile is answered with the one before.
func (m *monitored) serves(want int64) {
	m.Helper()
	token := m.token("prometheus")
	m.eventually(fmt.Sprintf("the certificate %d is served", want), func() error {
		status, _, serial, err := m.scrape(token)
		m.Must(err, "asking for metrics while the certificate is renewed")
		if status != http.StatusOK {
			m.Fatalf("the answer is %d while the certificate is renewed", status)
		}
		if serial != want {
			return fmt.Errorf("the certificate is %d", serial)
		}
		return nil
	})
}

func (m *monitored) eventually(what string, ask func() error) {
	m.Helper()
	for end := time.Now().Add(m.Patience); ; time.Sleep(100 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			m.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// freePort is one that nobody listens at, below those that Linux gives to connections
// (https://docs.kernel.org/networking/ip-sysctl.html, ip_local_port_range).
func freePort(s *kit.Env) int {
	s.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000) //nolint:gosec // any will do
		if listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			s.Must(listener.Close(), "finding a port")
			return port
		}
	}
	s.Fatal("no port is free")
	return 0
}
