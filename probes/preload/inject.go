package preload

// The environment by which the workload's processes get the library and find the ring.

import (
	"fmt"
	"path/filepath"
	"strings"
)

// EnvRing is the variable that has the path of the ring.
const EnvRing = "TOKENSCOPE_PRELOAD"

// envPreload is the dynamic loader's variable.
const envPreload = "LD_PRELOAD"

const (
	// maxEnvString is what the kernel takes of one string of an environment, its NUL
	// included (MAX_ARG_STRLEN, include/uapi/linux/binfmts.h): with a longer one the
	// workload could not be started at all.
	maxEnvString = 32 * 4096
	// maxShimPath is below what the oldest loader has room for (SECURE_PATH_LIMIT of
	// glibc's elf/rtld.c); a longer entry is left out silently.
	maxShimPath = 1023
)

// Inject returns a copy of an environment with which a program carries the library shim
// and finds the ring. All else in it stays as it is, byte for byte.
//
// The library is put in front of what LD_PRELOAD has. Where a variable is there more than
// once, each of them gets it: of several, glibc's loader takes the last (process_envvars
// in elf/rtld.c goes through all and keeps what it saw last), musl's the first (getenv
// since 1.1.19) or, before, the last; and a shell in between passes on one of them only.
//
// Both loaders end an entry at a colon or a space, musl at any other white space as well
// (load_preload in ldso/dynlink.c), and glibc expands what begins with a dollar sign
// (ld.so(8), "Dynamic string tokens"). None has a way to quote.
func (r *Ring) Inject(env []string, shim string) ([]string, error) {
	if err := checkShimPath(shim); err != nil {
		return nil, fmt.Errorf("inject library: %w", err)
	}
	with := make([]string, 0, len(env)+2)
	found := false
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case ok && name == EnvRing:
			continue // of another instrument, around this one
		case ok && name == envPreload:
			found = true
			kv = envPreload + "=" + prependShim(value, shim)
			if len(kv) >= maxEnvString {
				return nil, fmt.Errorf("inject library: %s would have %d bytes, of which the kernel takes %d; shorten it", envPreload, len(kv), maxEnvString-1)
			}
		}
		with = append(with, kv)
	}
	if !found {
		with = append(with, envPreload+"="+shim)
	}
	return append(with, EnvRing+"="+r.path), nil
}

// checkShimPath refuses what a loader would not read as one path.
func checkShimPath(path string) error {
	switch i := strings.IndexAny(path, ": \t\n\v\f\r$\x00"); {
	case i >= 0:
		return fmt.Errorf("the dynamic loader does not take %q for one path, because of %q in it; use a directory without", path, path[i])
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q is not absolute: it would be looked for in the directories of libraries", path)
	case len(path) > maxShimPath:
		return fmt.Errorf("%q has %d bytes, of which the dynamic loader takes %d; use a shorter directory", path, len(path), maxShimPath)
	}
	return nil
}

// prependShim puts shim in front of what LD_PRELOAD has. Another build of the library
// that is there, of an instrument around this one, is taken out: both would write to this
// ring, everything twice.
func prependShim(value, shim string) string {
	rest := value
	for at := 0; at < len(rest); {
		n := strings.IndexAny(rest[at:], ": ")
		end := at + n
		if n < 0 {
			end = len(rest)
		}
		if isShim(rest[at:end]) {
			rest = rest[:at] + rest[min(end+1, len(rest)):]
			continue
		}
		at = end + 1
	}
	if rest == "" {
		return shim
	}
	return shim + ":" + rest
}

// isShim reports whether an entry of LD_PRELOAD is a build of the library: by its name,
// or as the file in memory that Unpack makes as a last resort.
func isShim(entry string) bool {
	memory, _ := filepath.Match("/proc/*/fd/*", entry) // the pattern is well-formed
	return memory || isShimName(filepath.Base(entry))
}
