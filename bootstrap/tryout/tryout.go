// Package tryout tries the two ways of watching on this machine, as the launcher would use
// them, and leaves nothing behind: no probe, no library, no process.
package tryout

import (
	"bytes"
	"context"
	"crypto/rand"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tokenscope/tokenscope/bootstrap"
	"github.com/tokenscope/tokenscope/probes/capture"
	"github.com/tokenscope/tokenscope/probes/ebpf"
	"github.com/tokenscope/tokenscope/probes/preload"
)

// EBPF loads the kernel programs and lets them see a process of ours.
func EBPF(ctx context.Context) bootstrap.Verdict {
	r := ebpf.Check(ctx, ebpf.Options{})
	v := bootstrap.Verdict{Err: r.Err, Cure: ebpf.Cure(r.Err)}
	if r.Err == nil {
		v.Note = fmt.Sprintf("its self-test saw its own bytes; opened in %d ms, tested in %d ms", r.Opening.Milliseconds(), r.Testing.Milliseconds())
	}
	for _, f := range r.Features {
		v.Features = append(v.Features, bootstrap.Feature{Name: f.Name, Err: f.Err, Lost: f.Lost, Cure: ebpf.Cure(f.Err)})
	}
	return v
}

// preloadLimit bounds the trial of the library: it takes some ten milliseconds.
const preloadLimit = 5 * time.Second

// Preload puts the library into a small program of the machine and wants to hear of it
// through the ring.
func Preload(ctx context.Context) bootstrap.Verdict {
	ctx, cancel := context.WithTimeout(ctx, preloadLimit)
	defer cancel()
	note, err := tryPreload(ctx)
	return bootstrap.Verdict{Err: err, Note: note}
}

func tryPreload(ctx context.Context) (note string, err error) {
	ring, err := preload.Create(preload.RingOptions{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ring.Close()) }()
	if err := ring.Reserve(); err != nil {
		return "", err
	}
	folders := newFolders(preload.DefaultDirs())
	defer func() { err = errors.Join(err, folders.remove()) }()
	library, err := preload.Unpack(folders.paths)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	where := "the library can be loaded from " + folders.shown(library.Path)
	program, args := findProgram()
	if program == "" {
		return where + "; not tried for want of a program that is linked dynamically", nil
	}
	env, err := ring.Inject(os.Environ(), library.Path)
	if err != nil {
		return "", err
	}
	if err := listen(ctx, ring, program, args, env); err != nil {
		return "", fmt.Errorf("try the library in %s: %w", program, err)
	}
	return fmt.Sprintf("%s; tried in %s", where, program), nil
}

// errSilent is why the library does not work though the program ran.
var errSilent = errors.New("it ran, but the library in it was not heard of")

// listen runs the program and waits until the ring tells of it.
func listen(ctx context.Context, ring *preload.Ring, program string, args, env []string) (err error) {
	source, err := preload.Open(ring.File(), preload.Options{Root: os.Getpid(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stderr = env, &output
	if err := cmd.Start(); err != nil {
		return err
	}
	heard := make(chan struct{})
	var once sync.Once
	listening, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var runErr error
	group.Go(func() {
		runErr = source.Run(listening, func(e *capture.Event) {
			if e.Kind == capture.KindExec && int(e.PID) == cmd.Process.Pid {
				once.Do(func() { close(heard) })
			}
		})
	})
	waitErr := cmd.Wait()
	select {
	case <-heard:
	case <-time.After(silence):
		err = errSilent
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errSilent, context.Cause(ctx))
	}
	stop()
	group.Wait()
	if err == nil {
		return nil // whatever the program's status is
	}
	// The dynamic loader says on standard error why it does not load something.
	if said := strings.TrimSpace(output.String()); said != "" {
		err = fmt.Errorf("%w; it said %q", err, said[:min(len(said), 400)])
	}
	if waitErr != nil {
		err = fmt.Errorf("%w (%w)", err, waitErr)
	}
	if runErr != nil && !errors.Is(runErr, context.Canceled) {
		err = fmt.Errorf("%w; %w", err, runErr)
	}
	return err
}

// silence is how long the ring may say nothing of a program that has ended: ten rounds
// of its reader.
const silence = 500 * time.Millisecond

// programs are small, do nothing, and are on most machines; the first that is linked
// dynamically is taken. The last is there where a server can be.
var programs = [][]string{{"true"}, {"env"}, {"ls", "/"}, {"sh", "-c", ":"}, {"python3", "-S", "-V"}}

func findProgram() (path string, args []string) {
	for _, p := range programs {
		path, err := exec.LookPath(p[0])
		if err == nil && dynamic(path) {
			return path, p[1:]
		}
	}
	return "", nil
}

// dynamic reports whether a program has a dynamic loader.
func dynamic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}

// folders are where the library is unpacked for the trial: a folder of its own in each
// of those that the launcher would use, on the same file system. The launcher's own
// file is not touched: one that starts beside this may be using it.
type folders struct {
	paths []string
	made  []string // parents that did not exist, the inner ones first
	name  string
}

func newFolders(parents []string) *folders {
	f := &folders{name: "check-" + strings.ToLower(rand.Text()[:8])}
	for _, parent := range parents {
		for path := parent; path != "/"; path = filepath.Dir(path) {
			if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
				break
			}
			f.made = append(f.made, path)
		}
		f.paths = append(f.paths, filepath.Join(parent, f.name))
	}
	return f
}

// shown is the folder for which the one of the trial stands.
func (f *folders) shown(library string) string {
	folder := filepath.Dir(library)
	if filepath.Base(folder) == f.name {
		return filepath.Dir(folder)
	}
	return "memory"
}

// remove removes what the trial has made.
func (f *folders) remove() error {
	var errs []error
	for _, path := range f.paths {
		// In a folder that may not even be entered nothing was made.
		if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	for _, path := range f.made {
		_ = os.Remove(path) // it is another's by now if something is in it
	}
	return errors.Join(errs...)
}
