package installer

// What an install would do to each file.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Payload is what is to be there after an install.
type Payload struct {
	Version string
	Files   []File
}

// File is one of them. Its content is Data, or that of the file Source, or, for a link,
// what the file Link beside it has.
type File struct {
	Path   string // below the prefix
	Mode   fs.FileMode
	Source string
	Data   []byte
	// Link is the name of another file of the payload in the same folder. Where links
	// cannot be made, it is copied.
	Link string
	// Optional says that the rest is installed even if the path is somebody else's.
	Optional bool
}

// Action is what happens to a file.
type Action string

// Actions.
const (
	ActionCreate  Action = "create"
	ActionReplace Action = "replace" // an older one of ours
	ActionKeep    Action = "keep"    // ours, and as it should be
	// ActionInPlace: there already and not put there by us: pip or a package did, and
	// will take it away again.
	ActionInPlace Action = "in place"
	ActionSkip    Action = "skip"   // optional, and somebody else's
	ActionRemove  Action = "remove" // of an older version that had more files
	// ActionOverwrite: somebody else's, or ours and changed; with Force.
	ActionOverwrite Action = "overwrite"
)

// Step is what happens to one file.
type Step struct {
	Path   string
	Action Action
	// Target is what a link will point to.
	Target string
	// Why is said of ActionSkip and ActionInPlace.
	Why string

	file   File
	wanted []Entry // any of them is right; a link may become a copy
}

// Plan is what an install would do.
type Plan struct {
	Prefix  string
	Version string
	Steps   []Step
	// Previous is what is installed now; nil for nothing.
	Previous *Manifest
}

// Done reports whether there is nothing to do.
func (p *Plan) Done() bool {
	for _, s := range p.Steps {
		switch s.Action {
		case ActionKeep, ActionInPlace, ActionSkip:
		default:
			return false
		}
	}
	m := p.Previous
	return m != nil && m.State == stateComplete && m.Version == p.Version && len(m.Temporary) == 0
}

// ClashError is about a path that is taken.
type ClashError struct {
	Path    string
	Changed bool // it was ours once
}

func (e *ClashError) Error() string {
	if e.Changed {
		return fmt.Sprintf("%s was changed after it was installed", e.Path)
	}
	return fmt.Sprintf("%s is there already and is not ours", e.Path)
}

// errFolder is about a folder where a file should be: not even Force removes that.
var errFolder = errors.New("is a folder")

// NewPlan looks at a prefix and changes nothing. With force, files of others are
// replaced too.
func NewPlan(prefix string, payload Payload, force bool) (*Plan, error) {
	p := &Plan{Prefix: prefix, Version: payload.Version}
	var err error
	if p.Previous, err = ReadManifest(prefix); err != nil && !errors.Is(err, ErrNotInstalled) {
		return nil, err
	}
	sums := map[string]Entry{}
	for _, f := range payload.Files {
		if f.Link == "" {
			if sums[f.Path], err = f.entry(); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range payload.Files {
		s := Step{Path: f.Path, file: f, Target: f.Link}
		copied := sums[f.Path]
		if f.Link != "" {
			copied = sums[filepath.Join(filepath.Dir(f.Path), f.Link)]
			copied.Path = f.Path
			s.wanted = []Entry{{Path: f.Path, Target: f.Link}}
		}
		s.wanted = append(s.wanted, copied)
		if err := s.decide(p, force); err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, s)
	}
	return p, p.obsolete()
}

// entry is what the manifest will say of a file that is no link.
func (f File) entry() (Entry, error) {
	e := Entry{Path: f.Path, Mode: octal(f.Mode)}
	if f.Source == "" {
		sum := sha256.Sum256(f.Data)
		e.SHA256, e.Size = hex.EncodeToString(sum[:]), int64(len(f.Data))
		return e, nil
	}
	var err error
	if e.SHA256, e.Size, err = hashFile(f.Source); err != nil {
		return e, fmt.Errorf("read what is to be installed: %w", err)
	}
	return e, nil
}

// decide sets the step's action by what is on its path.
func (s *Step) decide(p *Plan, force bool) error {
	path := filepath.Join(p.Prefix, s.Path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Action = ActionCreate
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	case info.IsDir():
		return fmt.Errorf("install %s: %w; remove it, or choose another --prefix", path, errFolder)
	}
	ours := p.Previous.entries(s.Path)
	right, err := anyMatches(s.wanted, p.Prefix)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if right {
		s.Action = ActionKeep
		switch {
		case len(ours) == 0:
			s.Action, s.Why = ActionInPlace, "put there by something else, pip or a package"
		case info.Mode().IsRegular() && info.Mode().Perm() != s.file.Mode:
			s.Action = ActionReplace // somebody changed its mode
		}
		return nil
	}
	if len(ours) > 0 {
		unchanged, err := anyMatches(ours, p.Prefix)
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if unchanged {
			s.Action = ActionReplace
			return nil
		}
	}
	switch {
	case force:
		s.Action = ActionOverwrite
	case s.file.Optional:
		s.Action, s.Why = ActionSkip, "another program has the name"
	default:
		return &ClashError{Path: path, Changed: len(ours) > 0 && p.Previous.State == stateComplete}
	}
	return nil
}

// anyMatches reports whether what is on a path is one of these.
func anyMatches(entries []Entry, prefix string) (bool, error) {
	for _, e := range entries {
		ok, err := e.matches(prefix)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// obsolete adds the removal of files that only the older version had. Libraries stay
// until the uninstall: the loader of a program that a running server starts would
// complain of one that is gone.
func (p *Plan) obsolete() error {
	if p.Previous == nil {
		return nil
	}
	for _, e := range p.Previous.Files {
		if p.has(e.Path) || strings.HasPrefix(e.Path, Folder+"/") {
			continue
		}
		switch ok, err := anyMatches(p.Previous.entries(e.Path), p.Prefix); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at %s: %w", filepath.Join(p.Prefix, e.Path), err)
		case ok:
			p.Steps = append(p.Steps, Step{Path: e.Path, Action: ActionRemove})
		}
	}
	return nil
}

func (p *Plan) has(path string) bool {
	for _, s := range p.Steps {
		if s.Path == path {
			return true
		}
	}
	return false
}
