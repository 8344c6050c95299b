package bootstrap

// The action requirements: what is here, and what an install would do.

import (
	"context"
	"fmt"
	"strings"

	"github.com/tokenscope/tokenscope/bootstrap/host"
)

// requirementsReport is what the action prints.
type requirementsReport struct {
	Version   string       `json:"version"`
	Pythons   []pythonJSON `json:"pythons"`
	Libcs     []libcJSON   `json:"libcs"`
	Container string       `json:"container"`
	User      userJSON     `json:"user"`
	Install   result       `json:"install"`
}

type pythonJSON struct {
	Path        string        `json:"path"`
	Version     string        `json:"version"`
	Prefix      string        `json:"prefix"`
	Environment bool          `json:"virtual_environment"`
	Packages    []packageJSON `json:"packages"`
	LibZMQ      []string      `json:"libzmq"`
}

type packageJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Engine  bool   `json:"engine"`
	Site    string `json:"site"`
}

type libcJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Loader  string `json:"loader"`
}

// userJSON is who runs this. Uid is null where proc does not tell.
type userJSON struct {
	UID          *int     `json:"uid"`
	Capabilities []string `json:"capabilities"`
	NoNewPrivs   bool     `json:"no_new_privs"`
}

func (a *App) requirements(ctx context.Context, o options) (int, error) {
	pythons, err := a.pythons(o.pythons)
	if err != nil {
		return exitFailure, err
	}
	r := requirementsReport{
		Version: a.Version, Pythons: pythons, Libcs: []libcJSON{},
		Container: a.view.Container(a.getenv()), User: userJSON{Capabilities: []string{}},
		Install: result{Action: ActionInstall, Prefix: o.prefix, Version: a.Version, Files: []fileStep{}, Notes: []string{}},
	}
	for _, l := range a.view.Libcs() {
		r.Libcs = append(r.Libcs, libcJSON(l))
	}
	if p := a.view.Privileges("self"); p.Err == nil {
		r.User.UID, r.User.NoNewPrivs = &p.UID, p.NoNewPrivs
		r.User.Capabilities = append(r.User.Capabilities, p.Effective.Names()...)
	}
	o.dryRun = true
	if err := a.doInstall(ctx, o, &r.Install); err != nil {
		r.Install.Status, r.Install.Error = statusFailed, err.Error()
	}
	if o.json {
		return exitOK, writeJSON(a.stdout(), &r)
	}
	return exitOK, r.page(o).writeTo(a.stdout())
}

// pythons finds the Pythons of this machine.
func (a *App) pythons(interpreters []string) ([]pythonJSON, error) {
	getenv := a.getenv()
	found, err := a.view.Pythons(host.PythonSearch{
		Path: a.path(), Interpreters: interpreters, Home: getenv("HOME"),
		PythonPath: strings.FieldsFunc(getenv("PYTHONPATH"), func(r rune) bool { return r == ':' }),
	})
	if err != nil {
		return nil, err
	}
	pythons := []pythonJSON{}
	for _, p := range found {
		j := pythonJSON{
			Path: p.Path, Version: p.Version, Prefix: p.Prefix, Environment: p.Environment,
			Packages: []packageJSON{}, LibZMQ: append([]string{}, p.LibZMQ...),
		}
		for _, q := range p.Packages {
			j.Packages = append(j.Packages, packageJSON(q))
		}
		pythons = append(pythons, j)
	}
	return pythons, nil
}

// engines lists the engines of a Python in words: "vllm 0.14.0".
func (p *pythonJSON) engines() []string {
	var words []string
	for _, q := range p.Packages {
		if q.Engine {
			words = append(words, q.Name+" "+q.Version)
		}
	}
	return words
}

// lineTo is a Python and what it has in words.
func (p *pythonJSON) linesTo(to *page) {
	version := p.Version
	if version == "" {
		version = "of unknown version"
	}
	kind := ""
	if p.Environment {
		kind = ", a virtual environment"
	}
	to.line("  Python %s  %s%s", version, p.Path, kind)
	for _, q := range p.Packages {
		to.line("    %-8s %s  %s", q.Name, q.Version, q.Site)
	}
	for _, path := range p.LibZMQ {
		to.line("    %-8s %s", "libzmq", path)
	}
}

// page is the report in words. Pythons without an engine are for who wants to know more.
func (r *requirementsReport) page(o options) *page {
	p := new(page)
	p.heading("Engines")
	shown := 0
	for _, python := range r.Pythons {
		if len(python.engines()) > 0 || o.verbose {
			python.linesTo(p)
			shown++
		}
	}
	if shown == 0 {
		p.line("  none in the %d Pythons that PATH leads to; name another with --python FILE", len(r.Pythons))
	}
	p.heading("Machine")
	p.line("  user       %s", r.User)
	p.line("  container  %s", orNone(r.Container))
	var libcs []string
	for _, l := range r.Libcs {
		libcs = append(libcs, strings.TrimSpace(l.Name+" "+l.Version))
	}
	p.line("  libc       %s", orNone(strings.Join(libcs, ", ")))
	p.heading("Install")
	if r.Install.Error != "" {
		p.line("  would fail: %s", r.Install.Error)
	} else {
		p.line("  %s under %s: version %s", r.Install.Status, r.Install.Prefix, r.Install.Version)
		for _, f := range r.Install.Files {
			p.b.WriteString("  ")
			f.lineTo(p)
		}
		for _, note := range r.Install.Notes {
			p.line("  note: %s", note)
		}
	}
	p.line("")
	p.line("Next: %s -a check tells whether watching works here; %s -a install installs.", Name, Name)
	return p
}

func orNone(text string) string {
	if text == "" {
		return "none found"
	}
	return text
}

// String is the user in words.
func (u userJSON) String() string {
	who := "unknown"
	if u.UID != nil {
		who = fmt.Sprintf("uid %d", *u.UID)
	}
	capabilities := "none that help"
	if len(u.Capabilities) > 0 {
		capabilities = strings.Join(u.Capabilities, " ")
	}
	text := who + ", capabilities: " + capabilities
	if u.NoNewPrivs {
		text += ", no_new_privs"
	}
	return text
}
