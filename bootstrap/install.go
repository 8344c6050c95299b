package bootstrap

// The actions install and uninstall.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tokenscope/tokenscope/installer"
)

// lockPatience is how long another bootstrap at work under the same prefix is waited
// for.
const lockPatience = 30 * time.Second

// What became of an action.
const (
	statusInstalled      = "installed"
	statusAlready        = "already installed"
	statusWouldInstall   = "would install"
	statusUninstalled    = "uninstalled"
	statusNotInstalled   = "not installed"
	statusWouldUninstall = "would uninstall"
	statusPartly         = "partly uninstalled"
	statusFailed         = "failed"
)

// result is what install and uninstall print.
type result struct {
	Action  string `json:"action"`
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
	// Before is the version that was installed before.
	Before string     `json:"version_before,omitempty"`
	Prefix string     `json:"prefix,omitempty"`
	Files  []fileStep `json:"files"`
	Notes  []string   `json:"notes"`
	Error  string     `json:"error,omitempty"`
}

// fileStep is what happens to one file.
type fileStep struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	Target string `json:"target,omitempty"`
	Why    string `json:"why,omitempty"`
}

func fileSteps(p *installer.Plan) []fileStep {
	steps := []fileStep{}
	for _, s := range p.Steps {
		step := fileStep{Path: filepath.Join(p.Prefix, s.Path), Action: string(s.Action), Target: s.Target, Why: s.Why}
		if s.Action == installer.ActionSkip || s.Action == installer.ActionInPlace {
			step.Target = "" // it is somebody else's, whatever it is
		}
		steps = append(steps, step)
	}
	return steps
}

// install is the action of that name.
func (a *App) install(ctx context.Context, o options) (int, error) {
	r := &result{Action: ActionInstall, Prefix: o.prefix, Version: a.Version, Files: []fileStep{}, Notes: []string{}}
	return a.finish(o, r, a.doInstall(ctx, o, r))
}

func (a *App) doInstall(ctx context.Context, o options, r *result) (err error) {
	payload, err := a.payload(o.second)
	if err != nil {
		return err
	}
	if r.Prefix == "" {
		if r.Prefix, err = installer.Choose(a.environment()); err != nil {
			return err
		}
		a.detail(o, "chose the prefix %s", r.Prefix)
	}
	var plan *installer.Plan
	if o.dryRun {
		plan, err = installer.NewPlan(r.Prefix, payload, o.force)
		r.Status = statusWouldInstall
	} else {
		ctx, cancel := context.WithTimeout(ctx, lockPatience)
		defer cancel()
		r.Status = statusAlready
		plan, err = installer.Install(ctx, installer.Options{
			Prefix: r.Prefix, Payload: payload, Force: o.force, Try: a.tryProgram,
			Progress: func(step, total int, text string) {
				r.Status = statusInstalled
				a.say("[%d/%d] %s", step, total, text)
			},
			Log: a.logger(o),
		})
	}
	if err != nil {
		return withCure(err, o)
	}
	if plan.Done() {
		r.Status = statusAlready
	}
	if plan.Previous != nil && plan.Previous.Version != r.Version {
		r.Before = plan.Previous.Version
	}
	r.Files = fileSteps(plan)
	r.Notes = append(r.Notes, a.installNotes(r.Prefix, o)...)
	return nil
}

// withCure adds what would help against an error of the installer.
func withCure(err error, o options) error {
	var clash *installer.ClashError
	switch {
	case errors.As(err, &clash) && clash.Changed:
		return fmt.Errorf("%w; --force replaces it", err)
	case errors.As(err, &clash) && filepath.Base(clash.Path) == nameInstrument && !o.second:
		return fmt.Errorf("%w; install under the second name alone with --as-tokenscope, choose another folder with --prefix, or replace it with --force", err)
	case errors.As(err, &clash):
		return fmt.Errorf("%w; choose another folder with --prefix, or replace it with --force", err)
	}
	if cure := installer.Cure(err); cure != "" && !strings.Contains(err.Error(), "--prefix") {
		return fmt.Errorf("%w; %s", err, cure)
	}
	return err
}

// installNotes say what the user should know before calling the launcher by its name.
func (a *App) installNotes(prefix string, o options) []string {
	bin := filepath.Join(prefix, "bin")
	name := nameInstrument
	if o.second {
		name = nameTokenscope
	}
	ours := filepath.Join(bin, name)
	if !installer.OnPath(bin, a.path()) {
		return []string{fmt.Sprintf("%s is not on PATH: start the server by %s, or add the folder", bin, ours)}
	}
	if first := a.firstOnPath(name); first != "" && filepath.Dir(first) != bin && !sameFile(first, ours) {
		note := fmt.Sprintf("another %s comes first on PATH: %s", name, first)
		if !o.second {
			note += "; " + nameTokenscope + " is the second name of this one"
		}
		return []string{note}
	}
	return nil
}

// firstOnPath is the program that a shell would run by this name, "" for none.
func (a *App) firstOnPath(name string) string {
	for _, folder := range a.path() {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func sameFile(one, other string) bool {
	a, aerr := os.Stat(one)
	b, berr := os.Stat(other)
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

// uninstall is the action of that name.
func (a *App) uninstall(ctx context.Context, o options) (int, error) {
	r := &result{Action: ActionUninstall, Prefix: o.prefix, Files: []fileStep{}, Notes: []string{}}
	return a.finish(o, r, a.doUninstall(ctx, o, r))
}

func (a *App) doUninstall(ctx context.Context, o options, r *result) (err error) {
	if r.Prefix == "" {
		if r.Prefix, err = a.installedPrefix(); err != nil {
			return err
		}
	}
	var removal *installer.Removal
	switch {
	case r.Prefix == "":
		err = installer.ErrNotInstalled
	case o.dryRun:
		removal, err = installer.NewRemoval(r.Prefix, o.force)
		r.Status = statusWouldUninstall
	default:
		ctx, cancel := context.WithTimeout(ctx, lockPatience)
		defer cancel()
		r.Status = statusUninstalled
		removal, err = installer.Uninstall(ctx, installer.Options{
			Prefix: r.Prefix, Force: o.force, Log: a.logger(o),
			Progress: func(step, total int, text string) { a.say("[%d/%d] %s", step, total, text) },
		})
	}
	if errors.Is(err, installer.ErrNotInstalled) {
		r.Status = statusNotInstalled
		return nil
	}
	if err != nil {
		return withCure(err, o)
	}
	r.Version = removal.Version
	for _, name := range removal.Removed {
		r.Files = append(r.Files, fileStep{Path: filepath.Join(r.Prefix, name), Action: "remove"})
	}
	for _, name := range removal.Changed {
		r.Files = append(r.Files, fileStep{Path: filepath.Join(r.Prefix, name), Action: "leave", Why: "it was changed after it was installed"})
	}
	if len(removal.Changed) > 0 {
		r.Status = statusPartly
		return errors.New("files that were changed after they were installed are left; --force removes them, too")
	}
	return nil
}

// installedPrefix finds where an install has left its manifest: around the running
// program, else where an install would go. Several are the user's to choose from.
func (a *App) installedPrefix() (string, error) {
	has := func(prefix string) bool {
		_, err := os.Stat(filepath.Join(prefix, installer.ManifestPath))
		return err == nil
	}
	if self, err := a.self(); err == nil {
		if prefix := filepath.Dir(filepath.Dir(self)); has(prefix) {
			return prefix, nil
		}
	}
	var found []string
	for _, c := range installer.Candidates(a.environment()) {
		if has(c.Prefix) {
			found = append(found, c.Prefix)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("choose what to uninstall: it is installed under %s; name one with --prefix", strings.Join(found, " and "))
}

// finish prints a result and gives the exit status. An error stands in the object for
// programs as well as on standard error.
func (a *App) finish(o options, r *result, err error) (int, error) {
	if err != nil {
		r.Error = err.Error()
		if r.Status != statusPartly {
			r.Status = statusFailed
		}
	}
	if o.json {
		if werr := writeJSON(a.stdout(), r); werr != nil {
			return exitFailure, errors.Join(err, werr)
		}
		return exitFailure, err
	}
	if r.Status == statusFailed {
		return exitFailure, err
	}
	if werr := r.page(o).writeTo(a.stdout()); werr != nil {
		return exitFailure, errors.Join(err, werr)
	}
	return exitOK, err
}

// page is the result in words.
func (r *result) page(o options) *page {
	p := new(page)
	where := ""
	if r.Prefix != "" {
		where = " under " + r.Prefix
	}
	switch r.Status {
	case statusNotInstalled:
		p.line("%s%s", r.Status, where)
	default:
		before := ""
		if r.Before != "" {
			before = " instead of " + r.Before
		}
		p.line("%s%s: version %s%s", r.Status, where, r.Version, before)
	}
	for _, f := range r.Files {
		f.lineTo(p)
	}
	for _, note := range r.Notes {
		p.line("note: %s", note)
	}
	return p
}

// lineTo is one file in words.
func (f fileStep) lineTo(p *page) {
	text := f.Path
	if f.Target != "" {
		text += " -> " + f.Target
	}
	if f.Why != "" {
		text += " (" + f.Why + ")"
	}
	p.line("  %-9s  %s", f.Action, text)
}

// detail is said only to whoever wants to know more.
func (a *App) detail(o options, format string, args ...any) {
	if o.verbose {
		a.say(format, args...)
	}
}

// logger is for what the installer has to say.
func (a *App) logger(o options) *slog.Logger {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	return slog.New(&sayer{app: a, level: level})
}

// sayer is a slog.Handler that says each record as one line.
type sayer struct {
	app   *App
	level slog.Level
	attrs []slog.Attr
}

func (s *sayer) Enabled(_ context.Context, level slog.Level) bool { return level >= s.level }

func (s *sayer) Handle(_ context.Context, r slog.Record) error {
	text := strings.ToLower(r.Level.String()) + ": " + r.Message
	add := func(attr slog.Attr) bool {
		text += fmt.Sprintf(" %s=%s", attr.Key, quoted(attr.Value.String()))
		return true
	}
	for _, attr := range s.attrs {
		add(attr)
	}
	r.Attrs(add)
	s.app.say("%s", text)
	return nil
}

func (s *sayer) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sayer{s.app, s.level, append(s.attrs[:len(s.attrs):len(s.attrs)], attrs...)}
}

func (s *sayer) WithGroup(string) slog.Handler { return s }
