#!/bin/sh
# For bpf2go's -strip: takes the DWARF out of an object. See internal/stripdebug.
exec go run "$(dirname "$0")/internal/stripdebug" "$@"
