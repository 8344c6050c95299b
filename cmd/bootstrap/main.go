// Command bootstrap prepares a machine for instrument: it tells what is there, installs,
// uninstalls, and checks. See package bootstrap for the command line.
package main

import (
	"os"

	"github.com/tokenscope/tokenscope/bootstrap"
	"github.com/tokenscope/tokenscope/bootstrap/tryout"
	"github.com/tokenscope/tokenscope/instrument"
	"github.com/tokenscope/tokenscope/probes/preload"
)

func main() {
	app := &bootstrap.App{
		Version: instrument.Version(),
		EBPF:    tryout.EBPF, Preload: tryout.Preload,
		Library:        func() (string, []byte) { return preload.LibraryName(), preload.Library() },
		LibraryFolders: preload.DefaultDirs,
	}
	os.Exit(app.Main(os.Args))
}
