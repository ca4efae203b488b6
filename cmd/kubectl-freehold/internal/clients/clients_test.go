package clients

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/golden"
)

// mostWords is how long the page is on one client.
const mostWords = 110

// TestThePageHasTheClients holds docs/how-to/connect.md to the clients; -update writes it.
func TestThePageHasTheClients(t *testing.T) {
	var table, sections strings.Builder
	table.WriteString("| `--client` | for | run on | redirect URIs |\n| --- | --- | --- | --- |\n")
	const public = "https://mcp.example.com/everything/mcp"
	e := Endpoint{Name: "everything", URL: public, InCluster: "http://everything-proxy.tools.svc:8000/mcp", Access: Token}
	for _, client := range All {
		var said [3]string
		for i, text := range []string{client.Text, client.Fails, client.Forget} {
			var err error
			if said[i], err = client.Says(text, e); err != nil {
				t.Fatal(err)
			}
		}
		var uris []string
		for _, uri := range client.RedirectURIs {
			uri, note, _ := strings.Cut(uri, " ")
			uris = append(uris, strings.TrimSpace("`"+uri+"` "+note))
		}
		fmt.Fprintf(&table, "| `%s` | %s, %s | %s | %s |\n", client.Name, client.Title, client.Version, client.Tested,
			strings.Join(uris, ", "))
		section := fmt.Sprintf("\n### %s\n\n```\n%s\n```\n\n%s Forget a login: %s.\n", client.Title, said[0], said[1],
			said[2])
		if n := len(strings.Fields(section)); n > mostWords {
			t.Errorf("the page has %d words on %s, want %d at most", n, client.Title, mostWords)
		}
		sections.WriteString(section)
	}
	golden.Part(t, "../../../../docs/how-to/connect.md",
		"<!-- generated from cmd/kubectl-freehold/internal/clients -->\n", "<!-- end of what is generated -->\n",
		table.String()+"\nOf callers that send a token:\n"+sections.String())
}

func TestNamesFitEachClient(t *testing.T) {
	fits := regexp.MustCompile(`^[a-z0-9-]{1,24}$`)
	seen := map[string]string{}
	for _, tc := range [][3]string{
		{"default", "everything", "everything"},
		{"tools", "everything", "tools-everything"},
		{"tools", "a.b", "tools-a-b"},
		{"a-namespace-of-a-team", "everything", ""},
		{"a-namespace-of-a-team", "everything-else", ""},
		{strings.Repeat("n", 63), strings.Repeat("m", 44), ""},
	} {
		got := NameOf(tc[0], tc[1])
		if !fits.MatchString(got) || tc[2] != "" && got != tc[2] || seen[got] != "" {
			t.Errorf("%s/%s is called %q, as is %q", tc[0], tc[1], got, seen[got])
		}
		seen[got] = tc[0] + "/" + tc[1]
	}
}

// What the cluster says stays a word, whatever is in it: nothing of it is run, and JSON stays JSON.
func TestNothingOfTheClusterIsRun(t *testing.T) {
	const evil = `https://h/'"$(touch x);` + "`touch x`" + `\`
	for _, access := range []Access{Open, Token, Login} {
		e := Endpoint{Name: "n", URL: evil, InCluster: evil, Access: access, ClientID: "0'a"}
		if access == Token {
			e.Account = "echo " + Quoted(evil)
		}
		for _, client := range All {
			text, err := client.Says(client.Text, e)
			if err != nil {
				t.Fatal(err)
			}
			if _, block, pasted := strings.Cut(text, ":\n{"); pasted {
				if !json.Valid([]byte("{" + block)) {
					t.Errorf("%s: no JSON: %s", client.Name, text)
				}
				continue
			}
			if !strings.Contains(text, client.Name+" mcp") && !strings.HasPrefix(text, "claude ") {
				continue
			}
			first, _, _ := strings.Cut(text, "\n")
			_, words, _ := strings.Cut(first, " ")
			said, err := exec.Command("sh", "-c", "printf '%s\\n' "+words).Output() //nolint:gosec // that is the test
			if err != nil || e.Account == "" && !strings.Contains(string(said), evil+"\n") {
				t.Errorf("%s: the shell reads %q of %s: %v", client.Name, said, text, err)
			}
		}
	}
}
