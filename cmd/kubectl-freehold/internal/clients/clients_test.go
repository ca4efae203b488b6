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

func TestThePageHasTheClients(t *testing.T) {
	var table strings.Builder
	table.WriteString("| `--client` | for | run on | redirect URIs | if it fails |\n| --- | --- | --- | --- | --- |\n")
	for _, client := range All {
		fails, err := client.Says(client.Fails, Endpoint{Name: "NAME"})
		if err != nil {
			t.Fatal(err)
		}
		var uris []string
		for _, uri := range client.RedirectURIs {
			uri, note, _ := strings.Cut(uri, " ")
			uris = append(uris, strings.TrimSpace("`"+uri+"` "+note))
		}
		fmt.Fprintf(&table, "| `%s` | %s, %s | %s | %s | %s |\n", client.Name, client.Title, client.Version, client.Tested,
			strings.Join(uris, ", "), fails)
	}
	golden.Part(t, "../../../../docs/how-to/connect.md",
		"<!-- generated from cmd/kubectl-freehold/internal/clients -->\n", "<!-- end of what is generated -->\n",
		table.String())
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
