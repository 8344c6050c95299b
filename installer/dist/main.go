// Command dist makes everything that is released, out of one commit: for linux/amd64 and
// linux/arm64 a Python wheel, a tar.gz, a Debian package and a bill of materials; an image for
// both; licences and checksums. The same commit and the same Go release give the same bytes.
//
//	go -C installer/dist run . --root ../.. --out ../../dist --version v1.2.3 --ldflags '-s -w'
//
// `make dist` calls it. installer/README.md says what each artefact is for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "dist: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	var o options
	flags.StringVar(&o.root, "root", ".", "the repository")
	flags.StringVar(&o.out, "out", "dist", "the folder to make; it must be missing or empty")
	flags.StringVar(&o.version, "version", "", "what git describe says, or a release: v1.2.3")
	flags.StringVar(&o.ldflags, "ldflags", "", "flags of the linker, the version among them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; --help lists the flags", flags.Arg(0))
	}
	o.epoch = os.Getenv("SOURCE_DATE_EPOCH")
	o.log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "dist: "+format+"\n", args...) }
	return release(ctx, o)
}
