package ebpf

//go:generate ./gen.sh
