// Package e2e runs the built `bootstrap` and `instrument` in throw-away roots: an old and a
// new Debian (glibc 2.31 and 2.41), a root with musl and nothing else, and one without any C
// library, shell or folder, as a distroless image is.
//
//	look ─► install ─► install again ─► check ─► run programs ─► watch a server ─► uninstall
//
// A root is the lower half of an overlay, so that what is in the upper half is exactly what
// was changed: after uninstall there is no file in it.
//
// Everything is in test files under the build tag e2e; run it with
//
//	go test -tags e2e -count=1 -timeout 20m -v ./bootstrap/e2e
//
// It needs root, debootstrap, unshare, chroot, and for musl musl-gcc (Debian: debootstrap,
// musl-tools). The Debian roots are made once, in the cache folder (TOKENSCOPE_CACHE, default
// ~/.cache/tokenscope): 430 MB, three to four minutes. The tests take half a minute.
//
// What cannot run is skipped, with the reason; TOKENSCOPE_E2E_REQUIRE=1 makes that a failure.
package e2e
