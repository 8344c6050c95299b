package main

// A visit runs a small Python server under the binary in an odd place, and once more without
// it: what the server prints and how it ends must be the same.

import (
	"bytes"
	"cmp"
	"crypto/tls"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tokenscope/tokenscope/probes/capture"
)

//go:embed testdata/server.py
var serverScript string

// serverStatus is with what testdata/server.py ends when it is asked to.
const serverStatus = 7

// A place is where and how a server runs under instrument. The zero value is an ordinary one.
type place struct {
	form   string    // of testdata/server.py; "": threads
	around enclosure // what is done before instrument starts
	capt   string    // --capture; "": preload
	flags  []string
	within []string // words between instrument and Python, as "env -i"
	env    []string // beyond PATH, HOME and TMPDIR; overrides them
	python string   // "": anyPython
	cert   *certificate
}

// A visit is a server that runs in a place.
type visit struct {
	t         *testing.T
	dir       string // HOME and TMPDIR, and empty
	ours      string // the test's own files; anybody may write there
	cmd       *exec.Cmd
	client    *http.Client
	base      string
	asked     int
	recording string // "" without instrument
	done      bool
}

// anyPython is an interpreter that every user can run: not a script of a version manager.
func anyPython(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.Command(python, "-c", "import sys; print(sys.executable, end='')").Output()
		if err == nil {
			return string(out)
		}
	}
	t.Skip("needs python3")
	return ""
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts, or another user")
	}
}

// start starts the server, under instrument or without, and returns when it listens.
func (p place) start(t *testing.T, instrument bool) *visit {
	t.Helper()
	v := &visit{t: t, dir: openDir(t), ours: openDir(t), base: "http://"}
	argv := p.command(t, v.ours)
	if instrument {
		v.recording = filepath.Join(v.ours, "run.tsrec")
		flags := append([]string{"--capture", cmp.Or(p.capt, "preload"), "--record", v.recording}, p.flags...)
		argv = slices.Concat([]string{binary}, flags, []string{"--"}, argv)
	}
	around := p.around
	if len(around.Mounts) > 0 { // whatever the place, the server leaves its port
		around.Mounts = append(slices.Clone(around.Mounts), mount{Dir: v.ours})
	}
	v.cmd = around.command(t, argv)
	v.cmd.Dir = v.dir
	v.cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + v.dir, "TMPDIR=" + v.dir}, p.env)
	for name, to := range map[string]*io.Writer{"stdout": &v.cmd.Stdout, "stderr": &v.cmd.Stderr} {
		f, err := os.Create(filepath.Join(v.ours, name)) // a pipe would have Wait wait for the agent
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		*to = f
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.kill)
	v.client = &http.Client{Timeout: patience}
	if p.cert != nil {
		v.base = "https://"
		v.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.cert.pool, ServerName: certificateName}}
	}
	v.await("the server listens", func() bool { return exists(filepath.Join(v.ours, "port")) })
	v.base += "127.0.0.1:" + v.read("port")
	return v
}

// command is the server's command line.
func (p place) command(t *testing.T, dir string) []string {
	t.Helper()
	python := p.python
	if python == "" {
		python = anyPython(t)
	}
	argv := append(slices.Clone(p.within), python, "-c", serverScript, cmp.Or(p.form, "threads"), dir)
	if p.cert != nil {
		argv = append(argv, p.cert.file, p.cert.key)
	}
	return argv
}

// openDir is a directory that every user can reach and write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // t.TempDir's parent is for its maker alone
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (v *visit) await(what string, ok func() bool) {
	v.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			v.t.Fatalf("not so in time: %s\n%s", what, v.read("stderr"))
		}
	}
}

func (v *visit) read(name string) string {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.ours, name))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// get asks for a path; what comes is the body.
func (v *visit) get(path string) string {
	v.t.Helper()
	resp, err := v.client.Get(v.base + path)
	if err != nil {
		v.t.Fatalf("get %s: %v\n%s", path, err, v.read("stderr"))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		v.t.Fatalf("get %s: %s, %v", path, resp.Status, err)
	}
	return string(body)
}

// post sends a request that the agent should see, with so much beside it.
func (v *visit) post(path string, padding int) error {
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("x", padding))
	resp, err := v.client.Post(v.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return err
}

// ask sends some requests that must not fail.
func (v *visit) ask(n int) {
	v.t.Helper()
	for range n {
		if err := v.post("/v1/chat/completions", 0); err != nil {
			v.t.Fatalf("ask: %v\n%s", err, v.read("stderr"))
		}
	}
	v.asked += n
}

// end has the server end, and returns what came of it.
func (v *visit) end() outcome {
	v.t.Helper()
	v.get("/stop")
	return v.ended()
}

// ended waits for the end of all processes.
func (v *visit) ended() outcome {
	v.t.Helper()
	err := v.cmd.Wait()
	v.done = true
	if v.cmd.ProcessState == nil {
		v.t.Fatal(err)
	}
	o := outcome{status: v.cmd.ProcessState.Sys().(syscall.WaitStatus), stdout: v.read("stdout"), stderr: v.read("stderr")}
	o.said, o.theirs = split(o.stderr)
	return o
}

func (v *visit) kill() {
	if v.done {
		return
	}
	_ = v.cmd.Process.Kill() // the server goes with it
	_ = v.cmd.Wait()
}

// An outcome is what a run has left.
type outcome struct {
	status         syscall.WaitStatus
	stdout, stderr string
	said           []string // our own lines
	theirs         string   // the rest of stderr
}

// split tells our own lines from the workload's. The agent's summary comes behind all that a
// workload prints, and is the end.
func split(stderr string) (said []string, theirs string) {
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(line, "instrument: "); ok {
			said = append(said, strings.TrimSuffix(text, "\n"))
			if strings.HasPrefix(text, "no exporter is set") {
				break
			}
			continue
		}
		theirs += line
	}
	return said, theirs
}

// same compares what a workload did under instrument with what it does without.
func (o outcome) same(t *testing.T, plain outcome) {
	t.Helper()
	if o.status != plain.status {
		t.Errorf("the server ended with %#x; want %#x, as without instrument\n%s", o.status, plain.status, o.stderr)
	}
	if o.stdout != plain.stdout || o.theirs != plain.theirs {
		t.Errorf("the server printed\n%q\n%q\nwant, as without instrument,\n%q\n%q", o.stdout, o.theirs, plain.stdout, plain.theirs)
	}
}

// says checks that each of the texts is in exactly one of our lines, and that beside these
// there are only those that every run has.
func (o outcome) says(t *testing.T, want ...string) {
	t.Helper()
	rest := slices.DeleteFunc(slices.Clone(o.said), func(line string) bool {
		return strings.HasPrefix(line, "no exporter is set") || strings.HasPrefix(line, "no requests were seen") ||
			line == "watching by the preloaded library, as asked for" || line == `nothing is observed reason="capture is off (--capture)"`
	})
	for _, w := range want {
		i := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, w) })
		if i < 0 {
			t.Errorf("instrument says\n\t%s\nwant a line with %q", strings.Join(o.said, "\n\t"), w)
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) > 0 {
		t.Errorf("instrument says as well:\n\t%s", strings.Join(rest, "\n\t"))
	}
}

// requests are the request lines of what was recorded, by all agents of a run.
func (v *visit) requests() []string {
	v.t.Helper()
	files, err := filepath.Glob(filepath.Join(v.ours, "run*.tsrec"))
	if err != nil {
		v.t.Fatal(err)
	}
	var lines []string
	for _, f := range files {
		cmd := exec.Command(binary, "replay", "--output", "requests", f)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			v.t.Fatalf("replay %s: %v\n%s", f, err, &stderr)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// events are those of a recording.
func (v *visit) events() (events []capture.Event) {
	v.t.Helper()
	r, err := capture.OpenRecording(v.recording)
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Close()
	err = r.Run(v.t.Context(), func(e *capture.Event) {
		kept := *e
		kept.Data = bytes.Clone(e.Data)
		events = append(events, kept)
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return events
}

// saw checks how many requests came out of how many.
func (v *visit) saw(want int) {
	v.t.Helper()
	if got := len(v.requests()); got != want {
		v.t.Errorf("%d requests were seen; want %d of %d\n%s", got, want, v.asked, v.read("stderr"))
	}
}

// visitBoth runs the place without and with instrument, each with n requests, and compares.
func (p place) visitBoth(t *testing.T, n int) (*visit, outcome) {
	t.Helper()
	b := p.start(t, false)
	b.ask(n)
	plain := b.end()
	if plain.status.ExitStatus() != serverStatus {
		t.Fatalf("without instrument the server ended with %#x\n%s", plain.status, plain.stderr)
	}
	v := p.start(t, true)
	v.ask(n)
	o := v.end()
	o.same(t, plain)
	return v, o
}
