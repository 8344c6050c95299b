// Command instrument runs an LLM inference server and reports what happens to each of
// its requests. See package instrument for the command line.
package main

import (
	"os"

	"github.com/tokenscope/tokenscope/instrument"
)

func main() {
	app := &instrument.App{Run: run, Agent: observe, Replay: replay, Doctor: doctor}
	os.Exit(app.Main(os.Args))
}
