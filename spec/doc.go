// Package spec has the protocol as a model, and explores every state of it within bounds.
//
// The model is written from docs/guarantees.md and the headers of the scripts. It imports nothing of the library, so a
// mistake of the library's hands is not in it as well. quorumlock.tla is the core of it for readers of TLA+.
//
// What the model leaves to chance: a request may run on its node now, later, twice, out of order, after the end of
// its owner, or never. Its answer may be processed at any time, or never. Nodes lose their memory, wholly or back to an
// old copy on disk. The clock of a client may lose its whole allowance for drift. Owners may acquire and renew with
// different TTLs, and use different lists of nodes.
package spec
