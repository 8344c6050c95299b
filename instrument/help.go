package instrument

// Help texts. The list of flags is made from the table of settings.

import (
	"fmt"
	"strings"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

const usageLine = "observe an LLM inference server from outside"

// shortUsage follows an error of usage.
const shortUsage = "usage: " + Name + " [flags] COMMAND [ARG...]\n" +
	"       " + Name + " --help tells the rest\n"

// helpHead and helpTail stand before and after the list of flags.
const (
	helpHead = `instrument runs an LLM inference server and reports what happens to each of its
requests: how long it waited, how long prefill took, when tokens came out.

Usage:
  instrument [flags] COMMAND [ARG...]
  instrument [flags] -- COMMAND [ARG...]

The first word that is not a flag begins the server's own command, which is run as
it stands. Its output, signals and exit status are those of the server. A command
with the name of one below is run behind "--".

Examples:
  instrument vllm serve Qwen/Qwen3-0.6B --port 8000
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 instrument vllm serve MODEL
  OTEL_TRACES_EXPORTER=console instrument -- python -m vllm.entrypoints.openai.api_server
  instrument --record run.tsrec ./start-server.sh
  instrument replay --output requests run.tsrec
  instrument doctor

Commands:
  replay      run recordings through the pipeline and print what it makes of them
  config      print every setting, its value and where it came from
  doctor      tell whether watching works here, by which way, and what helps
  completion  print a completion script for bash, zsh or fish
  version     print the version
  help        tell about a command

Flags (each beats its variable):
`
	helpTail = `
The OpenTelemetry variables are honoured: OTEL_EXPORTER_OTLP_*, OTEL_TRACES_EXPORTER,
OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_*, OTEL_SDK_DISABLED and more;
"instrument config" lists all with their values. Nothing is sent over the network
unless an endpoint is set or OTEL_TRACES_EXPORTER names otlp.
`
	// commandHelpTemplate is the library's template for the help of a subcommand. It
	// ends without a list of flags where there are none beside --help.
	commandHelpTemplate = `{{.HelpName}}: {{.Usage}}

Usage:
  {{if .UsageText}}{{.UsageText}}{{else}}{{.HelpName}}{{end}}
{{if .Description}}
{{.Description}}
{{end}}
Flags:{{range .VisibleFlags}}
  {{.}}{{end}}
The flags of ` + Name + ` itself may be given too.
`
)

// helpText is what --help prints.
func helpText() string {
	var b strings.Builder
	b.WriteString(helpHead)
	line := func(flag, help string) {
		// Text starts in the same column everywhere, on a line of its own behind a long flag.
		const column = 29
		if len(flag) >= column-2 {
			fmt.Fprintf(&b, "  %s\n%*s%s\n", flag, column, "", help)
			return
		}
		fmt.Fprintf(&b, "  %-*s%s\n", column-2, flag, help)
	}
	for _, sp := range settings.Specs() {
		if sp.Flag == "" {
			continue
		}
		flag := "--" + sp.Flag
		if sp.TakesValue() {
			flag += " " + sp.Placeholder
		}
		line(flag, sp.Help)
		line("", flagNote(sp))
	}
	line("--help, -h", "print this")
	line("--version, -v", "print the version")
	b.WriteString(helpTail)
	return b.String()
}

// flagNote says which choices a flag has, its default, and which variable stands for it.
func flagNote(sp *settings.Spec) string {
	var notes []string
	if sp.Kind == settings.KindEnum && !strings.Contains(sp.Placeholder, "|") {
		notes = append(notes, strings.Join(sp.Values, "|"))
	}
	if sp.Max > 0 && !strings.Contains(sp.Placeholder, "|") {
		notes = append(notes, fmt.Sprintf("%d to %d", sp.Min, sp.Max))
	}
	switch {
	case sp.Derived != "":
		notes = append(notes, "default: "+sp.Derived)
	case sp.Default != "" && sp.TakesValue():
		notes = append(notes, "default: "+sp.Default)
	}
	if len(sp.Env) > 0 {
		notes = append(notes, sp.Env[0])
	} else {
		notes = append(notes, "flag only")
	}
	return "(" + strings.Join(notes, "; ") + ")"
}

// literalTemplate makes a template that prints text as it is.
func literalTemplate(text string) string {
	return strings.ReplaceAll(text, "{{", `{{"{{"}}`)
}
