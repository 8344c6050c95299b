package bootstrap

// Help texts.

// shortUsage follows an error of usage.
const shortUsage = "usage: " + Name + " [-a requirements|install|uninstall|check] [flags]\n" +
	"       " + Name + " --help tells the rest\n"

// helpText is what --help prints. The library takes it for a template; it has no braces.
const helpText = `bootstrap prepares this machine for instrument, which observes LLM inference servers.
It needs no network, no root and no Python, and changes nothing but by -a install
and -a uninstall.

Usage:
  bootstrap [-a ACTION] [flags]

Actions:
  requirements  print what is here (engines, Pythons, libzmq, privileges) and what
                install would do; this is what happens where no action is named
  install       put the instrument that lies beside bootstrap under a prefix; again
                and again with the same result
  uninstall     remove exactly what install put there
  check         try what watching needs, say which way would be taken, and what helps
                where something is missing; status 1 where nothing would work
                ("instrument doctor" does the same)

Examples:
  bootstrap                                     look around
  bootstrap -a install                          install where PATH finds it
  bootstrap -a install --prefix /shared         install into a volume of several containers
  bootstrap -a install --dry-run --json         what would be done, for programs
  bootstrap -a check                            will it work here?
  bootstrap -a check --pid 4711                 what about this server?
  bootstrap -a uninstall

Flags:
  -a, --action ACTION  requirements, install, uninstall or check
  --prefix DIR         install into DIR/bin and DIR/lib/tokenscope
                       (default: one whose bin is on PATH and can be written: of root
                       /usr/local first, of others ~/.local, then the active virtual
                       environment, then others on PATH)
  --as-tokenscope      install under the name tokenscope alone, where another program
                       is called instrument
  --force              install: replace files that are not ours;
                       uninstall: remove files that were changed, too
  --python FILE        look at this Python as well (may be repeated)
  --pid N              check: look at this running process
  --dry-run            say what would be done and do nothing
  --json               print the result as JSON
  -v, --verbose        say more
  --version            print the version
  -h, --help           print this

Commands:
  completion bash|zsh|fish   print a completion script

Status: 0 done, or nothing to do; 1 failed, or nothing would work; 2 wrong usage.
`
