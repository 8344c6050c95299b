// Package bootstrap is the command line of the program of that name, which prepares a
// machine for the launcher:
//
//	requirements   what is here, and what an install would do
//	install        put instrument, which lies beside bootstrap, under a prefix
//	uninstall      take exactly that away again
//	check          which way of watching works here, and what helps where none does
//
// The last one is also `instrument doctor`; the launcher calls App.Check.
//
// Results go to standard output, as text or as JSON; progress and messages go to standard
// error. Exit status: 0 done, or nothing to do; 1 it failed, or nothing would work; 2 the
// command line makes no sense. Uninstalling what is not installed is 0, as installing
// what is installed is.
//
// What a machine has is read by package host, files are put in place by package
// installer, and the trials of the backends are functions of App, so that this package
// knows neither of them.
package bootstrap
