package main

// What the repository says of itself: when the commit was made, how many came before it.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// commitTime is SOURCE_DATE_EPOCH where it is set (reproducible-builds.org), else the time of
// the commit: never the clock.
func commitTime(ctx context.Context, root, epoch string) (time.Time, error) {
	text := epoch
	if text == "" {
		out, err := git(ctx, root, "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("read the commit's time (outside a clone, set SOURCE_DATE_EPOCH): %w", err)
		}
		text = out
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it must be seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// commitCount is the length of the history, 0 outside a clone.
func commitCount(ctx context.Context, root string) (int, error) {
	shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return 0, nil // a source archive: the version must be a release, and version.Parse sees to that
	}
	if shallow == "true" {
		// A part of the history would give a number that sorts wrong.
		return 0, nil
	}
	out, err := git(ctx, root, "rev-list", "--count", "HEAD")
	if err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	return strconv.Atoi(out)
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
