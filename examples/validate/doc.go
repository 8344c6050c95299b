// Package validate checks the manifests, compose file and Dockerfile of the folders beside it with
// the parsers of those who read them, and (build tag e2e) runs them where that is possible.
package validate
