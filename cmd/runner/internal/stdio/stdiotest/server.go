// Package stdiotest is an MCP server in the test's own program, for tests that need a
// child which misbehaves.
package stdiotest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// variable tells the program that it is the server, and how it behaves.
const variable = "STDIOTEST"

// Main is the server, if the program was started by Command; then it does not return.
func Main() {
	if how, ok := os.LookupEnv(variable); ok {
		serve(how)
		os.Exit(0)
	}
}

// Command is the program and the environment of a server that behaves in a way:
//
//	""        answers: initialize, server/discover as one that does not know it, and by
//	          the methods below
//	modern    answers server/discover
//	junk      greets, and answers
//	crash     ends at once with exit code 3
//	deaf      reads nothing
//	stubborn  ignores the end of its input, and SIGTERM
//	early     logs, tells its progress and asks with a ping before it answers initialize
func Command(how string) (args, env []string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self}, []string{variable + "=" + how, "PATH=" + os.Getenv("PATH")}
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string          `json:"name"`
		Meta json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func serve(how string) {
	switch how {
	case "crash":
		fmt.Fprintln(os.Stderr, "no key is set")
		os.Exit(3)
	case "deaf":
		time.Sleep(time.Hour)
	case "junk":
		fmt.Println("Welcome to the server!")
	case "stubborn":
		ignore()
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) == nil && m.Method != "" && m.ID != nil {
			answer(how, m, line)
		}
	}
	if how == "stubborn" {
		time.Sleep(time.Hour)
	}
}

// answer does as the method says:
//
//	pid             answers with its number
//	big N           answers with N bytes in all
//	exit            ends with exit code 3
//	unread          answers, closes its standard input, and lives
//	fork            starts processes that stay, of its group and of sessions of their own, each
//	                also as an orphan, and answers with their numbers
//	progress        tells its progress, then answers
//	ask             asks the client, and answers nothing
//	endless         prints a line that does not end, and answers nothing
//	flood N         tells N notifications of 10 KiB, then answers
//	tools/list      answers with the tool deploy, which wants its region repeated in a header
//	silent, subscriptions/listen  answer nothing
//	anything else   answers with the line that it read
func answer(how string, m message, line []byte) {
	method, argument, _ := strings.Cut(m.Method, " ")
	n, _ := strconv.Atoi(argument)
	reply := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result) }
	switch method {
	case "initialize":
		if how == "early" {
			early(m)
		}
		reply(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"stdiotest","version":"1"}}`)
	case "server/discover":
		if how == "modern" {
			reply(`{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}`)
			return
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`+"\n", m.ID)
	case "tools/list":
		reply(
			`{"tools":[{"name":"deploy","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
	case "ping":
		reply(`{}`)
	case "pid":
		reply(strconv.Itoa(os.Getpid()))
	case "big":
		frame := len(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":""}`, m.ID))
		reply(`"` + strings.Repeat("x", n-frame) + `"`)
	case "exit":
		os.Exit(3)
	case "unread":
		_ = os.Stdin.Close()
		reply(`{}`)
		time.Sleep(time.Hour)
	case "fork":
		reply(fork())
	case "progress":
		progress(m)
		reply(`{}`)
	case "ask":
		fmt.Printf(`{"jsonrpc":"2.0","id":"q%s","method":"sampling/createMessage","params":{}}`+"\n",
			strings.Trim(string(m.ID), `"`))
	case "endless":
		for part := strings.Repeat("z", 1<<20); ; {
			if _, err := os.Stdout.WriteString(part); err != nil {
				os.Exit(0)
			}
		}
	case "flood":
		for range n {
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}`+"\n",
				strings.Repeat("y", 10<<10))
		}
		reply(`{}`)
	case "silent", "subscriptions/listen":
	default:
		text, _ := json.Marshal(strings.TrimSpace(string(line)))
		reply(string(text))
	}
}

// progress is what a server says of a call that names a token.
func progress(m message) {
	var meta struct {
		Token json.RawMessage `json:"progressToken"`
	}
	_ = json.Unmarshal(m.Params.Meta, &meta)
	fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n",
		meta.Token)
}

// early is what a server says before it answers initialize.
func early(m message) {
	fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"waiting"}}`)
	var meta struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(m.Params.Meta, &meta) == nil && meta.Token != nil {
		fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n",
			meta.Token)
	}
	fmt.Println(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	time.Sleep(50 * time.Millisecond)
}

// fork leaves processes behind, of which some hold its output open.
func fork() string {
	var pids []string
	for _, attributes := range []*syscall.SysProcAttr{nil, {Setsid: true}} {
		near := exec.Command("sleep", "3600")
		near.Stdout, near.Stderr, near.SysProcAttr = os.Stdout, os.Stderr, attributes
		_ = near.Start()
		far := exec.Command("sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!")
		far.SysProcAttr = attributes
		out, _ := far.Output()
		pids = append(pids, strconv.Itoa(near.Process.Pid), strings.TrimSpace(string(out)))
	}
	return "[" + strings.Join(pids, ",") + "]"
}
