// Package lua runs the part of Lua 5.1 that the scripts of this module use, with the results of the original in C.
//
// It turns the syntax tree of gopher-lua's parser into Go closures. gopher-lua's own machine does not serve: it gives
// another result for `x = x and not y and (a or b)`, detaches shared variables from a function that catches an error,
// writes large numbers with all their digits, and finds nothing at the index 0 in unpack.
//
// There are no metatables, no coroutines, no goto, no break, and no standard library but the functions in [Library]. A script that
// uses anything else fails.
package lua

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Script is a script that is ready to run, any number of times and by several goroutines.
type Script struct{ main *body }

// Compile makes a script of its text.
func Compile(source string) (s *Script, err error) {
	chunk, err := parse.Parse(strings.NewReader(source), "user_script")
	if err != nil {
		return nil, err
	}
	defer catch(func(e unsupported) { err = e })
	c := &compiler{body: &body{}, variadic: true}
	c.body.run = c.block(chunk)
	return &Script{c.body}, nil
}

// unsupported is the error for a script that uses something that this package does not have.
type unsupported struct {
	what any
	line int
}

func (u unsupported) Error() string {
	return fmt.Sprintf("line %d: %T is not supported", u.line, u.what)
}

type body struct {
	slots      int // variables and parameters, of all blocks
	parameters []*local
	variadic   bool
	upvalues   []upvalue
	run        step
}

// upvalue says where a function finds a variable of an outer one when it is made.
type upvalue struct {
	name string
	// local is the variable of the function that makes this one; nil if it has the variable from outside too, at this
	// index.
	local *local
	index int
}

// local is a variable. Those that a function within its own captures live in a cell.
type local struct {
	slot     int
	captured bool
}

// cell holds a variable that functions share.
type cell struct{ value Value }

type frame struct {
	machine  *Machine
	slots    []Value
	captured []*cell
	rest     []Value // the arguments for ...
	result   []Value
}

// step runs a statement, and reports whether the function returned in it. No script uses break.
type step func(f *frame) (returned bool)

// expression computes a value; several computes all values of a call or of `...`.
type (
	expression func(f *frame) Value
	several    func(f *frame) []Value
)

// Call calls a function.
func Call(function Value, args []Value) []Value {
	f, ok := function.(*Function)
	if !ok {
		raisef("attempt to call a %s value", typeName(function))
	}
	if f.native != nil {
		return f.native(args)
	}
	return f.body.call(f.machine, f.captured, args)
}

func (b *body) call(m *Machine, captured []*cell, args []Value) []Value {
	f := m.frames.one(frame{machine: m, slots: m.values.list(b.slots), captured: captured})
	for i, p := range b.parameters {
		f.declare(p, arg(args, i))
	}
	if b.variadic && len(args) > len(b.parameters) {
		f.rest = args[len(b.parameters):]
	}
	b.run(f)
	return f.result
}

func (f *frame) declare(l *local, v Value) {
	if l.captured {
		f.slots[l.slot] = f.machine.cells.one(cell{v})
	} else {
		f.slots[l.slot] = v
	}
}

// set sets a variable that is declared.
func (f *frame) set(l *local, v Value) {
	if l.captured {
		f.slots[l.slot].(*cell).value = v
	} else {
		f.slots[l.slot] = v
	}
}

type compiler struct {
	outer    *compiler
	body     *body
	scopes   []map[string]*local
	variadic bool
}

func (c *compiler) declare(name string) *local {
	l := &local{slot: c.body.slots}
	c.body.slots++
	c.scopes[len(c.scopes)-1][name] = l
	return l
}

func (c *compiler) local(name string) *local {
	for _, scope := range slices.Backward(c.scopes) {
		if l, ok := scope[name]; ok {
			return l
		}
	}
	return nil
}

// upvalue returns the index of a variable of an outer function, or -1 if the name is global.
func (c *compiler) upvalue(name string) int {
	for i, u := range c.body.upvalues {
		if u.name == name {
			return i
		}
	}
	if c.outer == nil {
		return -1
	}
	u := upvalue{name: name, local: c.outer.local(name)}
	if u.local != nil {
		u.local.captured = true
	} else if u.index = c.outer.upvalue(name); u.index < 0 {
		return -1
	}
	c.body.upvalues = append(c.body.upvalues, u)
	return len(c.body.upvalues) - 1
}

func (c *compiler) function(e *ast.FunctionExpr) expression {
	inner := &compiler{outer: c, body: &body{variadic: e.ParList.HasVargs}, variadic: e.ParList.HasVargs}
	inner.scopes = []map[string]*local{{}}
	for _, name := range e.ParList.Names {
		inner.body.parameters = append(inner.body.parameters, inner.declare(name))
	}
	inner.body.run = inner.block(e.Stmts)
	b := inner.body
	return func(f *frame) Value {
		captured := f.machine.captured.list(len(b.upvalues))
		for i, u := range b.upvalues {
			if u.local != nil {
				captured[i] = f.slots[u.local.slot].(*cell)
			} else {
				captured[i] = f.captured[u.index]
			}
		}
		return f.machine.functions.one(Function{body: b, captured: captured, machine: f.machine})
	}
}

// Machine runs scripts, one at a time. Nothing that a script makes outlives its run, except the values that the caller
// keeps. So each run uses the memory of the one before it again.
type Machine struct {
	globals   map[string]Value
	values    arena[Value]
	frames    arena[frame]
	cells     arena[cell]
	captured  arena[*cell]
	functions arena[Function]
}

// Run runs a script with these global variables, and returns its first result: no function, and no table with one.
func (m *Machine) Run(s *Script, globals map[string]Value) (result Value, err error) {
	defer catch(func(e *Error) { err = e })
	m.globals = globals
	m.values.used, m.frames.used, m.cells.used, m.captured.used, m.functions.used = 0, 0, 0, 0, 0
	values := s.main.call(m, nil, nil)
	return arg(values, 0), nil
}

// arena hands out parts of one piece of memory.
type arena[T any] struct {
	memory []T
	used   int
}

// list returns memory for a list of n items, which have any values at first.
func (a *arena[T]) list(n int) []T {
	if a.used+n > len(a.memory) {
		a.memory, a.used = make([]T, max(n, 2*len(a.memory), 32)), 0
	}
	a.used += n
	return a.memory[a.used-n : a.used : a.used]
}

func (a *arena[T]) one(item T) *T {
	place := &a.list(1)[0]
	*place = item
	return place
}
