// Package instrument is the command line of the program: it tells our words from the
// workload's, reads settings, and hands over to what does the work. Supervision, the
// agent and replay are other packages; App holds them as plain functions, so that this
// package depends on none of them.
package instrument

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

// Exit statuses of our own. The workload's is passed on as it is.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// App is the program. A nil function is a part that was not linked in; using it is an
// error that says so.
type App struct {
	// Run runs the workload and gives the program's exit status.
	Run func(context.Context, RunOptions) int
	// Agent is the agent process, beside a workload whose program has the name given. It
	// reports its own warnings to nobody: the
	// launcher, which loads the same settings, has already done so.
	Agent func(ctx context.Context, s *settings.Settings, workload string) error
	// Replay runs recordings through the pipeline.
	Replay func(context.Context, ReplayOptions) error
	// Doctor says what can be watched here and gives the program's exit status.
	Doctor func(context.Context, DoctorOptions) (int, error)

	// Stdout, Stderr and Getenv are the process's own where nil.
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// RunOptions say what to run and how to watch it.
type RunOptions struct {
	// Argv is the workload's command line, untouched.
	Argv     []string
	Settings *settings.Settings
	// AgentArgs are the whole command line of the agent process behind the program's
	// name. Settings.NoAgentReason says whether one is needed.
	AgentArgs []string
	// Log writes our messages to stderr at the level that was set.
	Log *slog.Logger
}

// ReplayOptions say what to replay and what to print.
type ReplayOptions struct {
	Output         string // one of ReplayOutputs
	Paths          []string
	Stdout, Stderr io.Writer
	Settings       *settings.Settings
	Log            *slog.Logger
}

// DoctorOptions say what to look at and how to print it.
type DoctorOptions struct {
	// PID is a running process to look at; 0: those that look like engines.
	PID      int
	JSON     bool
	Stdout   io.Writer
	Settings *settings.Settings
}

// ReplayOutputs are the forms of replay's output.
var ReplayOutputs = []string{"summary", "requests", "spans", "trees"}

// usageError is a mistake on the command line.
type usageError struct{ error }

// exitStatus is how a command that has said everything itself gives its status to main.
type exitStatus int

func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the program with the command line args (args[0] is its name) and gives
// its exit status.
func (a *App) Main(args []string) int {
	if len(args) > 0 {
		args = args[1:]
	}
	code, err := a.run(args)
	if err == nil {
		return code
	}
	fmt.Fprintf(a.stderr(), "%s: %s\n", Name, appendLine(nil, err.Error()))
	if errors.As(err, new(usageError)) {
		fmt.Fprint(a.stderr(), shortUsage)
		return exitUsage
	}
	return exitFailure
}

func (a *App) run(args []string) (code int, err error) {
	if len(args) == 0 {
		// A command that was forgotten, or a variable that was empty: stdout belongs to
		// the workload even then.
		fmt.Fprint(a.stderr(), helpText())
		return exitUsage, nil
	}
	own, rest, dashes, err := split(args, globalFlags())
	if err != nil {
		return 0, usageError{err}
	}
	if !dashes && len(rest) > 0 && reserved(rest[0]) {
		return a.subcommand(own, rest[0], rest[1:])
	}
	return a.cli(own, rest)
}

// cli hands our words to the library. argv is the workload's command line, which the
// library never sees; it is nil for a subcommand.
func (a *App) cli(words, argv []string) (code int, err error) {
	app := &cli.App{
		Name:                  Name,
		Usage:                 usageLine,
		Version:               Version(),
		HideHelpCommand:       true, // "help" is translated before it comes here
		CustomAppHelpTemplate: literalTemplate(helpText()),
		Writer:                a.stdout(),
		ErrWriter:             a.stderr(),
		ExitErrHandler:        func(*cli.Context, error) {}, // only main ends the process
		OnUsageError:          func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		Flags:                 settingFlags(),
		Action: func(c *cli.Context) error {
			code, err = a.launch(c, argv)
			return err
		},
	}
	app.Commands = a.commands()
	err = app.Run(append([]string{Name}, words...))
	var status exitStatus
	if errors.As(err, &status) {
		return int(status), nil
	}
	if err != nil {
		return 0, err
	}
	return code, nil
}

// launch runs the workload.
func (a *App) launch(c *cli.Context, argv []string) (int, error) {
	if len(argv) == 0 || argv[0] == "" {
		return 0, usagef("no command to run; put it behind the flags, as in: %s vllm serve MODEL", Name)
	}
	s, err := a.load(c)
	if err != nil {
		return 0, err
	}
	if a.Run == nil {
		return 0, notLinked("running a program")
	}
	log := NewLogger(a.stderr(), s.LogLevel)
	logWarnings(log, s.Warnings)
	return a.Run(c.Context, RunOptions{
		Argv:      argv,
		Settings:  s,
		AgentArgs: append(s.AgentArgs(), "agent", "--", filepath.Base(argv[0])),
		Log:       log,
	}), nil
}

// notLinked is the error of a part that this build does not have.
func notLinked(what string) error {
	return fmt.Errorf("%s is not part of this build; build cmd/instrument instead", what)
}

// load reads the settings from the environment and the flags that the library parsed.
func (a *App) load(c *cli.Context) (*settings.Settings, error) {
	var flags []settings.Flag
	for _, sp := range settings.Specs() {
		if sp.Flag == "" || !c.IsSet(sp.Flag) {
			continue
		}
		text := c.String(sp.Flag)
		if !sp.TakesValue() {
			text = strconv.FormatBool(c.Bool(sp.Flag))
		}
		flags = append(flags, settings.Flag{Name: sp.Flag, Value: text})
	}
	s, err := settings.Load(settings.Input{Getenv: a.getenv(), Flags: flags})
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// settingFlags are the library's form of the flags in the table of settings.
func settingFlags() []cli.Flag {
	var flags []cli.Flag
	for _, sp := range settings.Specs() {
		switch {
		case sp.Flag == "":
		case sp.TakesValue():
			flags = append(flags, &cli.StringFlag{Name: sp.Flag})
		default:
			flags = append(flags, &cli.BoolFlag{Name: sp.Flag})
		}
	}
	return flags
}

// globalFlags are the flags that may stand before the first word, for split.
func globalFlags() flagTable {
	flags := flagTable{"help": false, "h": false, "version": false, "v": false}
	for _, sp := range settings.Specs() {
		if sp.Flag != "" {
			flags[sp.Flag] = sp.TakesValue()
		}
	}
	return flags
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

// interruptible gives a context that the first Ctrl-C or SIGTERM cancels; the second
// ends the process as usual.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// validOutput reports whether replay has this form of output.
func validOutput(output string) bool { return slices.Contains(ReplayOutputs, output) }
