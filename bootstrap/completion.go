package bootstrap

// Completion scripts for shells.

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

var shells = []string{"bash", "zsh", "fish"}

func completionCommand(a *App) *cli.Command {
	return &cli.Command{
		Name:               "completion",
		Usage:              "Print a completion script for a shell",
		HideHelpCommand:    true,
		CustomHelpTemplate: helpText,
		OnUsageError:       func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		Action: func(c *cli.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if c.NArg() != 1 || !ok {
				return usagef("completion needs one shell: %s", strings.Join(shells, ", "))
			}
			_, err := fmt.Fprint(a.stdout(), script)
			return err
		},
	}
}

// completionFlag is a flag in the scripts: its name, its help, and what its value is.
type completionFlag struct {
	name, short, help string
	value             string // "", "file", "folder", "number" or the choices
}

var completionFlags = []completionFlag{
	{"action", "a", "what to do", strings.Join(actions, " ")},
	{"prefix", "", "folder to install into", "folder"},
	{"as-tokenscope", "", "install under the second name alone", ""},
	{"force", "", "replace or remove files that are not as they were installed", ""},
	{"python", "", "look at this Python as well", "file"},
	{"pid", "", "look at this process", "number"},
	{"dry-run", "", "do nothing", ""},
	{"json", "", "print JSON", ""},
	{"verbose", "v", "say more", ""},
	{"version", "", "print the version", ""},
	{"help", "h", "print help", ""},
}

var completionScripts = map[string]string{"bash": bashScript(), "zsh": zshScript(), "fish": fishScript()}

func bashScript() string {
	var names []string
	for _, f := range completionFlags {
		names = append(names, "--"+f.name)
	}
	return fmt.Sprintf(`# bash completion for %[1]s

_%[1]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  # bash makes words of their own of the "=" in --flag=value.
  [[ $before == "=" ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
  [[ $cur == "=" ]] && cur=
  case $before in
    -a | --action) COMPREPLY=($(compgen -W "%[2]s" -- "$cur")) ;;
    --prefix) compopt -o dirnames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")) ;;
    --python) compopt -o default 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
    --pid) ;;
    completion) COMPREPLY=($(compgen -W "%[4]s" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "-a -v -h %[3]s completion" -- "$cur")) ;;
  esac
}

complete -F _%[1]s %[1]s
`, Name, strings.Join(actions, " "), strings.Join(names, " "), strings.Join(shells, " "))
}

func zshScript() string {
	var specs strings.Builder
	for _, f := range completionFlags {
		names := []string{"--" + f.name}
		if f.short != "" {
			names = append(names, "-"+f.short)
		}
		for _, name := range names {
			value := ""
			switch f.value {
			case "":
			case "file":
				value = ":file:_files"
			case "folder":
				value = ":folder:_files -/"
			case "number":
				value = ":number: "
			default:
				value = ":" + f.name + ":(" + f.value + ")"
			}
			fmt.Fprintf(&specs, "  '%s[%s]%s' \\\n", name, f.help, value)
		}
	}
	return fmt.Sprintf(`#compdef %[1]s
# zsh completion for %[1]s

_arguments \
%[2]s  '1:command:(completion)' \
  '2:shell:(%[3]s)'
`, Name, specs.String(), strings.Join(shells, " "))
}

func fishScript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %[1]s\n\ncomplete -c %[1]s -f\n", Name)
	for _, f := range completionFlags {
		fmt.Fprintf(&b, "complete -c %s -l %s", Name, f.name)
		if f.short != "" {
			fmt.Fprintf(&b, " -s %s", f.short)
		}
		switch f.value {
		case "":
		case "file", "folder":
			b.WriteString(" -r -F")
		case "number":
			b.WriteString(" -x")
		default:
			fmt.Fprintf(&b, " -x -a '%s'", f.value)
		}
		fmt.Fprintf(&b, " -d '%s'\n", f.help)
	}
	fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -a completion -d 'print a completion script'\n", Name)
	fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from completion' -a '%s'\n", Name, strings.Join(shells, " "))
	return b.String()
}
