package bootstrap

// The action check, and the launcher's doctor: what is here, what was tried, which way of
// watching would be taken, and what helps.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tokenscope/tokenscope/bootstrap/host"
)

// Ways of watching, and what the launcher's --capture may say.
const (
	BackendEBPF    = "ebpf"
	BackendPreload = "preload"

	captureAuto = "auto"
	captureOff  = "off"
)

// Verdict is what trying one way of watching gave.
type Verdict struct {
	// Err is why it does not work, Cure what would help; nil and "" where it works.
	Err  error
	Cure string
	// Note is said beside a success: what could not be tried, how long it took.
	Note string
	// Features are what it can watch, one by one, if it is made of such.
	Features []Feature
}

// Feature is one thing that a backend can watch.
type Feature struct {
	Name string
	// Err is why it is lost, Lost what cannot be seen then, Cure what would help.
	Err        error
	Lost, Cure string
}

// CheckOptions say what to look at and how to print it.
type CheckOptions struct {
	// PID is a process to look at; 0 for those that look like engines.
	PID int
	// Pythons are further interpreters to look at.
	Pythons []string
	JSON    bool
	Stdout  io.Writer
	// Capture is the launcher's setting: auto, ebpf, preload or off.
	Capture string
}

// report is what check prints.
type report struct {
	Version  string        `json:"version"`
	Works    bool          `json:"works"`
	Taken    string        `json:"taken"`
	Why      string        `json:"why"`
	Backends []backendJSON `json:"backends"`
	Machine  []Item        `json:"machine"`
	Engines  []pythonJSON  `json:"engines"`
	Servers  []server      `json:"servers"`
	// Unseen counts processes whose mappings may not be read.
	Unseen int `json:"unseen_processes"`
}

type backendJSON struct {
	Name     string        `json:"name"`
	Works    bool          `json:"works"`
	Error    string        `json:"error,omitempty"`
	Cure     string        `json:"cure,omitempty"`
	Note     string        `json:"note,omitempty"`
	Features []featureJSON `json:"features"`
}

type featureJSON struct {
	Name  string `json:"name"`
	Works bool   `json:"works"`
	Error string `json:"error,omitempty"`
	Lost  string `json:"lost,omitempty"`
	Cure  string `json:"cure,omitempty"`
}

// Check looks, tries, prints, and gives exit status 1 where nothing would work.
func (a *App) Check(ctx context.Context, o CheckOptions) (int, error) {
	r, err := a.report(ctx, o)
	if err != nil {
		return exitFailure, err
	}
	if o.JSON {
		err = writeJSON(o.Stdout, r)
	} else {
		err = r.page().writeTo(o.Stdout)
	}
	if err != nil || !r.Works {
		return exitFailure, err
	}
	return exitOK, nil
}

func (a *App) report(ctx context.Context, o CheckOptions) (*report, error) {
	r := &report{Version: a.Version, Backends: []backendJSON{}, Engines: []pythonJSON{}, Servers: []server{}}
	pythons, err := a.pythons(o.Pythons)
	if err != nil {
		return nil, err
	}
	for _, p := range pythons {
		if len(p.engines()) > 0 {
			r.Engines = append(r.Engines, p)
		}
	}
	if err := a.servers(r, o.PID); err != nil {
		return nil, err
	}
	r.Machine = a.machine()
	for _, b := range []struct {
		name string
		try  func(context.Context) Verdict
	}{{BackendEBPF, a.EBPF}, {BackendPreload, a.Preload}} {
		v := Verdict{Err: errNotLinked}
		if b.try != nil {
			v = b.try(ctx)
		}
		r.Backends = append(r.Backends, v.json(b.name))
	}
	r.decide(o.Capture)
	return r, nil
}

// errNotLinked is the verdict on a way of watching that this build does not have.
var errNotLinked = errors.New("it is not part of this build")

func (v *Verdict) json(name string) backendJSON {
	b := backendJSON{Name: name, Works: v.Err == nil, Cure: v.Cure, Note: v.Note, Features: []featureJSON{}}
	if v.Err != nil {
		b.Error = v.Err.Error()
	}
	for _, f := range v.Features {
		j := featureJSON{Name: f.Name, Works: f.Err == nil}
		if f.Err != nil {
			j.Error, j.Lost, j.Cure = f.Err.Error(), f.Lost, f.Cure
		}
		b.Features = append(b.Features, j)
	}
	return b
}

// servers looks at one process, or at those that look like engines.
func (a *App) servers(r *report, pid int) error {
	if pid > 0 {
		p, err := a.view.Process(pid)
		if err != nil {
			return err
		}
		r.Servers = append(r.Servers, newServer(&p))
		return nil
	}
	found, unseen, err := a.view.Servers()
	if err != nil {
		return fmt.Errorf("look for servers: %w", err)
	}
	r.Unseen = unseen
	for _, p := range found {
		r.Servers = append(r.Servers, newServer(&p))
	}
	return nil
}

// decide says which way the launcher would take: eBPF where it proves that it sees, else
// the library, unless the settings name one.
func (r *report) decide(capture string) {
	works := map[string]bool{}
	for _, b := range r.Backends {
		works[b.Name] = b.Works
	}
	switch {
	case capture == captureOff:
		r.Works, r.Why = true, "nothing is watched, as asked for"
	case capture == BackendEBPF || capture == BackendPreload:
		r.Works, r.Why = works[capture], "asked for by name"
		if r.Works {
			r.Taken = capture
		}
	case works[BackendEBPF]:
		r.Works, r.Taken, r.Why = true, BackendEBPF, "it was tried and sees"
	case works[BackendPreload]:
		r.Works, r.Taken, r.Why = true, BackendPreload, "eBPF does not work here"
	default:
		r.Why = "neither way works here"
	}
}

// page is the report in words.
func (r *report) page() *page {
	p := new(page)
	p.heading("Machine")
	for _, i := range r.Machine {
		i.linesTo(p)
	}
	p.heading("Engines installed")
	for _, python := range r.Engines {
		python.linesTo(p)
	}
	if len(r.Engines) == 0 {
		p.line("  none in the Pythons that PATH leads to")
	}
	p.heading("Servers running")
	for _, s := range r.Servers {
		s.linesTo(p)
	}
	if len(r.Servers) == 0 {
		p.line("  none that has libzmq loaded")
	}
	if r.Unseen > 0 {
		p.line("  the mappings of %d processes may not be read", r.Unseen)
	}
	p.heading("Ways of watching")
	for _, b := range r.Backends {
		b.linesTo(p)
	}
	p.heading("Verdict")
	switch {
	case r.Taken != "":
		p.line("  instrument would watch by %s (%s)", r.Taken, r.Why)
	default:
		p.line("  instrument would run the server and see nothing of it: %s", r.Why)
	}
	return p
}

func (b *backendJSON) linesTo(p *page) {
	if b.Works {
		p.line("  %-8s works%s", b.Name, inBrackets(b.Note))
	} else {
		p.line("  %-8s does not work: %s", b.Name, b.Error)
		if b.Cure != "" {
			p.line("  %-8s cure: %s", "", b.Cure)
		}
	}
	for _, f := range b.Features {
		// Where nothing works, each feature's reason is the same.
		if f.Works || !b.Works {
			continue
		}
		p.line("  %-8s lost: %s (%s: %s)", "", f.Lost, f.Name, f.Error)
		if f.Cure != "" {
			p.line("  %-8s cure: %s", "", f.Cure)
		}
	}
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// server is a running process.
type server struct {
	PID     int    `json:"pid"`
	Comm    string `json:"comm"`
	Exe     string `json:"exe"`
	Carries bool   `json:"carries_library"`
	// Launcher is the pid of the instrument that it runs behind, 0 for none.
	Launcher int `json:"launcher"`
	// Ring and Preload are what it was started with; "" for nothing, or not readable.
	Ring      string    `json:"ring,omitempty"`
	Preload   string    `json:"ld_preload,omitempty"`
	Libraries []library `json:"libraries"`
	Notes     []string  `json:"notes"`
}

type library struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	Error   string `json:"error,omitempty"`
}

// newServer words what is known of a process, and what does not bode well.
func newServer(p *host.Process) server {
	s := server{PID: p.PID, Comm: p.Comm, Exe: p.Exe.Text, Carries: p.Carries(), Launcher: p.Launcher, Ring: p.Ring.Text, Preload: p.Preload.Text, Libraries: []library{}, Notes: []string{}}
	note := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	if p.Maps != nil {
		note("its mappings may not be read (%v): it can be watched only by eBPF, by its own user or with CAP_SYS_PTRACE", p.Maps)
		return s
	}
	for _, l := range p.Libraries {
		j := library{Kind: string(l.Kind), Path: l.Path, Version: l.Version, BuildID: l.BuildID, Deleted: l.Deleted}
		if l.Err != nil {
			j.Error = l.Err.Error()
		}
		s.Libraries = append(s.Libraries, j)
		if len(l.Missing) > 0 && (l.Kind == host.LibZMQ || l.Kind == host.LibSSL) {
			note("%s does not export %s: what goes through it is not seen", l.Path, strings.Join(l.Missing, ", "))
		}
	}
	zmq := p.Of(host.ModuleZMQ)
	switch shared := p.Of(host.LibZMQ); {
	case len(shared) == 0 && len(zmq) == 0:
		note("no libzmq is loaded (yet): an engine loads it with its first socket")
	case len(shared) == 0 && len(zmq[0].Missing) > 0:
		note("libzmq is built into %s, which does not export its functions: engine messages cannot be seen", zmq[0].Path)
	}
	if ssl := p.Of(host.ModuleSSL); len(p.Of(host.LibSSL)) == 0 && len(ssl) > 0 {
		note("OpenSSL is built into Python or %s: HTTP over TLS is not seen", ssl[0].Path)
	}
	if len(p.Of(host.LibC)) == 0 {
		note("no C library is loaded: the program is linked statically, and no library can be put into it")
	}
	return s
}

func (s *server) linesTo(p *page) {
	p.line("  %d %s  %s", s.PID, s.Comm, s.Exe)
	for _, l := range s.Libraries {
		if l.Kind == string(host.LibC) {
			continue
		}
		text := fmt.Sprintf("    %-10s %s", l.Kind, l.Path)
		if l.BuildID != "" {
			text += "  build " + l.BuildID
		}
		if l.Deleted {
			text += "  (deleted)"
		}
		if l.Error != "" {
			text += "  (" + l.Error + ")"
		}
		p.line("%s", text)
	}
	p.line("    %-10s %s", "watched", s.watched())
	for _, n := range s.Notes {
		p.line("    %-10s %s", "note", n)
	}
}

// watched says whether it was started to be watched.
func (s *server) watched() string {
	text := "no: it does not run behind instrument; start it anew behind it"
	if s.Launcher != 0 {
		text = fmt.Sprintf("runs behind instrument, process %d", s.Launcher)
	}
	switch {
	case s.Carries && s.Ring != "":
		text += "; carries our library, with the ring " + s.Ring
	case s.Carries:
		text += "; carries our library"
	}
	return text
}
