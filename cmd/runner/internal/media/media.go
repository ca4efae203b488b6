// Package media is what headers say about the content of an HTTP message
// (https://www.rfc-editor.org/rfc/rfc9110#section-8), read as lenient clients do. Type and Encoded are of a content
// that is there, Accepts and Unencoded of one that is asked for, and Redirects and Leads of one that is elsewhere.
package media

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The media types of MCP over HTTP.
const (
	JSON   = "application/json"
	Events = "text/event-stream"
)

// Type is the media type of a content in lower case, empty where none is said. Parameters say nothing that a reader of
// JSON or of events needs, both of which are UTF-8, and so none of them is wrong.
func Type(header http.Header) string {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return lower(kind)
}

// Encoded reports whether a content is compressed, or encoded in another way. The coding identity says that it is not;
// none is what some servers write for it.
func Encoded(header http.Header) bool {
	for _, value := range header["Content-Encoding"] {
		for coding := range strings.SplitSeq(value, ",") {
			if !slices.Contains([]string{"", "identity", "none"}, lower(coding)) {
				return true
			}
		}
	}
	return false
}

// Unencoded asks for an answer that is not encoded. Without the header any coding would do (RFC 9110, section 12.5.3).
func Unencoded(header http.Header) { header["Accept-Encoding"] = []string{"identity"} }

// Accepts reports whether the values of Accept take a media type, and whether one of them names it: with wildcards
// alone they are of browsers and probes. No value at all takes everything (RFC 9110, section 12.5.1).
func Accepts(accept []string, kind string) (takes, named bool) {
	all, empty := strings.Join(accept, ","), true
	class, _, _ := strings.Cut(kind, "/")
	for one := range strings.SplitSeq(all, ",") {
		name, parameters, _ := strings.Cut(one, ";")
		name = lower(name)
		empty = empty && name == ""
		if refused(parameters) {
			continue
		}
		named = named || name == kind
		takes = takes || name == kind || name == class+"/*" || name == "*/*"
	}
	return takes || empty, named
}

// refused reports whether parameters have the weight 0, with which a client takes no such content.
func refused(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64); lower(name) == "q" && err == nil && weight == 0 {
			return true
		}
	}
	return false
}

// Redirects reports whether an answer leads a client to another place, and returns that as words, without the host
// where that is the one that was asked.
func Redirects(response *http.Response) (to string, redirects bool) {
	code := response.StatusCode
	if code < http.StatusMultipleChoices || code >= http.StatusBadRequest || code == http.StatusNotModified {
		return "", false
	}
	u, err := url.Parse(response.Header.Get("Location"))
	if err != nil || u.Path == "" {
		return "elsewhere", true
	}
	if asked := response.Request; asked != nil && isOf(asked, u.Host) {
		u.Scheme, u.Host = "", ""
	}
	return fmt.Sprintf("to %.200s", (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()), true
}

// Leads is the path of the same server at which an answer wants the request once more as it is (RFC 9110, sections
// 15.4.8 and 15.4.9). It is empty for any other answer, and where more than the path would differ.
func Leads(response *http.Response) string {
	if code := response.StatusCode; code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return ""
	}
	asked := response.Request
	to, err := asked.URL.Parse(response.Header.Get("Location"))
	switch {
	case err != nil, !isOf(asked, to.Host), to.RawQuery != asked.URL.RawQuery:
		return ""
	case !strings.HasPrefix(to.Path, "/"), to.EscapedPath() != to.Path, to.Path == asked.URL.Path:
		return ""
	}
	return to.Path
}

// isOf reports whether a host is that of a request, as its server may know it.
func isOf(asked *http.Request, host string) bool {
	return host == asked.Host || host == asked.URL.Host || host == asked.Header.Get("X-Forwarded-Host")
}

// Text is JSON without the byte order mark that some servers begin it with (RFC 8259, section 8.1), and without space
// around it.
func Text(body []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) }

func lower(text string) string { return strings.ToLower(strings.TrimSpace(text)) }
