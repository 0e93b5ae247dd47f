// Package kubernetes checks the manifests in this directory. It is a module of its own, so that programs do not get the
// types of Kubernetes.
package kubernetes
