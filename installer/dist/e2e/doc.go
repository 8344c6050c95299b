// Package e2e installs, runs and removes the real artefacts with the programs that people use
// for it: pip, dpkg, tar, podman. Its tests have the build tag e2e and read the folder that
// TOKENSCOPE_DIST names, which `make dist-e2e` fills.
//
// Programs run as they are on this architecture; the other one's are looked at only. Parts that
// need root or a container runtime say so where they are skipped; TOKENSCOPE_E2E_REQUIRE makes
// a lack of root or of a program of the base system a failure. podman is not one of those: the
// same image is always unpacked and run by chroot as well.
package e2e
