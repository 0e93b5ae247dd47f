package lua

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
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case *Error:
			err = caught
		default:
			panic(caught)
		}
	}()
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

// one returns a copy of an item.
func (a *arena[T]) one(item T) *T {
	place := &a.list(1)[0]
	*place = item
	return place
}
