package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// auditEvent is what is read of an event of the audit log
// (https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/).
type auditEvent struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	Received  string `json:"requestReceivedTimestamp"`
	// As is whom the user acted as, in whose name the write is.
	As     auditUser `json:"impersonatedUser"`
	User   auditUser `json:"user"`
	Object struct {
		Namespace   string `json:"namespace"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

type auditUser struct {
	Name string `json:"username"`
}

// identity is the ServiceAccount that wrote, without its namespace.
func (e auditEvent) identity() string {
	name := cmp.Or(e.As.Name, e.User.Name)
	return name[strings.LastIndex(name, ":")+1:]
}

// how a write is done. The log has no bodies and no types of patches, but the API server refuses force to every patch
// that is no apply, and each apply of ours has it, since each grant is exclusive. Only a Secret is written once, by an
// apply that yields: it creates the Secret (201) or meets one (409), where a merge patch would have changed one or
// found none. Any other patch without force is a merge patch, a JSON patch as a take-over makes one of managedFields,
// or an apply that yields.
func (e auditEvent) how() string {
	if e.Verb != "patch" {
		return e.Verb
	}
	u, err := url.Parse(e.URI)
	switch {
	case err != nil || u.Query().Get("fieldManager") == "":
	case u.Query().Get("force") == "true":
		return "apply"
	case e.Object.Resource == "secrets" &&
		slices.Contains([]int{http.StatusCreated, http.StatusConflict}, e.Response.Code):
		return "apply once"
	}
	return "unforced patch"
}

// ours reports whether a program of Freehold sent the request.
func (e auditEvent) ours() bool { return strings.HasPrefix(e.UserAgent, "freehold-") }

// writes prints how often which identity wrote what in a namespace, and how, since a
// moment in RFC 3339, and fails if any of it was neither an apply, a delete nor an event.
func writes(path, namespace, since string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close()
	counts, bad := map[string]int{}, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		e := auditEvent{}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may still be being written
		}
		if e.Stage != "ResponseComplete" || !e.ours() || e.Object.Namespace != namespace || e.Received < since ||
			slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
			continue
		}
		resource := strings.TrimSuffix(e.Object.Resource+"/"+e.Object.Subresource, "/")
		counts[fmt.Sprintf("%s\t%s\t%s\t%d", e.identity(), e.how(), resource, e.Response.Code)]++
		if !slices.Contains([]string{"apply", "apply once", "delete"}, e.how()) && e.Object.Resource != "events" {
			bad++
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "IDENTITY\tWRITE\tOF\tANSWER\tTIMES")
	for _, row := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(table, "%s\t%d\n", row, counts[row])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d writes were not applies", bad)
	}
	return nil
}
