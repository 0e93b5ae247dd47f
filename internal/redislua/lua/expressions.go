package lua

import "github.com/yuin/gopher-lua/ast"

func (c *compiler) expression(expr ast.Expr) expression {
	switch e := expr.(type) {
	case *ast.NilExpr:
		return constant(nil)
	case *ast.TrueExpr:
		return constant(true)
	case *ast.FalseExpr:
		return constant(false)
	case *ast.StringExpr:
		return constant(e.Value)
	case *ast.NumberExpr:
		n, ok := number(e.Value)
		if !ok {
			panic(unsupported{e, e.Line()})
		}
		return constant(n)
	case *ast.IdentExpr:
		return c.variable(e.Value)
	case *ast.AttrGetExpr:
		object, key := c.expression(e.Object), c.expression(e.Key)
		return func(f *frame) Value { return index(object(f), key(f)) }
	case *ast.FunctionExpr:
		return c.function(e)
	case *ast.TableExpr:
		return c.table(e)
	case *ast.FuncCallExpr:
		call := c.call(e)
		return func(f *frame) Value { return arg(call(f), 0) }
	case *ast.Comma3Expr:
		rest := c.rest(e)
		return func(f *frame) Value { return arg(rest(f), 0) }
	default:
		return c.operation(expr)
	}
}

func constant(v Value) expression { return func(*frame) Value { return v } }

func (c *compiler) variable(name string) expression {
	if l := c.local(name); l != nil {
		return func(f *frame) Value {
			if l.captured {
				return f.slots[l.slot].(*cell).value
			}
			return f.slots[l.slot]
		}
	}
	if i := c.upvalue(name); i >= 0 {
		return func(f *frame) Value { return f.captured[i].value }
	}
	return func(f *frame) Value {
		v, known := f.machine.globals[name]
		if !known {
			raisef("Script attempted to access nonexistent global variable '%s'", name)
		}
		return v
	}
}

func (c *compiler) operation(expr ast.Expr) expression {
	switch e := expr.(type) {
	case *ast.LogicalOpExpr:
		left, right, goOn := c.expression(e.Lhs), c.expression(e.Rhs), e.Operator == "and"
		return func(f *frame) Value {
			if v := left(f); truth(v) != goOn {
				return v
			}
			return right(f)
		}
	case *ast.RelationalOpExpr:
		left, right, compare := c.expression(e.Lhs), c.expression(e.Rhs), comparisons[e.Operator]
		return func(f *frame) Value {
			a := left(f)
			return compare(a, right(f))
		}
	case *ast.ArithmeticOpExpr:
		left, right, calculate := c.expression(e.Lhs), c.expression(e.Rhs), arithmetic[e.Operator]
		return func(f *frame) Value {
			a := left(f)
			b := right(f)
			return calculate(operand(a), operand(b))
		}
	case *ast.StringConcatOpExpr:
		left, right := c.expression(e.Lhs), c.expression(e.Rhs)
		return func(f *frame) Value {
			a := left(f)
			b := right(f)
			return joinable(a) + joinable(b)
		}
	case *ast.UnaryMinusOpExpr:
		value := c.expression(e.Expr)
		return func(f *frame) Value { return -operand(value(f)) }
	case *ast.UnaryNotOpExpr:
		value := c.expression(e.Expr)
		return func(f *frame) Value { return !truth(value(f)) }
	case *ast.UnaryLenOpExpr:
		value := c.expression(e.Expr)
		return func(f *frame) Value { return length(value(f)) }
	default:
		panic(unsupported{e, e.Line()})
	}
}

// all compiles an expression that may have several values, or returns nil.
func (c *compiler) all(expr ast.Expr) several {
	switch e := expr.(type) {
	case *ast.FuncCallExpr:
		if !e.AdjustRet {
			return c.call(e)
		}
	case *ast.Comma3Expr:
		if !e.AdjustRet {
			return c.rest(e)
		}
	}
	return nil
}

// list compiles a list of expressions. The last one may have any number of values.
func (c *compiler) list(exprs []ast.Expr) several {
	var last several
	if n := len(exprs); n > 0 {
		if last = c.all(exprs[n-1]); last != nil {
			exprs = exprs[:n-1]
		}
	}
	singles := make([]expression, len(exprs))
	for i, e := range exprs {
		singles[i] = c.expression(e)
	}
	if len(singles) == 0 && last != nil {
		return last
	}
	return func(f *frame) []Value {
		values := f.machine.values.list(len(singles))
		for i, e := range singles {
			values[i] = e(f)
		}
		if last != nil {
			values = append(values, last(f)...)
		}
		return values
	}
}

func (c *compiler) call(e *ast.FuncCallExpr) several {
	if e.Receiver != nil {
		panic(unsupported{e, e.Line()})
	}
	function, args := c.expression(e.Func), c.list(e.Args)
	return func(f *frame) []Value {
		called := function(f)
		return Call(called, args(f))
	}
}

// rest compiles `...`.
func (c *compiler) rest(e *ast.Comma3Expr) several {
	if !c.variadic {
		panic(unsupported{e, e.Line()})
	}
	return func(f *frame) []Value { return f.rest }
}

func (c *compiler) table(e *ast.TableExpr) expression {
	var listed []ast.Expr
	var keys, values []expression
	for _, field := range e.Fields {
		if field.Key == nil {
			listed = append(listed, field.Value)
		} else {
			keys, values = append(keys, c.expression(field.Key)), append(values, c.expression(field.Value))
		}
	}
	items := c.list(listed)
	return func(f *frame) Value {
		given := items(f)
		t := NewTable(append(make([]Value, 0, len(given)), given...)...)
		if len(keys) > 0 {
			t.rest = make(map[Value]Value, len(keys))
		}
		for i, key := range keys {
			t.Set(key(f), values[i](f))
		}
		return t
	}
}
