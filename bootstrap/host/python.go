package host

// The Pythons of a machine. A Python is an interpreter with its folders of packages;
// python, python3 and python3.12 beside each other are one.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Python is an interpreter and what is installed for it.
type Python struct {
	// Path is the interpreter as it was found.
	Path string
	// Version is "3.12.3", "3.12" where only a folder's name tells, "" where nothing does.
	Version string
	// Prefix is the folder that its libraries are under: of a virtual environment, its own.
	Prefix string
	// Environment says that it is a virtual environment.
	Environment bool
	// Sites are its folders of packages that exist.
	Sites []string
	// Packages are the engines that are installed, and pyzmq.
	Packages []Package
	// LibZMQ are the files of libzmq that it may load.
	LibZMQ []string
}

// PythonSearch says where to look for Pythons.
type PythonSearch struct {
	// Path are the folders of PATH, in its order.
	Path []string
	// Interpreters are further ones, by their files.
	Interpreters []string
	// Home is the user's folder, PythonPath the folders of PYTHONPATH.
	Home       string
	PythonPath []string
}

// maxPythons bounds the list: a machine with more is a package builder's.
const maxPythons = 64

// Pythons finds them. The error is about Interpreters alone, which somebody named; the
// rest is what there is.
func (v View) Pythons(s PythonSearch) ([]Python, error) {
	var found []Python
	add := func(path string) error {
		p, err := v.python(path, s)
		if err != nil {
			return err
		}
		same := func(q Python) bool {
			return q.Prefix == p.Prefix && (q.Version == p.Version || p.Version == "" || strings.HasPrefix(q.Version, p.Version+"."))
		}
		if strings.HasPrefix(p.Version, "2.") {
			return nil // no engine ran on that
		}
		if len(found) < maxPythons && !slices.ContainsFunc(found, same) {
			found = append(found, p)
		}
		return nil
	}
	for _, path := range s.Interpreters {
		if err := add(path); err != nil {
			return nil, fmt.Errorf("look at Python %s: %w", path, err)
		}
	}
	for _, path := range v.interpreters(s.Path) {
		// What is called python and is none is not an error of the user's.
		_ = add(path)
	}
	return found, nil
}

// Interpreters' names, and the launch scripts of engines, whose first line names one.
var (
	interpreterName = regexp.MustCompile(`^python(3(\.[0-9]+)?)?t?$`)
	engineScripts   = []string{"vllm", "sglang"}
)

// interpreters lists the files that may be one, in the order of PATH.
func (v View) interpreters(folders []string) []string {
	var paths []string
	for _, folder := range folders {
		if !filepath.IsAbs(folder) {
			continue // what it means changes with the working folder
		}
		paths = append(paths, v.interpretersIn(folder)...)
		for _, name := range engineScripts {
			if path := v.scriptInterpreter(filepath.Join(folder, name)); path != "" {
				paths = append(paths, path)
			}
		}
		// pyenv puts scripts on PATH that choose among its versions when they run.
		if filepath.Base(folder) == "shims" {
			versions, _ := filepath.Glob(v.path(filepath.Join(folder, "../versions/*/bin")))
			for _, bin := range versions {
				paths = append(paths, v.interpretersIn(v.unpath(bin))...)
			}
		}
	}
	return paths
}

func (v View) interpretersIn(folder string) []string {
	entries, err := os.ReadDir(v.path(folder))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if interpreterName.MatchString(e.Name()) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	// The longest name first: it says the version.
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	return names
}

// maxShebang is more than the kernel reads of a script's first line (BINPRM_BUF_SIZE is
// 256); pip writes a line for the shell where the path would not fit.
const maxShebang = 4096

// shellTrick is the second line of such a script: ”'exec' "/path" "$0" "$@".
var shellTrick = regexp.MustCompile(`(?m)^'''exec' "?([^"\n]+?)"? "\$0" "\$@"`)

// scriptInterpreter is the Python that a script is run by, "" where it is no script of
// Python's.
func (v View) scriptInterpreter(path string) string {
	head, err := readLimited(v.path(path), maxShebang)
	if err != nil || !bytes.HasPrefix(head, []byte("#!")) {
		return ""
	}
	if m := shellTrick.FindSubmatch(head); m != nil {
		return string(m[1])
	}
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) == 0 || !interpreterName.MatchString(filepath.Base(fields[0])) {
		return "" // also "env python3": that one is on PATH and found there
	}
	return fields[0]
}

// python finds out to what an interpreter belongs.
func (v View) python(path string, s PythonSearch) (Python, error) {
	f, err := openRegular(v.path(path))
	if err != nil {
		return Python{}, err
	}
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	f.Close()
	if err != nil || string(magic) != "\x7fELF" {
		return Python{}, fmt.Errorf("%s is not a program that Linux loads by itself (perhaps a script in front of one)", path)
	}
	p := Python{Path: path}
	bin := filepath.Dir(path)
	real := path
	if resolved, err := filepath.EvalSymlinks(v.path(path)); err == nil {
		real = v.unpath(resolved)
	}
	// As Python does it: pyvenv.cfg beside the name that was used makes an environment of
	// it; otherwise links are followed to where the libraries are (Modules/getpath.py).
	for _, prefix := range []string{filepath.Dir(bin), bin} {
		if config := v.read(filepath.Join(prefix, "pyvenv.cfg")); config.Err == nil {
			p.Environment, p.Prefix = true, prefix
			p.Version = venvValue(config.Text, "version", "version_info")
			p.Sites = v.sites(prefix, minor(p.Version))
			if strings.EqualFold(venvValue(config.Text, "include-system-site-packages"), "true") {
				p.Sites = append(p.Sites, v.systemSites(filepath.Dir(filepath.Dir(real)), minor(p.Version), s)...)
			}
			break
		}
	}
	if !p.Environment {
		p.Prefix = filepath.Dir(filepath.Dir(real))
		p.Version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(real), "python"), "t")
		if !strings.Contains(p.Version, ".") {
			p.Version = v.onlyVersion(p.Prefix)
		}
		p.Sites = v.systemSites(p.Prefix, minor(p.Version), s)
	}
	p.Sites = append(p.Sites, s.PythonPath...)
	p.Sites = v.folders(p.Sites)
	for _, site := range p.Sites {
		p.Packages = append(p.Packages, v.packages(site)...)
	}
	p.LibZMQ = v.libZMQ(&p)
	return p, nil
}

// venvValue is the first of these keys' values in a pyvenv.cfg. venv writes "version",
// virtualenv and uv "version_info".
func venvValue(text string, keys ...string) string {
	for _, want := range keys {
		for line := range strings.Lines(text) {
			key, value, ok := strings.Cut(line, "=")
			if ok && strings.TrimSpace(key) == want {
				return strings.TrimSpace(value)
			}
		}
	}
	return ""
}

// minor is the "3.12" of "3.12.3", by which folders are named; "*" where it is unknown.
func minor(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || strings.ContainsAny(version, `*?[\/`) {
		return "*"
	}
	return parts[0] + "." + parts[1]
}

// onlyVersion is the version of the library folder, where there is exactly one.
func (v View) onlyVersion(prefix string) string {
	folders := v.glob(filepath.Join(prefix, "lib/python3.*"))
	if len(folders) != 1 {
		return ""
	}
	return strings.TrimPrefix(filepath.Base(folders[0]), "python")
}

// glob lists the files of a pattern in the view. A prefix that could be taken for a
// pattern gives nothing.
func (v View) glob(pattern string) []string {
	matches, err := filepath.Glob(v.path(pattern))
	if err != nil {
		return nil
	}
	for i, m := range matches {
		matches[i] = v.unpath(m)
	}
	return matches
}

// sites are the folders of packages under a prefix.
func (v View) sites(prefix, version string) []string {
	var found []string
	for _, lib := range []string{"lib", "lib64", "local/lib"} {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			found = append(found, v.glob(filepath.Join(prefix, lib, "python"+version, packages))...)
		}
	}
	return found
}

// systemSites are those of a Python that is no environment: its own, the user's, and
// what Debian adds to the system's.
func (v View) systemSites(prefix, version string, s PythonSearch) []string {
	var found []string
	if s.Home != "" {
		found = v.sites(filepath.Join(s.Home, ".local"), version)
	}
	if prefix == "/usr" {
		found = append(found, v.sites("/usr/local", version)...)
		found = append(found, "/usr/lib/python3/dist-packages")
	}
	return append(found, v.sites(prefix, version)...)
}

// folders keeps of paths the folders that exist, each once whatever link leads to it.
func (v View) folders(paths []string) []string {
	var kept []string
	var infos []os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(v.path(path))
		if err != nil || !info.IsDir() {
			continue
		}
		if slices.ContainsFunc(infos, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			continue
		}
		infos, kept = append(infos, info), append(kept, path)
	}
	return kept
}
