package instrument

// The subcommands, and the words that are reserved for them.

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

// reservedWords are the first words that are ours. Those without a command here are
// kept for later versions, so that no one comes to rely on them as names of programs.
var reservedWords = map[string]bool{
	"agent": true, "replay": true, "doctor": true, "config": true, "ledger": true,
	"ctl": true, "completion": true, "help": true, "version": true,
}

func reserved(word string) bool { return reservedWords[word] }

// commandFlags are the flags of each subcommand's own, for arrange; "help" knows the
// same words.
var commandFlags = map[string]flagTable{
	"agent":      {"help": false, "h": false},
	"config":     {"help": false, "h": false, "json": false},
	"doctor":     {"help": false, "h": false, "json": false, "pid": true},
	"replay":     {"help": false, "h": false, "output": true},
	"completion": {"help": false, "h": false},
}

// subcommand runs one of the reserved words. own are the flags before it.
func (a *App) subcommand(own []string, name string, args []string) (int, error) {
	switch name {
	case "version":
		if len(args) > 0 {
			return 0, usagef("version takes no arguments")
		}
		return a.cli([]string{"--version"}, nil)
	case "help":
		switch {
		case len(args) == 0:
			return a.cli([]string{"--help"}, nil)
		case len(args) > 1:
			return 0, usagef("help takes one command")
		case args[0] == "help" || args[0] == "version":
			return a.cli([]string{"--help"}, nil)
		case commandFlags[args[0]] != nil:
			return a.cli([]string{args[0], "--help"}, nil)
		case reserved(args[0]):
			return 0, notYet(args[0])
		}
		return 0, usagef("there is no command %s", quoteWord(args[0]))
	}
	flags, exists := commandFlags[name]
	if !exists {
		return 0, notYet(name)
	}
	globals, locals, operands, err := arrange(args, globalFlags(), flags)
	if err != nil {
		return 0, usageError{err}
	}
	words := append([]string{}, own...)
	words = append(words, globals...)
	words = append(words, name)
	words = append(words, locals...)
	words = append(words, "--")
	return a.cli(append(words, operands...), nil)
}

func notYet(word string) error {
	return usagef("%s is reserved for a command that this version does not have; to run a program of that name: %s -- %s", word, Name, word)
}

// commands are the subcommands in the library's form.
func (a *App) commands() []*cli.Command {
	commands := []*cli.Command{
		{
			Name:      "replay",
			Usage:     "Run recordings through the pipeline and print what it makes of them",
			UsageText: Name + " replay [--output " + strings.Join(ReplayOutputs, "|") + "] FILE|DIR...",
			Description: "Reads files that --record wrote, or directories that hold some (*.tsrec), and\n" +
				"prints the same result every time. For people: summary is a table, trees are the spans\n" +
				"as the console exporter shows them. For programs: requests is one JSON line for each\n" +
				"request, spans one JSON object for each span.",
			Flags: []cli.Flag{&cli.StringFlag{
				Name: "output", Value: ReplayOutputs[0], Usage: "`FORM` of what is printed",
			}},
			Action: a.replay,
		},
		{
			Name:        "config",
			Usage:       "Print every setting, its value and where it came from",
			UsageText:   Name + " [flags] config [--json]",
			Description: "Secrets are masked. Warnings about settings that cannot be used go to stderr.",
			Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
			Action:      a.config,
		},
		{
			Name:      "doctor",
			Usage:     "Tell whether watching works here, by which way, and what helps",
			UsageText: Name + " [flags] doctor [--pid N] [--json]",
			Description: "Looks at the kernel, at privileges, at engines that are installed or running, and tries\n" +
				"each way of watching: the kernel's, and the library that needs no privilege. The exit\n" +
				"status is 1 where nothing would work. It leaves nothing behind.",
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "pid", Usage: "`N` of a running process to look at"},
				&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			},
			Action: a.doctor,
		},
		{
			Name:      "completion",
			Usage:     "Print a completion script for a shell",
			UsageText: Name + " completion " + strings.Join(shells, "|"),
			Description: "bash:  source <(" + Name + " completion bash)\n" +
				"zsh:   " + Name + " completion zsh > \"${fpath[1]}/_" + Name + "\"\n" +
				"fish:  " + Name + " completion fish | source",
			Action: a.completion,
		},
		{
			Name:   "agent",
			Usage:  "Observe the workload of the process that started it (started by " + Name + " itself)",
			Hidden: true,
			Action: a.agent,
		},
	}
	for _, c := range commands {
		c.HideHelpCommand = true // "help" behind a command is an operand of it
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usageError{err} }
		c.CustomHelpTemplate = commandHelpTemplate
	}
	return commands
}

func (a *App) replay(c *cli.Context) error {
	output := c.String("output")
	switch {
	case !validOutput(output):
		return usagef("--output=%s: not one of %s", quoteWord(output), strings.Join(ReplayOutputs, ", "))
	case !c.Args().Present():
		return usagef("replay needs a recording: %s replay FILE|DIR...", Name)
	}
	s, err := a.load(c)
	if err != nil {
		return err
	}
	if a.Replay == nil {
		return notLinked("replay")
	}
	log := NewLogger(a.stderr(), s.LogLevel)
	logWarnings(log, s.Warnings)
	ctx, stop := interruptible(c.Context)
	defer stop()
	return a.Replay(ctx, ReplayOptions{
		Output: output, Paths: c.Args().Slice(),
		Stdout: a.stdout(), Stderr: a.stderr(), Settings: s, Log: log,
	})
}

func (a *App) config(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("config takes no arguments")
	}
	s, err := a.load(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeConfigJSON(a.stdout(), s)
	}
	logWarnings(NewLogger(a.stderr(), settings.LevelTrace), s.Warnings)
	return writeConfig(a.stdout(), s)
}

func (a *App) doctor(c *cli.Context) error {
	pid := c.Int("pid")
	switch {
	case c.Args().Present():
		return usagef("doctor takes no arguments")
	case c.IsSet("pid") && pid <= 0:
		return usagef("--pid=%d: not the number of a process", pid)
	}
	s, err := a.load(c)
	if err != nil {
		return err
	}
	if a.Doctor == nil {
		return notLinked("doctor")
	}
	logWarnings(NewLogger(a.stderr(), s.LogLevel), s.Warnings)
	ctx, stop := interruptible(c.Context)
	defer stop()
	status, err := a.Doctor(ctx, DoctorOptions{PID: pid, JSON: c.Bool("json"), Stdout: a.stdout(), Settings: s})
	if err == nil && status != exitOK {
		return exitStatus(status)
	}
	return err
}

func (a *App) agent(c *cli.Context) error {
	if c.NArg() > 1 {
		return usagef("agent takes the name of the workload's program, nothing else")
	}
	s, err := a.load(c)
	if err != nil {
		return err
	}
	if a.Agent == nil {
		return notLinked("the agent")
	}
	return a.Agent(c.Context, s, c.Args().First())
}

func (a *App) completion(c *cli.Context) error {
	shell := c.Args().First()
	script, ok := completionScript(shell)
	if c.NArg() != 1 || !ok {
		return usagef("completion needs one shell: %s", strings.Join(shells, ", "))
	}
	_, err := a.stdout().Write([]byte(script))
	return err
}
