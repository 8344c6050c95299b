//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kind is a root, and what there is in it to run.
type kind struct {
	name  string
	lower func(*testing.T) string
	libc  string // what check finds
	// exits ends with status 7; server serves on the port behind it. nil: there is none.
	exits, server []string
}

var kinds = []kind{
	{"old glibc", func(t *testing.T) string { return debian(t, "bullseye") }, "glibc 2.31", []string{"sh", "-c", "exit 7"}, []string{"perl", "/mnt/server.pl"}},
	{"new glibc", func(t *testing.T) string { return debian(t, "trixie") }, "glibc 2.41", []string{"sh", "-c", "exit 7"}, []string{"perl", "/mnt/server.pl"}},
	{"musl", musl, "musl", []string{"server", "exit", "7"}, []string{"server"}},
	{"neither libc nor shell", empty, "", nil, nil},
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "chroot and mount need root (run with sudo)")
	}
}

// TestLife is an installation from the first look to the last file.
func TestLife(t *testing.T) {
	needRoot(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRoot(t, k.lower(t))
			r.want(0, "would install under /usr/local: version "+version, "/mnt/bootstrap")
			r.want(0, "would install under /usr/local", "/mnt/bootstrap", "-a", "install", "--dry-run")
			if left := r.changed(); len(left) > 0 {
				t.Errorf("looking has changed %q", left)
			}
			r.want(0, "installed under /usr/local: version "+version, "/mnt/bootstrap", "-a", "install")
			installed := r.changed()
			files := slices.DeleteFunc(slices.Clone(installed), func(name string) bool { return strings.HasSuffix(name, "/") })
			if len(files) != 5 {
				t.Errorf("install has written %q; want two programs, a link, a library and a manifest", files)
			}
			r.want(0, "already installed under /usr/local", "/mnt/bootstrap", "-a", "install")
			r.want(0, "already installed under /usr/local", "bootstrap", "-a", "install")
			r.want(0, "instrument version "+version, "instrument", "version")
			r.want(0, "instrument version "+version, "tokenscope", "version")
			k.check(r)
			if k.exits != nil {
				r.want(7, "", append([]string{"instrument"}, k.exits...)...)
			}
			if k.server != nil {
				k.serve(r)
			}
			if now := r.changed(); strings.Join(now, " ") != strings.Join(installed, " ") {
				t.Errorf("using it has left %q; want only %q", now, installed)
			}
			r.want(0, "uninstalled under /usr/local: version "+version, "bootstrap", "-a", "uninstall")
			r.want(0, "not installed", "/mnt/bootstrap", "-a", "uninstall")
			if left := r.changed(); len(left) > 0 {
				t.Errorf("uninstall has left %q", left)
			}
		})
	}
}

// want runs a command that must end with this status and print this on standard output.
func (r *root) want(code int, text string, args ...string) {
	r.t.Helper()
	got, stdout, stderr := r.run(args...)
	if got != code || !strings.Contains(stdout, text) {
		r.t.Fatalf("%s = %d; want %d and %q\n%s%s", strings.Join(args, " "), got, code, text, stdout, stderr)
	}
}

// check reads what bootstrap finds out, and the launcher's doctor as well.
func (k *kind) check(r *root) {
	r.t.Helper()
	for _, args := range [][]string{{"bootstrap", "-a", "check", "--json"}, {"instrument", "doctor", "--json"}} {
		code, stdout, stderr := r.run(args...)
		var report struct {
			Works    bool
			Taken    string
			Backends []struct {
				Name  string
				Works bool
				Note  string
			}
			Machine []struct{ Name, Value string }
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || !report.Works || report.Taken == "" {
			r.t.Fatalf("%q = %d; want a report on something that works\n%s%s", args, code, stdout, stderr)
		}
		for _, b := range report.Backends {
			if b.Name != "preload" {
				continue
			}
			tried := "; tried in "
			if k.libc == "" {
				tried = "not tried for want of a program that is linked dynamically"
			}
			if !b.Works || !strings.Contains(b.Note, "/usr/local/lib/tokenscope") || !strings.Contains(b.Note, tried) {
				r.t.Errorf("%q: preload %+v; want that it was loaded from where it is installed: %q", args, b, tried)
			}
		}
		for _, i := range report.Machine {
			if i.Name == "libc" && !strings.Contains(i.Value, k.libc) {
				r.t.Errorf("%q: libc %q; want %s", args, i.Value, k.libc)
			}
		}
	}
}

// serve watches a server by the preloaded library and wants its request to be seen.
func (k *kind) serve(r *root) {
	r.t.Helper()
	port := freePort(r.t)
	args := append([]string{"instrument", "--capture", "preload", "--record", "/srv/run.tsrec"}, k.server...)
	cmd := r.command(append(args, port)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	err := ask(port)
	// The launcher passes it on; its group has the server as well, which gets it twice.
	if kerr := unix.Kill(cmd.Process.Pid, unix.SIGTERM); err == nil {
		err = kerr
	}
	select {
	case <-ended:
	case <-time.After(commandLimit):
		r.t.Fatalf("the server does not end\n%s", output.String())
	}
	if err != nil {
		r.t.Fatalf("ask the server: %v\n%s", err, output.String())
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != unix.SIGTERM {
		r.t.Errorf("instrument ended with %v; want the server's own death by SIGTERM\n%s", cmd.ProcessState, output.String())
	}
	code, stdout, stderr := r.run("instrument", "replay", "--output", "requests", "/srv/run.tsrec")
	seen := regexp.MustCompile(`"chatcmpl-0123456789abcdef"`).FindAllString(stdout, -1)
	if code != 0 || len(strings.Split(strings.TrimSpace(stdout), "\n")) != requests || len(seen) < requests {
		r.t.Errorf("replay = %d; want %d requests with the server's ids\n%s%s\nrun:\n%s", code, requests, stdout, stderr, output.String())
	}
}

// requests is how many are sent.
const requests = 3

// ask sends requests, as soon as the server answers.
func ask(port string) error {
	client := http.Client{Timeout: 5 * time.Second}
	until := time.Now().Add(commandLimit / 2)
	for n := 0; n < requests; {
		answer, err := client.Post("http://127.0.0.1:"+port+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"toy","messages":[{"role":"user","content":"is it?"}]}`))
		if err != nil {
			if time.Now().After(until) {
				return err
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !bytes.Contains(body, []byte(`"content":"yes"`)) {
			return fmt.Errorf("answer %q: %w", body, err)
		}
		n++
	}
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestUnprivileged: a user who may write nowhere on PATH is told what to do, and does it.
func TestUnprivileged(t *testing.T) {
	needRoot(t)
	r := newRoot(t, debian(t, "trixie"))
	r.user = "1000:1000"
	code, _, stderr := r.run("/mnt/bootstrap", "-a", "install")
	if code != 1 || !strings.Contains(stderr, "--prefix DIR") {
		t.Errorf("install as a user = %d, %q; want 1 and what to do", code, stderr)
	}
	code, _, stderr = r.run("/mnt/bootstrap", "-a", "install", "--prefix", "/usr/local")
	if code != 1 || !strings.Contains(stderr, "permission denied; run as a user who may write there") {
		t.Errorf("install into root's folder = %d, %q; want 1 and what to do", code, stderr)
	}
	r.volume()
}

// TestReadOnly is the same for root, on a root file system that is read-only.
func TestReadOnly(t *testing.T) {
	needRoot(t)
	r := newRoot(t, debian(t, "trixie"))
	r.readOnly = true
	for _, args := range [][]string{{"-a", "install"}, {"-a", "install", "--prefix", "/usr/local"}} {
		code, _, stderr := r.run(append([]string{"/mnt/bootstrap"}, args...)...)
		if code != 1 || !strings.Contains(stderr, "read-only file system") || !strings.Contains(stderr, "--prefix") {
			t.Errorf("%q on a read-only file system = %d, %q; want 1, the cause and the cure", args, code, stderr)
		}
	}
	r.volume()
}

// volume installs into a volume, runs a program from there and takes all away.
func (r *root) volume() {
	r.t.Helper()
	r.want(0, "note: /srv/ours/bin is not on PATH: start the server by /srv/ours/bin/instrument", "/mnt/bootstrap", "-a", "install", "--prefix", "/srv/ours")
	r.want(7, "", "/srv/ours/bin/instrument", "--capture", "preload", "sh", "-c", "exit 7")
	r.want(0, "preload  works (the library can be loaded from /srv/ours/lib/tokenscope; tried in /usr/bin/true)", "/srv/ours/bin/bootstrap", "-a", "check")
	r.want(0, "uninstalled under /srv/ours", "/srv/ours/bin/bootstrap", "-a", "uninstall")
	if entries, err := os.ReadDir(filepath.Join(r.dir, "srv")); err != nil || len(entries) > 0 {
		r.t.Errorf("uninstall has left %v, %v in the volume", entries, err)
	}
	if left := r.changed(); len(left) > 0 {
		r.t.Errorf("%q has changed outside the volume", left)
	}
}
