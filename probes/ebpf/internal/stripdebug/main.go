// Command stripdebug takes the DWARF sections out of a BPF object, as
// `llvm-strip -g` would: the compiler needs DWARF switched on to write BTF, and
// the loader needs only BTF. It exists so that the build of the objects depends
// on one pinned compiler and not on whichever LLVM a machine has besides.
//
// Section headers keep their numbers (a dropped section becomes an empty one of
// type SHT_NULL), so that nothing that refers to a section by number changes.
//
// Usage: stripdebug [-g] FILE
package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

func main() {
	path := os.Args[len(os.Args)-1]
	if err := stripFile(path); err != nil {
		fmt.Fprintf(os.Stderr, "stripdebug: %s: %v\n", path, err)
		os.Exit(1)
	}
}

func stripFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out, err := strip(raw)
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o644)
}

// Sizes of the ELF64 file header and of a section header.
const (
	fileHeaderBytes    = 64
	sectionHeaderBytes = 64
)

// strip returns the little-endian ELF64 object raw without its DWARF.
func strip(raw []byte) ([]byte, error) {
	le := binary.LittleEndian
	var head elf.Header64
	if _, err := binary.Decode(raw, le, &head); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if string(head.Ident[:4]) != elf.ELFMAG || elf.Class(head.Ident[4]) != elf.ELFCLASS64 || elf.Data(head.Ident[5]) != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("not a little-endian ELF64 file")
	}
	sections := make([]elf.Section64, head.Shnum)
	if head.Shoff > uint64(len(raw)) {
		return nil, fmt.Errorf("section headers lie outside the file")
	}
	if _, err := binary.Decode(raw[head.Shoff:], le, sections); err != nil {
		return nil, fmt.Errorf("read section headers: %w", err)
	}
	content := func(s elf.Section64) ([]byte, error) {
		if s.Type == uint32(elf.SHT_NOBITS) || s.Type == uint32(elf.SHT_NULL) {
			return nil, nil
		}
		if s.Off > uint64(len(raw)) || s.Size > uint64(len(raw))-s.Off {
			return nil, fmt.Errorf("section lies outside the file")
		}
		return raw[s.Off : s.Off+s.Size], nil
	}
	if int(head.Shstrndx) >= len(sections) {
		return nil, fmt.Errorf("no section names")
	}
	names, err := content(sections[head.Shstrndx])
	if err != nil {
		return nil, err
	}

	out := make([]byte, fileHeaderBytes, len(raw))
	for i, s := range sections {
		data, err := content(s)
		if err != nil {
			return nil, err
		}
		if isDebug(cString(names, s.Name)) {
			sections[i] = elf.Section64{}
			continue
		}
		if s.Addralign > 1 {
			for uint64(len(out))%s.Addralign != 0 {
				out = append(out, 0)
			}
		}
		if s.Type != uint32(elf.SHT_NULL) {
			sections[i].Off = uint64(len(out))
		}
		out = append(out, data...)
	}
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	head.Shoff = uint64(len(out))
	head.Shentsize = sectionHeaderBytes
	if out, err = binary.Append(out, le, sections); err != nil {
		return nil, err
	}
	if _, err := binary.Encode(out, le, &head); err != nil {
		return nil, err
	}
	return out, nil
}

// isDebug reports whether a section holds DWARF, or relocations of it.
func isDebug(name string) bool {
	name = strings.TrimPrefix(name, ".rel")
	return strings.HasPrefix(name, ".debug_") || name == ".eh_frame"
}

// cString is the NUL-terminated string at offset off of table.
func cString(table []byte, off uint32) string {
	if uint64(off) >= uint64(len(table)) {
		return ""
	}
	s := string(table[off:])
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}
