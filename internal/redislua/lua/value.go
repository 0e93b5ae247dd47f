package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value is a value of Lua: nil, bool, float64, string, *Table or *Function.
type Value = any

// Function is a function of a script or of Go.
type Function struct {
	// native is set for functions of Go; otherwise the others are.
	native   func(args []Value) []Value
	body     *body
	captured []*cell
	machine  *Machine
}

// Native makes a function of Go callable. It raises errors with [Raise].
func Native(f func(args []Value) []Value) *Function { return &Function{native: f} }

// Table is a table. The array has the values at 1, 2, and so on, without a nil at its end.
type Table struct {
	array []Value
	rest  map[Value]Value
}

// NewTable makes a table of values, at the indices from 1 on.
func NewTable(values ...Value) *Table {
	t := &Table{array: values}
	t.trim()
	return t
}

// Len returns the index of a value that is followed by nil.
func (t *Table) Len() int { return len(t.array) }

// Get returns the value at a key, or nil.
func (t *Table) Get(key Value) Value {
	if n, ok := key.(float64); ok {
		if i := int(n); i >= 1 && i <= len(t.array) && float64(i) == n {
			return t.array[i-1]
		}
	}
	return t.rest[key]
}

// Set sets the value at a key.
func (t *Table) Set(key, value Value) {
	if n, ok := key.(float64); ok {
		i := int(n)
		switch {
		case i >= 1 && i <= len(t.array) && float64(i) == n:
			t.array[i-1] = value
			t.trim()
			return
		case i == len(t.array)+1 && float64(i) == n:
			if value != nil {
				t.array = append(t.array, value)
				t.gather()
			}
			delete(t.rest, key)
			return
		case math.IsNaN(n):
			Raise("table index is NaN")
		}
	}
	switch {
	case key == nil:
		Raise("table index is nil")
	case value == nil:
		delete(t.rest, key)
	default:
		if t.rest == nil {
			t.rest = make(map[Value]Value)
		}
		t.rest[key] = value
	}
}

func (t *Table) trim() {
	for n := len(t.array); n > 0 && t.array[n-1] == nil; n-- {
		t.array = t.array[:n-1]
	}
}

func (t *Table) gather() {
	for len(t.rest) > 0 {
		key := float64(len(t.array) + 1)
		value, found := t.rest[key]
		if !found {
			return
		}
		delete(t.rest, key)
		t.array = append(t.array, value)
	}
}

// Error is an error that a script raised and did not catch.
type Error struct{ Value Value }

// Error returns the text of the error.
func (e *Error) Error() string {
	if text, ok := Text(e.Value); ok {
		return text
	}
	return "a " + typeName(e.Value)
}

// Raise raises an error. It does not return.
func Raise(v Value) { panic(&Error{v}) }

// catch ends a panic with a value of this type. It must be deferred.
func catch[T any](then func(caught T)) {
	switch caught := recover().(type) {
	case nil:
	case T:
		then(caught)
	default:
		panic(caught)
	}
}

func raisef(format string, args ...any) { Raise(fmt.Sprintf(format, args...)) }

func typeName(v Value) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case *Table:
		return "table"
	default:
		return "function"
	}
}

func truth(v Value) bool { return v != nil && v != false }

// Text returns a string, or a number as Lua writes it: with 14 digits.
func Text(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return NumberText(v, 14), true
	default:
		return "", false
	}
}

// NumberText writes a number as printf of C does with %.{digits}g.
func NumberText(n float64, digits int) string {
	if i := int64(n); float64(i) == n && math.Abs(n) < 1e14 && (i != 0 || !math.Signbit(n)) {
		return strconv.FormatInt(i, 10)
	}
	return strings.ToLower(strings.Replace(fmt.Sprintf("%.*g", digits, n), "+Inf", "inf", 1))
}

// number returns a number, or the number that a string is.
func number(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		text := strings.Trim(v, " \t\n\v\f\r")
		// Go takes some texts that strtod of C does not.
		if strings.ContainsAny(text, "_xXpPnN") {
			return 0, false
		}
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil || math.IsInf(n, 0)
	default:
		return 0, false
	}
}
