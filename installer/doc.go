// Package installer puts Tokenscope's files under a prefix, and takes exactly those away
// again.
//
//	PREFIX/bin/instrument             the launcher
//	PREFIX/bin/tokenscope             its second name, a link
//	PREFIX/bin/bootstrap              what installed it
//	PREFIX/lib/tokenscope/*.so        the library for workloads that eBPF cannot see
//	PREFIX/lib/tokenscope/manifest.json
//
// The manifest lists what was put there: nothing else is ever replaced or removed. Each
// file becomes visible by one rename, so that nobody sees half of one. If a step fails,
// what was there before is put back. If the process is killed, the manifest, which is
// written first, lists the old files, the new ones and the temporary ones: the next
// install or uninstall goes on from there.
//
// The makers of packages and images are in installer/dist.
package installer
