// Package examples holds what people copy: commands, service descriptions and manifests for the
// places where inference servers run. Each folder's README.md is its documentation.
//
// The tests here hold the files to what they say. Those that need root or the network have the
// build tag e2e; those that need other people's parsers (of manifests, compose files and
// Dockerfiles) are in validate, a module of its own, so that the product needs none of them.
package examples
