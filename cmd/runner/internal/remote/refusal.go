package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
)

// Why a call does not get to the server though that may be up: reasons of conditions,
// and the first word of what callers read.
const (
	AddressNotAllowed  = v1alpha1.ReasonAddressNotAllowed
	NotTrusted         = v1alpha1.ReasonNotTrusted
	CredentialsRefused = v1alpha1.ReasonCredentialsRefused
	NotMCP             = v1alpha1.ReasonNotMCP
)

// Refusal is the error of a call that a retry does not cure.
type Refusal struct {
	// Reason is one of the constants.
	Reason string
	// Message says what is wrong, and what to write instead. It holds nothing that
	// differs from one call to the next.
	Message string
}

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// Because is the reason with its words, for who passes the error on to another process.
func (r *Refusal) Because() (reason, detail string) { return r.Reason, r.Message }

func refusedCredentials(status int) error {
	return &Refusal{
		CredentialsRefused,
		fmt.Sprintf("the server at spec.url refuses the credentials that the proxy presents (HTTP %d): correct spec.headers",
			status),
	}
}

// Redirected is the refusal of an answer that leads elsewhere, nil for any other one. who has given it, and cure is
// what to write instead.
func Redirected(response *http.Response, who, cure string) error {
	to, redirects := media.Redirects(response)
	if !redirects {
		return nil
	}
	return &Refusal{NotMCP, fmt.Sprintf("%s redirects %s (HTTP %d), which is not followed: %s", who, to,
		response.StatusCode, cure)}
}

// untrusted words why a TLS handshake failed, if that is not for the network.
func (s *Server) untrusted(err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	var alert tls.AlertError
	var says string
	switch {
	case errors.As(err, &authority):
		says = "was issued by nobody whom the proxy trusts: name who issued it in spec.caBundleRef"
	case errors.As(err, &host):
		says = "is not for the host of spec.url: write a name that the certificate has"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		says = "has expired, or is not valid yet: renew it"
	case errors.As(err, &invalid):
		says = "is not valid: renew it"
	case errors.As(err, &plain):
		return &Refusal{NotTrusted, "the server at spec.url does not speak TLS at this port: write another port, or " +
			"http:// with allowHTTP"}
	case errors.As(err, &alert):
		return &Refusal{NotTrusted, fmt.Sprintf("the server at spec.url refuses the TLS connection (%s)", alert)}
	default:
		return err
	}
	return &Refusal{NotTrusted, "the certificate of the server at spec.url " + says}
}
