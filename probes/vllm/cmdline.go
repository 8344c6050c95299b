package vllm

// What a server's command line says of it.

import (
	"bytes"
	"path"
)

// ServedModel is the name under which a command line (arguments ended by NUL) has vLLM
// serve its model: the first --served-model-name, else the model itself. It is "" for
// command lines that serve none.
func ServedModel(cmdline []byte) string {
	args := bytes.Split(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0})
	var model, served string
	vllm := false
	for i, arg := range args {
		name, value, inline := bytes.Cut(arg, []byte("="))
		if !inline && i+1 < len(args) && !bytes.HasPrefix(args[i+1], []byte("-")) {
			value = args[i+1]
		}
		switch base := path.Base(string(arg)); {
		case base == "vllm", bytes.HasPrefix(arg, []byte("vllm.entrypoints.")):
			vllm = true
		case string(arg) == "serve" && vllm && model == "":
			model = string(value) // the word behind it, unless that is a flag
		case string(name) == "--model", string(name) == "--model-tag":
			model = string(value)
		case string(name) == "--served-model-name" && served == "":
			served = string(value)
		}
	}
	switch {
	case !vllm:
		return ""
	case served != "":
		return served
	}
	return model
}
