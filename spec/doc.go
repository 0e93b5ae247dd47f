// Package spec has the protocol as a model, and explores every state of it within bounds.
//
// The model is written from docs/guarantees.md and the headers of the scripts. It imports nothing of the library, so a
// mistake of the library's hands is not in it as well. quorumlock.tla is the core of it for readers of TLA+.
package spec
