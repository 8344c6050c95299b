package installer

// Installing.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what to install where.
type Options struct {
	Prefix  string
	Payload Payload
	// Force replaces files that are not ours, and removes those that were changed.
	Force bool
	// Try is given the path of a program that is about to be installed; its error stops
	// the install before anything has changed. nil: nothing is tried.
	Try func(path string) error
	// Progress is called before each part of the work, of which there are total.
	Progress func(step, total int, text string)
	// Log gets what is not worth failing for. nil: slog.Default.
	Log *slog.Logger

	before func(step string) error // see transaction
}

// Parts of the work, for Progress.
const (
	installParts   = 4
	uninstallParts = 2
)

func (o *Options) progress(step, total int, format string, args ...any) {
	if o.Progress != nil {
		o.Progress(step, total, fmt.Sprintf(format, args...))
	}
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// Install makes the prefix hold the payload. The plan says what was done; where Done
// was true before, nothing was. After an error everything is as it was.
func Install(ctx context.Context, o Options) (*Plan, error) {
	// A look before anything is made: most refusals come here.
	plan, err := NewPlan(o.Prefix, o.Payload, o.Force)
	if err != nil {
		return nil, err
	}
	if plan.Done() {
		return plan, nil
	}
	for {
		t := &transaction{prefix: o.Prefix, before: o.before}
		plan, err = o.install(ctx, t)
		switch {
		case err == nil:
			return plan, nil
		case !errors.Is(err, errGone):
			return nil, fmt.Errorf("install under %s: %w", o.Prefix, err)
		}
		// An uninstall was at work and has removed the folder that we waited for.
	}
}

// install makes the folders and takes the lock, without which nothing else is done or
// undone.
func (o *Options) install(ctx context.Context, t *transaction) (*Plan, error) {
	above, err := t.prefixFolder()
	if err != nil {
		return nil, t.rollback(err)
	}
	var folders []string
	for _, name := range []string{filepath.Dir(Folder), Folder} {
		made, err := t.folder(t.path(name))
		if err != nil {
			return nil, t.rollback(err)
		}
		if made {
			folders = append(folders, name)
		}
	}
	unlock, err := lock(ctx, t.path(Folder))
	if err != nil {
		return nil, t.rollback(err)
	}
	defer unlock()
	plan, err := o.change(t, folders, above)
	if err != nil {
		return nil, t.rollback(err)
	}
	return plan, nil
}

// change does the work, under the lock.
func (o *Options) change(t *transaction, folders []string, above int) (*Plan, error) {
	o.progress(1, installParts, "look at what is there")
	plan, err := NewPlan(o.Prefix, o.Payload, o.Force)
	if err != nil {
		return nil, err
	}
	if m := plan.Previous; plan.Done() { // another did it meanwhile, in folders that we made
		if len(folders) == 0 && above == 0 {
			return plan, nil
		}
		m.Folders, m.Above = append(m.Folders, folders...), m.Above+above
		return plan, t.writeManifest(m)
	}
	c := newChange(plan, folders, above)
	before := c.before(plan.Previous)
	if err := t.begin(before, plan.Previous); err != nil {
		return nil, err
	}
	o.progress(2, installParts, "write %s", c.amount())
	if err := c.stage(t, before); err != nil {
		return nil, err
	}
	o.progress(3, installParts, "try the new program")
	if err := o.try(t, c); err != nil {
		return nil, err
	}
	o.progress(4, installParts, "put everything in place")
	if err := c.commit(t); err != nil {
		return nil, err
	}
	c.clean(t, before, o.log())
	return plan, nil
}

// prefixFolder makes the prefix, and its parents where they are missing, and counts
// them.
func (t *transaction) prefixFolder() (above int, err error) {
	var missing []string
	for path := t.prefix; ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, path)
	}
	for _, path := range slices.Backward(missing) {
		if _, err := t.folder(path); err != nil {
			return 0, err
		}
	}
	return len(missing), nil
}

// begin writes the manifest of an unfinished install, and puts the earlier one back if
// it fails.
func (t *transaction) begin(m, previous *Manifest) error {
	t.undo = append(t.undo, func() error {
		if previous == nil {
			return os.Remove(t.path(ManifestPath))
		}
		return t.replaceManifest(previous.encode())
	})
	return t.writeManifest(m)
}

// change is an install under way.
type change struct {
	plan *Plan
	next Manifest
	// suffix makes the names of this install's temporary files.
	suffix string
}

func newChange(plan *Plan, folders []string, above int) *change {
	c := &change{plan: plan, suffix: ".tokenscope-" + strings.ToLower(rand.Text()[:8])}
	c.next = Manifest{
		Format: manifestFormat, Version: plan.Version, State: stateComplete,
		Installed: time.Now().UTC().Truncate(time.Second), Files: []Entry{}, Folders: folders, Above: above,
	}
	if p := plan.Previous; p != nil {
		c.next.Folders = append(slices.Clone(p.Folders), folders...)
		c.next.Above += p.Above
		for _, e := range p.Files {
			if !plan.has(e.Path) {
				c.next.Files = append(c.next.Files, e) // a library of an older version
			}
		}
	}
	// bin is made after the manifest is there, which therefore lists it.
	for _, s := range plan.Steps {
		folder := filepath.Dir(s.Path)
		if _, err := os.Stat(filepath.Join(plan.Prefix, folder)); err != nil && !slices.Contains(c.next.Folders, folder) {
			c.next.Folders = append(c.next.Folders, folder)
		}
	}
	if c.next.Folders == nil {
		c.next.Folders = []string{}
	}
	return c
}

// writes lists the steps that put a new file in place.
func (c *change) writes() []*Step {
	var steps []*Step
	for i, s := range c.plan.Steps {
		switch s.Action {
		case ActionCreate, ActionReplace, ActionOverwrite:
			steps = append(steps, &c.plan.Steps[i])
		}
	}
	return steps
}

// amount says how much is going to be written.
func (c *change) amount() string {
	files, bytes := 0, int64(0)
	for _, s := range c.writes() {
		files++
		if s.Target == "" {
			bytes += s.wanted[0].Size
		}
	}
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	return fmt.Sprintf("%d %s, %.1f MB", files, noun, float64(bytes)/1e6)
}

func (c *change) temporary(path string) string { return c.hidden(path) + "-new" }
func (c *change) backup(path string) string    { return c.hidden(path) + "-old" }
func (c *change) hidden(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+c.suffix)
}

// before is the manifest while files change: it lists old and new ones, and what an
// earlier install left behind when it was killed.
func (c *change) before(previous *Manifest) *Manifest {
	m := c.next
	m.State = stateChanging
	m.Files = slices.Clone(c.next.Files)
	if previous != nil {
		m.Files = slices.Clone(previous.Files)
		m.Temporary = slices.Clone(previous.Temporary)
	}
	for _, s := range c.plan.Steps {
		m.Temporary = append(m.Temporary, c.temporary(s.Path), c.backup(s.Path))
	}
	for _, s := range c.writes() {
		for _, e := range s.wanted {
			if !slices.Contains(m.Files, e) {
				m.Files = append(m.Files, e)
			}
		}
	}
	return &m
}

// stage writes all new files under temporary names, and notes what became of links.
func (c *change) stage(t *transaction, before *Manifest) error {
	for _, name := range before.Folders {
		if _, err := t.folder(t.path(name)); err != nil {
			return err
		}
	}
	for i := range c.plan.Steps {
		s := &c.plan.Steps[i]
		switch s.Action {
		case ActionCreate, ActionReplace, ActionOverwrite:
			if s.file.Link != "" {
				// A copy, if it has to be one, is of the linked file.
				linked := c.plan.file(filepath.Join(filepath.Dir(s.Path), s.file.Link))
				s.file.Source, s.file.Data, s.file.Mode = linked.Source, linked.Data, linked.Mode
			}
			e, err := t.stage(s, c.temporary(s.Path))
			if err != nil {
				return err
			}
			s.Target = e.Target
			c.next.Files = append(c.next.Files, e)
		case ActionKeep:
			kept, err := c.kept(s)
			if err != nil {
				return err
			}
			c.next.Files = append(c.next.Files, kept)
		}
	}
	return nil
}

// kept is the entry of a file that stays.
func (c *change) kept(s *Step) (Entry, error) {
	for _, e := range s.wanted {
		if ok, err := e.matches(c.plan.Prefix); ok || err != nil {
			return e, err
		}
	}
	return Entry{}, fmt.Errorf("%s changed while it was being looked at", filepath.Join(c.plan.Prefix, s.Path))
}

// file is the payload's file for a path.
func (p *Plan) file(path string) File {
	for _, s := range p.Steps {
		if s.Path == path {
			return s.file
		}
	}
	return File{}
}

// try runs the staged programs that are no links.
func (o *Options) try(t *transaction, c *change) error {
	if o.Try == nil {
		return nil
	}
	for _, s := range c.writes() {
		if s.file.Mode&0o111 == 0 || s.file.Link != "" || s.file.Source == "" {
			continue
		}
		if err := t.step("try " + s.Path); err != nil {
			return err
		}
		if err := o.Try(t.path(c.temporary(s.Path))); err != nil {
			return fmt.Errorf("try %s: %w", s.Path, err)
		}
	}
	return nil
}

// commit puts the staged files in place. The manifest at its end is the moment from
// which on the new version is installed.
func (c *change) commit(t *transaction) error {
	for _, s := range c.writes() {
		if err := t.replace(s.Path, c.temporary(s.Path), c.backup(s.Path)); err != nil {
			return err
		}
	}
	for _, s := range c.plan.Steps {
		if s.Action == ActionRemove {
			if err := t.remove(s.Path, c.backup(s.Path)); err != nil {
				return err
			}
		}
	}
	c.next.Files = slices.DeleteFunc(c.next.Files, func(e Entry) bool {
		return slices.ContainsFunc(c.plan.Steps, func(s Step) bool { return s.Path == e.Path && s.Action == ActionRemove })
	})
	// What is left of temporary files is listed until it is gone.
	pending := c.next
	pending.Temporary = c.before(c.plan.Previous).Temporary
	return t.writeManifest(&pending)
}

// clean removes backups and what killed installs left. The new version is in place: an
// error is not worth more than a line.
func (c *change) clean(t *transaction, before *Manifest, log *slog.Logger) {
	for _, name := range before.Temporary {
		if err := os.Remove(t.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("cannot remove a temporary file", "error", err)
			return // the manifest goes on listing them
		}
	}
	if err := t.step("clean"); err != nil {
		return
	}
	if err := t.replaceManifest(c.next.encode()); err != nil {
		log.Warn("cannot tidy the manifest", "error", err)
	}
}
