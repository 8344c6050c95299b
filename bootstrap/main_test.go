package bootstrap

// A program on a machine made of files.

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenscope/tokenscope/bootstrap/host"
)

var update = flag.Bool("update", false, "write golden files anew")

// world is a machine, an unpacked archive on it, and the program that runs there.
type world struct {
	t    *testing.T
	root string // the machine's
	from string // the archive's
	app  *App
	env  map[string]string

	stdout, stderr bytes.Buffer
}

// newWorld makes one in which both ways of watching work and nothing is installed.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), from: t.TempDir(), env: map[string]string{}}
	w.put(filepath.Join(w.from, "instrument"), "the launcher")
	w.put(filepath.Join(w.from, "bootstrap"), "this")
	uid := 1000
	w.app = &App{
		Version: "v1.2.3",
		EBPF: func(context.Context) Verdict {
			return Verdict{Note: "tried", Features: []Feature{{Name: "zmq-send"}}}
		},
		Preload:        func(context.Context) Verdict { return Verdict{Note: "tried"} },
		Library:        func() (string, []byte) { return "libtokenscope-0123.so", []byte("library") },
		LibraryFolders: func() []string { return []string{"/opt/lib/tokenscope", "/tmp/tokenscope"} },
		Stdout:         &w.stdout, Stderr: &w.stderr,
		Getenv:     func(name string) string { return w.env[name] },
		view:       host.View{Root: w.root},
		executable: filepath.Join(w.from, "bootstrap"),
		uid:        &uid,
		memfd:      func() error { return nil },
		dumpable:   func() (bool, error) { return true, nil },
		try:        func(string) error { return nil },
	}
	w.machine(wholeMachine)
	return w
}

// wholeMachine has everything that watching may need.
var wholeMachine = map[string]string{
	"proc/sys/kernel/osrelease":                             "6.8.0-45-generic\n",
	"proc/sys/kernel/version":                               "#45-Ubuntu SMP\n",
	"proc/sys/kernel/perf_event_paranoid":                   "2\n",
	"proc/sys/kernel/unprivileged_bpf_disabled":             "2\n",
	"proc/self/status":                                      "PPid:\t1\nUid:\t0\t0\t0\t0\nNSpid:\t7\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n",
	"proc/self/uid_map":                                     "         0          0 4294967295\n",
	"proc/self/mountinfo":                                   "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:21 / /proc rw - proc proc rw\n",
	"sys/kernel/btf/vmlinux":                                "x",
	"sys/kernel/security/lockdown":                          "none [integrity] confidentiality\n",
	"sys/kernel/tracing/events/syscalls/sys_enter_close/id": "600\n",
	"lib64/ld-linux-x86-64.so.2":                            "",
	"lib64/libc.so.6":                                       "GNU C Library (GNU libc) stable release version 2.39.\n",
	"opt/lib/":                                              "",
	"tmp/":                                                  "",
	"venv/bin/python3":                                      "\x7fELF\x02",
	"venv/pyvenv.cfg":                                       "version = 3.12.3\n",
	"venv/lib/python3.12/site-packages/vllm-0.14.0.dist-info/METADATA":  "Name: vllm\nVersion: 0.14.0\n",
	"venv/lib/python3.12/site-packages/pyzmq-27.0.1.dist-info/METADATA": "Name: pyzmq\nVersion: 27.0.1\n",
	"venv/lib/python3.12/site-packages/pyzmq.libs/libzmq-915e.so.5.2.5": "",
	"other/bin/python3.11": "\x7fELF\x02",
}

// machine adds files to the machine. "-" removes one.
func (w *world) machine(files map[string]string) {
	w.t.Helper()
	for name, text := range files {
		path := filepath.Join(w.root, name)
		switch {
		case text == "-":
			if err := os.RemoveAll(path); err != nil {
				w.t.Fatal(err)
			}
		case strings.HasPrefix(text, "-> "):
			w.folder(filepath.Dir(path))
			if err := os.Symlink(text[3:], path); err != nil {
				w.t.Fatal(err)
			}
		case strings.HasSuffix(name, "/"):
			w.folder(path)
		default:
			w.put(path, text)
		}
	}
}

func (w *world) folder(path string) {
	w.t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(path, text string) {
	w.t.Helper()
	w.folder(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// run runs the program and gives its status and what it printed, with the folders of
// this test replaced by names.
func (w *world) run(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	w.stdout.Reset()
	w.stderr.Reset()
	code = w.app.Main(append([]string{"/x/bootstrap"}, args...))
	return code, w.shown(w.stdout.String()), w.shown(w.stderr.String())
}

func (w *world) shown(text string) string {
	return strings.NewReplacer(w.root, "ROOT", w.from, "FROM", " "+runtime.GOARCH, " ARCH").Replace(text)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output differs from %s (-want +got):\n%s", path, diff)
	}
}
