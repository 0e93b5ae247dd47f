// Package lua runs the part of Lua 5.1 that the scripts of this module use, with the results of the original in C.
//
// It turns the syntax tree of gopher-lua's parser into Go closures. gopher-lua's own machine does not serve: it gives
// another result for `x = x and not y and (a or b)`, detaches shared variables from a function that catches an error,
// writes large numbers with all their digits, and finds nothing at the index 0 in unpack.
//
// There are no metatables, no coroutines, no goto, no break, and no standard library but the functions in [Library]. A script that
// uses anything else fails.
package lua
