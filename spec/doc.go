// Package spec has the protocol as a model, and explores every state of it within bounds.
//
// It is written from docs/guarantees.md and the headers of the scripts, and imports nothing of the library.
package spec
