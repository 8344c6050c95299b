package bootstrap

// The program: its command line, its actions, its exit status.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tokenscope/tokenscope/bootstrap/host"
)

// Name is how the program calls itself.
const Name = "bootstrap"

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Actions.
const (
	ActionRequirements = "requirements"
	ActionInstall      = "install"
	ActionUninstall    = "uninstall"
	ActionCheck        = "check"
)

var actions = []string{ActionRequirements, ActionInstall, ActionUninstall, ActionCheck}

// App is the program.
type App struct {
	// Version is that of this build, the same as of the instrument beside it.
	Version string
	// EBPF and Preload try the two ways of watching.
	EBPF, Preload func(context.Context) Verdict
	// Library is what the second way loads into a workload: the name and the content of
	// its file, nil where there is none for this machine. LibraryFolders are where the
	// launcher would unpack it.
	Library        func() (name string, data []byte)
	LibraryFolders func() []string

	// Stdout, Stderr and Getenv are the process's own where nil.
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	// For tests: another machine, and another place to install from.
	view       host.View
	executable string
	uid        *int
	memfd      func() error
	dumpable   func() (bool, error)
	try        func(path string) error
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the program with the command line args (args[0] is its name) and gives its
// exit status.
func (a *App) Main(args []string) int {
	if len(args) > 0 {
		args = args[1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := a.run(ctx, args)
	if err == nil {
		return code
	}
	fmt.Fprintf(a.stderr(), "%s: %s\n", Name, printable(err.Error()))
	if errors.As(err, new(usageError)) {
		fmt.Fprint(a.stderr(), shortUsage)
		return exitUsage
	}
	return exitFailure
}

// options are the words of the command line.
type options struct {
	action  string
	prefix  string
	pythons []string
	pid     int
	json    bool
	dryRun  bool
	force   bool
	second  bool // only under the second name
	verbose bool
}

func (a *App) run(ctx context.Context, args []string) (code int, err error) {
	app := &cli.App{
		Name:                  Name,
		HideVersion:           true, // the library's own has the alias -v
		HideHelpCommand:       true,
		CustomAppHelpTemplate: helpText,
		Writer:                a.stdout(),
		ErrWriter:             a.stderr(),
		ExitErrHandler:        func(*cli.Context, error) {}, // only main ends the process
		OnUsageError:          func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		Flags:                 cliFlags(),
		Commands:              []*cli.Command{completionCommand(a)},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				_, err := fmt.Fprintf(a.stdout(), "%s version %s\n", Name, a.Version)
				return err
			}
			var o options
			if o, err = readOptions(c); err != nil {
				return err
			}
			code, err = a.do(c.Context, o)
			return err
		},
	}
	if err := app.RunContext(ctx, append([]string{Name}, args...)); err != nil {
		return 0, err
	}
	return code, nil
}

func (a *App) do(ctx context.Context, o options) (int, error) {
	switch o.action {
	case ActionInstall:
		return a.install(ctx, o)
	case ActionUninstall:
		return a.uninstall(ctx, o)
	case ActionCheck:
		return a.Check(ctx, CheckOptions{
			PID: o.pid, JSON: o.json, Pythons: o.pythons, Stdout: a.stdout(), Capture: captureAuto,
		})
	}
	return a.requirements(ctx, o)
}

// cliFlags are the library's form of the flags; flags.go says which belongs to what.
func cliFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "action", Aliases: []string{"a"}, Value: ActionRequirements},
		&cli.StringFlag{Name: "prefix"},
		&cli.StringSliceFlag{Name: "python"},
		&cli.IntFlag{Name: "pid"},
		&cli.BoolFlag{Name: "json"},
		&cli.BoolFlag{Name: "dry-run"},
		&cli.BoolFlag{Name: "force"},
		&cli.BoolFlag{Name: "as-tokenscope"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}},
		&cli.BoolFlag{Name: "version"},
	}
}

// flagActions are the actions for which a flag has a meaning, where it has none for
// others.
var flagActions = map[string][]string{
	"prefix":        {ActionRequirements, ActionInstall, ActionUninstall},
	"python":        {ActionRequirements, ActionCheck},
	"pid":           {ActionCheck},
	"force":         {ActionRequirements, ActionInstall, ActionUninstall},
	"as-tokenscope": {ActionRequirements, ActionInstall},
}

// readOptions takes the words from the library and refuses what makes no sense.
func readOptions(c *cli.Context) (options, error) {
	o := options{
		action: c.String("action"), prefix: c.String("prefix"), pythons: c.StringSlice("python"), pid: c.Int("pid"),
		json: c.Bool("json"), dryRun: c.Bool("dry-run"), force: c.Bool("force"), second: c.Bool("as-tokenscope"), verbose: c.Bool("verbose"),
	}
	switch word := c.Args().First(); {
	case slices.Contains(actions, word):
		return o, usagef("%s is an action: %s -a %s", word, Name, word)
	case word != "":
		return o, usagef("%s takes flags only, not %s", Name, quoted(word))
	case !slices.Contains(actions, o.action):
		return o, usagef("-a %s: not one of %s", quoted(o.action), strings.Join(actions, ", "))
	}
	for name, for_ := range flagActions {
		if c.IsSet(name) && !slices.Contains(for_, o.action) {
			return o, usagef("--%s has no meaning for %s, only for %s", name, o.action, strings.Join(for_, ", "))
		}
	}
	if c.IsSet("pid") && o.pid <= 0 {
		return o, usagef("--pid %d: not the number of a process", o.pid)
	}
	if c.IsSet("prefix") {
		if o.prefix == "" {
			return o, usagef("--prefix needs a folder")
		}
		var err error
		if o.prefix, err = filepath.Abs(o.prefix); err != nil {
			return o, fmt.Errorf("find prefix: %w", err)
		}
	}
	return o, nil
}

func (a *App) stdout() io.Writer {
	if a.Stdout != nil {
		return a.Stdout
	}
	return os.Stdout
}

func (a *App) stderr() io.Writer {
	if a.Stderr != nil {
		return a.Stderr
	}
	return os.Stderr
}

func (a *App) getenv() func(string) string {
	if a.Getenv != nil {
		return a.Getenv
	}
	return os.Getenv
}

// path are the folders of PATH.
func (a *App) path() []string { return filepath.SplitList(a.getenv()("PATH")) }

// root reports whether the user is root.
func (a *App) root() bool {
	if a.uid != nil {
		return *a.uid == 0
	}
	return os.Geteuid() == 0
}

// say writes a message.
func (a *App) say(format string, args ...any) {
	fmt.Fprintf(a.stderr(), "%s: %s\n", Name, printable(fmt.Sprintf(format, args...)))
}
