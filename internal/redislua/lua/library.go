package lua

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Library returns the standard functions, by their global names.
func Library() map[string]Value {
	return map[string]Value{
		"error":    Native(func(a []Value) []Value { panic(&Error{arg(a, 0)}) }),
		"ipairs":   Native(ipairs),
		"pcall":    Native(PCall),
		"select":   Native(selects),
		"tonumber": Native(toNumber),
		"tostring": Native(toString),
		"type":     Native(func(a []Value) []Value { return []Value{typeName(arg(a, 0))} }),
		"unpack":   Native(unpack),
		"math": table(map[string]func([]Value) []Value{
			"ceil":  func(a []Value) []Value { return []Value{math.Ceil(numberArg(a, 0))} },
			"floor": func(a []Value) []Value { return []Value{math.Floor(numberArg(a, 0))} },
			"max":   func(a []Value) []Value { return []Value{fold(a, math.Max)} },
			"min":   func(a []Value) []Value { return []Value{fold(a, math.Min)} },
		}),
		"string": table(map[string]func([]Value) []Value{
			"char": char, "find": find, "format": format, "gmatch": gmatch, "match": match, "rep": rep, "sub": sub,
		}),
		"table": table(map[string]func([]Value) []Value{"concat": concatTable, "sort": sortTable}),
	}
}

func table(functions map[string]func([]Value) []Value) *Table {
	t := &Table{}
	for name, f := range functions {
		t.Set(name, Native(f))
	}
	return t
}

func arg(args []Value, i int) Value {
	if i < len(args) {
		return args[i]
	}
	return nil
}

func numberArg(args []Value, i int) float64 {
	n, ok := number(arg(args, i))
	if !ok {
		raisef("bad argument #%d (number expected, got %s)", i+1, typeName(arg(args, i)))
	}
	return n
}

func intArg(args []Value, i, otherwise int) int {
	if arg(args, i) == nil {
		return otherwise
	}
	return int(numberArg(args, i))
}

func textArg(args []Value, i int) string {
	text, ok := Text(arg(args, i))
	if !ok {
		raisef("bad argument #%d (string expected, got %s)", i+1, typeName(arg(args, i)))
	}
	return text
}

func tableArg(args []Value) *Table {
	t, ok := arg(args, 0).(*Table)
	if !ok {
		raisef("bad argument #1 (table expected, got %s)", typeName(arg(args, 0)))
	}
	return t
}

func fold(args []Value, f func(a, b float64) float64) float64 {
	n := numberArg(args, 0)
	for i := range args[1:] {
		n = f(n, numberArg(args, i+1))
	}
	return n
}

var nextIndex = Native(func(a []Value) []Value {
	i := numberArg(a, 1) + 1
	v := tableArg(a).Get(i)
	if v == nil {
		return nil
	}
	return []Value{i, v}
})

func ipairs(args []Value) []Value { return []Value{nextIndex, tableArg(args), 0.0} }

// PCall is pcall: it calls its first argument with the others, and returns true and the results, or false and the error.
func PCall(args []Value) (results []Value) {
	defer catch(func(e *Error) { results = []Value{false, e.Value} })
	return append([]Value{true}, Call(arg(args, 0), args[1:])...)
}

// selects knows only '#', the number of the other arguments.
func selects(args []Value) []Value {
	if arg(args, 0) != "#" {
		Raise("select of some arguments is not supported")
	}
	return []Value{float64(len(args) - 1)}
}

func toNumber(args []Value) []Value {
	if n, ok := number(arg(args, 0)); ok {
		return []Value{n}
	}
	return []Value{nil}
}

func toString(args []Value) []Value {
	v := arg(args, 0)
	if text, ok := Text(v); ok {
		return []Value{text}
	}
	if v == nil {
		return []Value{"nil"}
	}
	return []Value{fmt.Sprint(v)}
}

func unpack(args []Value) []Value {
	t := tableArg(args)
	from, to := intArg(args, 1, 1), intArg(args, 2, t.Len())
	values := make([]Value, 0, max(to-from+1, 0))
	for i := from; i <= to; i++ {
		values = append(values, t.Get(float64(i)))
	}
	return values
}

func char(args []Value) []Value {
	b := make([]byte, len(args))
	for i := range args {
		b[i] = byte(intArg(args, i, 0))
	}
	return []Value{string(b)}
}

func rep(args []Value) []Value {
	return []Value{strings.Repeat(textArg(args, 0), max(int(numberArg(args, 1)), 0))}
}

// begins returns the offset of a position in a text of n bytes. Negative positions count from the end.
func begins(position, n int) int {
	if position < 0 {
		position += n + 1
	}
	return max(position, 1) - 1
}

func sub(args []Value) []Value {
	text := textArg(args, 0)
	from, to := begins(int(numberArg(args, 1)), len(text)), intArg(args, 2, -1)
	if to < 0 {
		to += len(text) + 1
	}
	to = min(to, len(text))
	if from >= to {
		return []Value{""}
	}
	return []Value{text[from:to]}
}

func find(args []Value) []Value {
	text, pattern := textArg(args, 0), textArg(args, 1)
	from := begins(intArg(args, 2, 1), len(text))
	if from > len(text) {
		return []Value{nil}
	}
	if truth(arg(args, 3)) {
		at := strings.Index(text[from:], pattern)
		if at < 0 {
			return []Value{nil}
		}
		return []Value{float64(from + at + 1), float64(from + at + len(pattern))}
	}
	bounds := search(pattern, text, from)
	if bounds == nil {
		return []Value{nil}
	}
	return append([]Value{float64(bounds[0] + 1), float64(bounds[1])}, captured(text, bounds, false)...)
}

func match(args []Value) []Value {
	text, pattern := textArg(args, 0), textArg(args, 1)
	bounds := search(pattern, text, begins(intArg(args, 2, 1), len(text)))
	if bounds == nil {
		return []Value{nil}
	}
	return captured(text, bounds, true)
}

func gmatch(args []Value) []Value {
	text, pattern, from := textArg(args, 0), textArg(args, 1), 0
	return []Value{Native(func([]Value) []Value {
		bounds := search(pattern, text, from)
		if bounds == nil {
			return []Value{nil}
		}
		from = max(bounds[1], from+1) // an empty match does not come again
		return captured(text, bounds, true)
	})}
}

// format knows only %.0f, a whole number with all its digits.
func format(args []Value) []Value {
	if textArg(args, 0) != "%.0f" {
		Raise("this format is not supported")
	}
	return []Value{strconv.FormatFloat(numberArg(args, 1), 'f', 0, 64)}
}

func concatTable(args []Value) []Value {
	t, between := tableArg(args), ""
	if arg(args, 1) != nil {
		between = textArg(args, 1)
	}
	from, to := intArg(args, 2, 1), intArg(args, 3, t.Len())
	var b strings.Builder
	for i := from; i <= to; i++ {
		text, ok := Text(t.Get(float64(i)))
		if !ok {
			raisef("invalid value (%s) at index %d in table for 'concat'", typeName(t.Get(float64(i))), i)
		}
		if i > from {
			b.WriteString(between)
		}
		b.WriteString(text)
	}
	return []Value{b.String()}
}

// sortTable sorts in ascending order.
func sortTable(args []Value) []Value {
	if len(args) > 1 {
		Raise("table.sort with a function is not supported")
	}
	slices.SortFunc(tableArg(args).array, compared)
	return nil
}
