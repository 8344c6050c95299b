package main

// instrument doctor is the check of package bootstrap.

import (
	"context"

	"github.com/tokenscope/tokenscope/bootstrap"
	"github.com/tokenscope/tokenscope/bootstrap/tryout"
	"github.com/tokenscope/tokenscope/instrument"
	"github.com/tokenscope/tokenscope/probes/preload"
)

func doctor(ctx context.Context, o instrument.DoctorOptions) (int, error) {
	app := &bootstrap.App{
		Version: instrument.Version(),
		EBPF:    tryout.EBPF, Preload: tryout.Preload,
		LibraryFolders: preload.DefaultDirs,
	}
	return app.Check(ctx, bootstrap.CheckOptions{PID: o.PID, JSON: o.JSON, Stdout: o.Stdout, Capture: o.Settings.Capture})
}
