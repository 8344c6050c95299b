package bootstrap

// What is to be installed, and where.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tokenscope/tokenscope/bootstrap/host"
	"github.com/tokenscope/tokenscope/installer"
)

// Names of the launcher.
const (
	nameInstrument = "instrument"
	nameTokenscope = "tokenscope"
)

// Modes of what is installed. A library that can be run says what it is, and some
// systems' policies want the permission on what is mapped to be run.
const (
	modeProgram = fs.FileMode(0o755)
	modeLibrary = fs.FileMode(0o755)
)

// payload finds what lies beside the running program.
func (a *App) payload(second bool) (installer.Payload, error) {
	self, err := a.self()
	if err != nil {
		return installer.Payload{}, err
	}
	launcher, err := launcherBeside(self)
	if err != nil {
		return installer.Payload{}, err
	}
	p := installer.Payload{Version: a.Version}
	if second {
		p.Files = append(p.Files, installer.File{Path: "bin/" + nameTokenscope, Mode: modeProgram, Source: launcher})
	} else {
		p.Files = append(p.Files,
			installer.File{Path: "bin/" + nameInstrument, Mode: modeProgram, Source: launcher},
			installer.File{Path: "bin/" + nameTokenscope, Mode: modeProgram, Link: nameInstrument, Optional: true})
	}
	// Its name is a common one: where another has it, that is no reason to do without
	// the launcher.
	p.Files = append(p.Files, installer.File{Path: "bin/" + Name, Mode: modeProgram, Source: self, Optional: true})
	if name, data := a.library(); data != nil {
		p.Files = append(p.Files, installer.File{Path: installer.Folder + "/" + name, Mode: modeLibrary, Data: data})
	}
	return p, nil
}

func (a *App) library() (name string, data []byte) {
	if a.Library == nil {
		return "", nil
	}
	return a.Library()
}

// self is the running program's own file.
func (a *App) self() (string, error) {
	path := a.executable
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find the running program: %w", err)
		}
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	return resolved, nil
}

// launcherBeside finds the launcher in the folder of the running program, under either
// of its names.
func launcherBeside(self string) (string, error) {
	folder := filepath.Dir(self)
	for _, name := range []string{nameInstrument, nameTokenscope} {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("find what to install: there is no %s beside %s; unpack the whole archive, both belong together", nameInstrument, self)
}

// environment is what the choice of a prefix depends on.
func (a *App) environment() installer.Environment {
	getenv := a.getenv()
	return installer.Environment{Path: a.path(), Home: getenv("HOME"), VirtualEnv: getenv("VIRTUAL_ENV"), Root: a.root()}
}

// tryLimit is long enough for a cold disk.
const tryLimit = 20 * time.Second

// tryProgram runs a program that is about to be installed: a file system may be mounted
// noexec, and an archive may be for another machine.
func (a *App) tryProgram(path string) error {
	if a.try != nil {
		return a.try(path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tryLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it does not answer within %s", tryLimit)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w; the archive is for another machine: take the one for this architecture", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w; %s", err, a.noExec(path))
	case err != nil:
		return err
	}
	if words := strings.Fields(string(out)); len(words) < 3 || words[1] != "version" {
		return fmt.Errorf("it answers %q", printable(string(out[:min(len(out), 200)])))
	} else if words[2] != a.Version {
		a.say("warning: %s is of version %s, %s of %s", words[0], printable(words[2]), Name, a.Version)
	}
	return nil
}

// noExec says what stands in the way of running a file.
func (a *App) noExec(path string) string {
	if mounts, err := a.view.Mounts(); err == nil {
		if m, ok := host.MountOf(mounts, path); ok && m.Has("noexec") {
			return fmt.Sprintf("%s is mounted noexec: choose another volume with --prefix, or mount it without", m.Point)
		}
	}
	return "programs may not be run there: choose another folder with --prefix"
}
