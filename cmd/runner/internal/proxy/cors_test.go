package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "https://app.example.com"

// ofCORS are the headers by which a browser decides what a page may read.
func ofCORS(header http.Header) string {
	var all []string
	for _, name := range []string{
		"Access-Control-Allow-Origin", "Access-Control-Allow-Methods",
		"Access-Control-Allow-Headers", "Access-Control-Expose-Headers", "Access-Control-Allow-Credentials", "Vary",
	} {
		for _, value := range header.Values(name) {
			all = append(all, strings.TrimPrefix(name, "Access-Control-")+": "+value)
		}
	}
	return strings.Join(all, "; ")
}

// A page whose origin is allowed reads the session's id, and where to log in. The backend has no say.
func TestAPageReadsWhatItsOriginMay(t *testing.T) {
	reached := 0
	loginWanted := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	b := serve(t, Config{AllowedOrigins: []string{page}, Authenticate: loginWanted},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached++
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.Header().Set("Vary", "Accept")
			if r.Method == http.MethodGet {
				events(w)("data: {}\n\n")
				return
			}
			_, _ = io.WriteString(w, "{}")
		}))
	const read = "Allow-Origin: " + page + "; Expose-Headers: Mcp-Session-Id, WWW-Authenticate, Retry-After; Vary: Origin"
	for name, tc := range map[string]struct {
		method, path string
		headers      []string
		status       int
		want         string
	}{
		"a preflight": {
			http.MethodOptions, "/mcp",
			[]string{
				"Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
				"authorization,mcp-param-a",
			},
			204, "Allow-Origin: " + page +
				"; Allow-Methods: GET, POST, DELETE; Allow-Headers: authorization,mcp-param-a; Vary: Origin",
		},
		"a preflight of another page": {
			http.MethodOptions, "/mcp",
			[]string{"Origin", "https://evil.example.net", "Access-Control-Request-Method", "POST"},
			403, "Vary: Origin",
		},
		"a preflight elsewhere": {
			http.MethodOptions, "/else",
			[]string{"Origin", page, "Access-Control-Request-Method", "POST"},
			404, "",
		},
		"without a token": {http.MethodPost, "/mcp", []string{"Origin", page}, 401, read},
		"a call": {
			http.MethodPost, "/mcp",
			[]string{"Origin", page, "Authorization", "a"},
			200,
			read + "; Vary: Accept",
		},
		"a stream":   {http.MethodGet, "/mcp", []string{"Origin", page, "Authorization", "a"}, 200, read + "; Vary: Accept"},
		"of no page": {http.MethodPost, "/mcp", []string{"Authorization", "a"}, 200, "Vary: Origin; Vary: Accept"},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.call(tc.method, tc.path, "", tc.headers...)
			if got.StatusCode != tc.status {
				t.Errorf("HTTP %d, want %d", got.StatusCode, tc.status)
			}
			if diff := cmp.Diff(tc.want, ofCORS(got.Header)); diff != "" && tc.path == "/mcp" {
				t.Error(diff)
			}
		})
	}
	if reached != 3 {
		t.Errorf("the backend was reached %d times", reached)
	}
	without := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	if got := ofCORS(without.call(http.MethodPost, "/mcp", "{}").Header); got != "" {
		t.Errorf("where no origin is allowed: %s", got)
	}
}

// What a backend says about the host, and where to log in, is not the backend's to say.
func TestABackendSaysNothingAboutTheHost(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"WWW-Authenticate": `Bearer resource_metadata="https://evil.example.net"`, "Proxy-Authenticate": "Basic",
			"Set-Cookie":      "a=b; Domain=example.com",
			"Clear-Site-Data": `"*"`, "Strict-Transport-Security": "max-age=1", "Alt-Svc": `h2="evil.example.net:443"`,
			"Nel": "{}", "Report-To": "{}",
			"Reporting-Endpoints": `a="https://evil.example.net"`, "Service-Worker-Allowed": "/",
			"Location": "https://evil.example.net/", "Refresh": "0; url=https://evil.example.net/", "X-Kept": "yes",
		} {
			w.Header().Set(name, value)
		}
		if r.Method == http.MethodGet {
			events(w)("data: {}\n\n")
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		header := b.call(method, "/mcp", "").Header
		for _, name := range []string{
			"Date", "Content-Length", "Content-Type", "X-Accel-Buffering", "Transfer-Encoding",
			"Connection",
		} {
			header.Del(name)
		}
		if got := fmt.Sprint(header); got != "map[X-Kept:[yes]]" {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// What a backend says before its answer is for nobody: it is not looked at, and takes nothing of what the proxy itself
// says with the answer. A long body goes another way than a short one.
func TestWhatABackendSaysBeforeItsAnswerIsForNobody(t *testing.T) {
	b := serve(t, Config{AllowedOrigins: []string{page}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Set-Cookie")
		_, _ = io.WriteString(w, "{}")
	}))
	for _, size := range []int{10, 2 * longestDirect} {
		request := b.request(http.MethodPost, "/mcp", strings.Repeat("x", size), "Origin", page)
		interim := 0
		response := b.do(request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error {
				interim++
				return nil
			},
		})))
		header := response.Header
		if header.Get("Access-Control-Allow-Origin") == "" || header.Get("Vary") == "" || interim > 0 {
			t.Errorf("a body of %d bytes: %d interim answers, then %v", size, interim, header)
		}
	}
}
