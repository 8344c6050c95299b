package instrument

// Completion scripts for shells. They complete our own words and, from the first word
// of the workload on, whatever the shell completes for that program, as it does behind
// sudo or nice. Like the help, they are made from the table of settings.

import (
	"fmt"
	"strings"

	"github.com/tokenscope/tokenscope/instrument/settings"
)

var shells = []string{"bash", "zsh", "fish"}

// completionCommands are the subcommands that are offered, with their help.
var completionCommands = [][2]string{
	{"replay", "run recordings through the pipeline"},
	{"config", "print every setting"},
	{"doctor", "tell whether watching works here"},
	{"completion", "print a completion script"},
	{"version", "print the version"},
	{"help", "tell about a command"},
}

// completionScript gives the script for a shell.
func completionScript(shell string) (string, bool) {
	switch shell {
	case "bash":
		return bashScript(), true
	case "zsh":
		return zshScript(), true
	case "fish":
		return fishScript(), true
	}
	return "", false
}

// valueFlags calls f for each flag that takes a value, with the choices it has (none:
// a number or a name) or whether it takes a file.
func valueFlags(f func(sp *settings.Spec, choices []string, file bool)) {
	for _, sp := range settings.Specs() {
		if sp.Flag == "" || !sp.TakesValue() {
			continue
		}
		choices := sp.Values
		if choices == nil && strings.Contains(sp.Placeholder, "|") {
			choices = strings.Split(sp.Placeholder, "|")
		}
		f(sp, choices, sp.Kind == settings.KindFile)
	}
}

// flagWordsWithDashes lists all flags; those that take a value alone where valued.
func flagWordsWithDashes(valued bool) []string {
	var words []string
	for _, sp := range settings.Specs() {
		if sp.Flag != "" && (!valued || sp.TakesValue()) {
			words = append(words, "--"+sp.Flag)
		}
	}
	if !valued {
		words = append(words, "--help", "--version")
	}
	return words
}

func commandNames() string {
	var names []string
	for _, c := range completionCommands {
		names = append(names, c[0])
	}
	return strings.Join(names, " ")
}

// bashScript relies on bash alone; with the bash-completion package it also completes
// the workload's arguments.
func bashScript() string {
	var values strings.Builder
	valueFlags(func(sp *settings.Spec, choices []string, file bool) {
		fmt.Fprintf(&values, "    --%s) ", sp.Flag)
		switch {
		case file:
			values.WriteString(`compopt -o default 2>/dev/null; COMPREPLY=($(compgen -f -- "$2"))`)
		case choices != nil:
			fmt.Fprintf(&values, `COMPREPLY=($(compgen -W "%s" -- "$2"))`, strings.Join(choices, " "))
		default:
			values.WriteString(":")
		}
		values.WriteString(" ;;\n")
	})
	return fmt.Sprintf(`# bash completion for %[1]s

_%[1]s_value() { # flag, what is typed of its value
  case $1 in
%[2]s    --output) COMPREPLY=($(compgen -W "%[6]s" -- "$2")) ;;
  esac
}

_%[1]s_workload() { # index of the workload's first word
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    COMPREPLY=($(compgen -c -- "$cur"))
  else
    compopt -o default 2>/dev/null
  fi
}

_%[1]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} i=1 word
  COMPREPLY=()
  # bash makes words of their own of the "=" in --flag=value.
  [[ $cur == "=" ]] && cur=
  while ((i < COMP_CWORD)); do
    word=${COMP_WORDS[i]}
    case $word in
      --) _%[1]s_workload $((i + 1)); return ;;
      %[3]s)
        [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i++))
        if ((i + 1 >= COMP_CWORD)); then _%[1]s_value "$word" "$cur"; return; fi
        ((i += 2)) ;;
      -*) ((i++)) ;;
      *) break ;;
    esac
  done
  if ((i >= COMP_CWORD)); then
    if [[ $cur == -* ]]; then
      COMPREPLY=($(compgen -W "%[4]s" -- "$cur"))
    else
      COMPREPLY=($(compgen -W "%[5]s" -- "$cur") $(compgen -c -- "$cur"))
    fi
    return
  fi
  case $word in
    replay)
      if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --output ]]; then
        _%[1]s_value --output "$cur"
      elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "--output --help" -- "$cur"))
      else
        compopt -o default 2>/dev/null
      fi ;;
    config) COMPREPLY=($(compgen -W "--json --help" -- "$cur")) ;;
    doctor) COMPREPLY=($(compgen -W "--json --pid --help" -- "$cur")) ;;
    completion) COMPREPLY=($(compgen -W "%[7]s" -- "$cur")) ;;
    help) COMPREPLY=($(compgen -W "%[5]s" -- "$cur")) ;;
    version) ;;
    *) _%[1]s_workload "$i" ;;
  esac
}

complete -F _%[1]s %[1]s
`, Name, values.String(), strings.Join(flagWordsWithDashes(true), " | "),
		strings.Join(flagWordsWithDashes(false), " "), commandNames(),
		strings.Join(ReplayOutputs, " "), strings.Join(shells, " "))
}

// zshScript uses zsh's own _arguments and, for the workload, _normal.
func zshScript() string {
	var specs, commands strings.Builder
	for _, sp := range settings.Specs() {
		if sp.Flag != "" && !sp.TakesValue() {
			fmt.Fprintf(&specs, "    '--%s[%s]' \\\n", sp.Flag, zshText(sp.Help))
		}
	}
	valueFlags(func(sp *settings.Spec, choices []string, file bool) {
		action := " "
		switch {
		case file:
			action = "_files"
		case choices != nil:
			action = "(" + strings.Join(choices, " ") + ")"
		}
		fmt.Fprintf(&specs, "    '--%s=[%s]:%s:%s' \\\n", sp.Flag, zshText(sp.Help), strings.ReplaceAll(sp.Flag, "-", " "), action)
	})
	for _, c := range completionCommands {
		fmt.Fprintf(&commands, "    '%s:%s'\n", c[0], zshText(c[1]))
	}
	return fmt.Sprintf(`#compdef %[1]s

_%[1]s() {
  local curcontext=$curcontext state line
  local -a commands
  commands=(
%[3]s  )
  _arguments -C -S \
%[2]s    '(- *)'{--help,-h}'[print help]' \
    '(- *)'{--version,-v}'[print the version]' \
    '(-)1: :->first' \
    '(-)*:: :->rest' && return
  case $state in
    first)
      _alternative 'commands:command:(('"${(j: :)${(q)commands}}"'))' 'programs:program:_command_names -e' ;;
    rest)
      case $words[1] in
        replay) _arguments '--output=[form of what is printed]:form:(%[4]s)' '*:recording:_files' ;;
        config) _arguments '--json[print JSON]' ;;
        doctor) _arguments '--json[print JSON]' '--pid=[process to look at]:process:_pids' ;;
        completion) _values shell %[5]s ;;
        help) _describe command commands ;;
        version) ;;
        *) _normal ;;
      esac ;;
  esac
}

if [[ $funcstack[1] == _%[1]s ]]; then
  _%[1]s "$@"
else
  compdef _%[1]s %[1]s
fi
`, Name, specs.String(), commands.String(), strings.Join(ReplayOutputs, " "), strings.Join(shells, " "))
}

// zshText escapes what _arguments and single quotes would take for syntax.
func zshText(text string) string {
	return strings.NewReplacer(`'`, `'\''`, `:`, `\:`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// fishScript uses fish's own completion of a command behind a command.
func fishScript() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# fish completion for %[1]s

# The first word that is no flag and no flag's value; fails where there is none yet.
function __%[1]s_first
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --
                return 0
            case %[2]s
                set -e words[1]
                set -q words[1]; and set -e words[1]
            case '-*'
                set -e words[1]
            case '*'
                echo $words[1]
                return 0
        end
    end
    return 1
end

function __%[1]s_workload
    set -l word (__%[1]s_first); or return 1
    not contains -- "$word" %[3]s
end

complete -c %[1]s -f
complete -c %[1]s -x -n __%[1]s_workload -a '(__fish_complete_subcommand %[2]s)'
complete -c %[1]s -x -n 'not __%[1]s_first >/dev/null' -a '(__fish_complete_subcommand %[2]s)'
`, Name, strings.Join(flagWordsWithDashes(true), " "), commandNames())
	first := fmt.Sprintf("complete -c %[1]s -n 'not __%[1]s_first >/dev/null'", Name)
	for _, c := range completionCommands {
		fmt.Fprintf(&b, "%s -a %s -d %s\n", first, c[0], fishText(c[1]))
	}
	for _, sp := range settings.Specs() {
		if sp.Flag != "" && !sp.TakesValue() {
			fmt.Fprintf(&b, "%s -l %s -d %s\n", first, sp.Flag, fishText(sp.Help))
		}
	}
	valueFlags(func(sp *settings.Spec, choices []string, file bool) {
		more := "-x"
		switch {
		case file:
			more = "-r -F"
		case choices != nil:
			more = "-x -a " + fishText(strings.Join(choices, " "))
		}
		fmt.Fprintf(&b, "%s -l %s %s -d %s\n", first, sp.Flag, more, fishText(sp.Help))
	})
	fmt.Fprintf(&b, "%s -s h -l help -d 'print help'\n", first)
	fmt.Fprintf(&b, "%s -s v -l version -d 'print the version'\n", first)
	in := func(command string) string {
		return fmt.Sprintf("complete -c %[1]s -n 'test (__%[1]s_first) = %[2]s' ", Name, command)
	}
	b.WriteString(in("replay") + "-F\n")
	b.WriteString(in("replay") + "-l output -x -a " + fishText(strings.Join(ReplayOutputs, " ")) + " -d 'form of what is printed'\n")
	b.WriteString(in("config") + "-l json -d 'print JSON'\n")
	b.WriteString(in("doctor") + "-l json -d 'print JSON'\n")
	b.WriteString(in("doctor") + "-l pid -x -d 'process to look at'\n")
	b.WriteString(in("completion") + "-a " + fishText(strings.Join(shells, " ")) + "\n")
	b.WriteString(in("help") + "-a " + fishText(commandNames()) + "\n")
	return b.String()
}

// fishText quotes text for fish.
func fishText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
