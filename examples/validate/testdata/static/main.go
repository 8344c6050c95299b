// Command static stands for a server in an image without anything else: it says how it was
// started, and ends with a status of its own.
package main

import (
	"fmt"
	"os"
)

const status = 42

func main() {
	fmt.Printf("%q\n", os.Args)
	os.Exit(status)
}
