package installer

// One install or uninstall at a time in a prefix: several pods may fill one volume.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that another holds is tried again. An install takes a
// second.
const lockPoll = 50 * time.Millisecond

// errGone: the folder was removed while its lock was waited for.
var errGone = errors.New("it is gone")

// lock takes the lock on a folder, which leaves no file behind, and waits for it as
// long as ctx allows. Where the file system has no locks there is none.
func lock(ctx context.Context, folder string) (unlock func(), err error) {
	for {
		f, err := os.Open(folder)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("lock %s: %w", folder, errGone)
		}
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && stillThere(f, folder):
			return func() { f.Close() }, nil
		case err == nil: // an uninstall removed it while we waited
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", folder, errGone)
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return func() { f.Close() }, nil
		}
		f.Close()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: another bootstrap is at work there: %w", folder, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// stillThere reports whether the folder is the one that was opened.
func stillThere(f *os.File, folder string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(folder)
	return err == nil && os.SameFile(mine, now)
}
