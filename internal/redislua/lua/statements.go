package lua

import "github.com/yuin/gopher-lua/ast"

// block compiles statements with a scope of their own.
func (c *compiler) block(statements []ast.Stmt) step {
	c.scopes = append(c.scopes, map[string]*local{})
	defer func() { c.scopes = c.scopes[:len(c.scopes)-1] }()
	return c.sequence(statements)
}

func (c *compiler) sequence(statements []ast.Stmt) step {
	steps := make([]step, len(statements))
	for i, s := range statements {
		steps[i] = c.statement(s)
	}
	return func(f *frame) bool {
		for _, s := range steps {
			if s(f) {
				return true
			}
		}
		return false
	}
}

func (c *compiler) statement(statement ast.Stmt) step {
	switch s := statement.(type) {
	case *ast.LocalAssignStmt:
		return c.locals(s)
	case *ast.AssignStmt:
		return c.assignment(s)
	case *ast.FuncCallStmt:
		call := c.call(s.Expr.(*ast.FuncCallExpr))
		return func(f *frame) bool {
			call(f)
			return false
		}
	case *ast.FuncDefStmt:
		if s.Name.Method != "" {
			panic(unsupported{s.Name, s.Line()})
		}
		return assign(c.target(s.Name.Func), c.function(s.Func))
	case *ast.IfStmt:
		condition, then, otherwise := c.expression(s.Condition), c.block(s.Then), c.block(s.Else)
		return func(f *frame) bool {
			if truth(condition(f)) {
				return then(f)
			}
			return otherwise(f)
		}
	case *ast.WhileStmt:
		condition, do := c.expression(s.Condition), c.block(s.Stmts)
		return func(f *frame) bool {
			for truth(condition(f)) {
				if do(f) {
					return true
				}
			}
			return false
		}
	case *ast.RepeatStmt:
		return c.repeat(s)
	case *ast.NumberForStmt:
		return c.numbers(s)
	case *ast.GenericForStmt:
		return c.each(s)
	case *ast.ReturnStmt:
		values := c.list(s.Exprs)
		return func(f *frame) bool {
			f.result = values(f)
			return true
		}
	default:
		panic(unsupported{s, s.Line()})
	}
}

func (c *compiler) locals(s *ast.LocalAssignStmt) step {
	if len(s.Exprs) == 1 && len(s.Names) == 1 {
		if function, ok := s.Exprs[0].(*ast.FunctionExpr); ok { // it may call itself
			l := c.declare(s.Names[0])
			value := c.function(function)
			return func(f *frame) bool {
				f.declare(l, nil)
				f.set(l, value(f))
				return false
			}
		}
		value := c.expression(s.Exprs[0])
		l := c.declare(s.Names[0])
		return func(f *frame) bool {
			f.declare(l, value(f))
			return false
		}
	}
	values := c.list(s.Exprs)
	declared := make([]*local, len(s.Names))
	for i, name := range s.Names {
		declared[i] = c.declare(name)
	}
	return func(f *frame) bool {
		given := values(f)
		for i, l := range declared {
			f.declare(l, arg(given, i))
		}
		return false
	}
}

func (c *compiler) assignment(s *ast.AssignStmt) step {
	targets := make([]target, len(s.Lhs))
	for i, e := range s.Lhs {
		targets[i] = c.target(e)
	}
	if len(targets) == 1 && len(s.Rhs) == 1 {
		return assign(targets[0], c.expression(s.Rhs[0]))
	}
	values := c.list(s.Rhs)
	return func(f *frame) bool {
		places := f.machine.values.list(2 * len(targets))
		for i, t := range targets {
			places[2*i], places[2*i+1] = t.place(f)
		}
		given := values(f)
		for i, t := range targets {
			t.set(f, places[2*i], places[2*i+1], arg(given, i))
		}
		return false
	}
}

func assign(t target, value expression) step {
	return func(f *frame) bool {
		of, at := t.place(f)
		t.set(f, of, at, value(f))
		return false
	}
}

// target is what an assignment sets. Its place, a table and a key, is found before the values are computed. A variable has
// none.
type target struct {
	place func(f *frame) (of, at Value)
	set   func(f *frame, of, at, v Value)
}

func (c *compiler) target(e ast.Expr) target {
	nowhere := func(*frame) (of, at Value) { return nil, nil }
	switch e := e.(type) {
	case *ast.IdentExpr:
		if l := c.local(e.Value); l != nil {
			return target{nowhere, func(f *frame, _, _, v Value) { f.set(l, v) }}
		}
		if i := c.upvalue(e.Value); i >= 0 {
			return target{nowhere, func(f *frame, _, _, v Value) { f.captured[i].value = v }}
		}
		return target{nowhere, func(*frame, Value, Value, Value) {
			Raise("Attempt to modify a readonly table") // Redis allows no globals
		}}
	case *ast.AttrGetExpr:
		object, key := c.expression(e.Object), c.expression(e.Key)
		return target{
			func(f *frame) (of, at Value) { return object(f), key(f) },
			func(_ *frame, of, at, v Value) { indexed(of).Set(at, v) },
		}
	default:
		panic(unsupported{e, e.Line()})
	}
}

// repeat compiles a loop whose condition sees the variables of its body.
func (c *compiler) repeat(s *ast.RepeatStmt) step {
	c.scopes = append(c.scopes, map[string]*local{})
	do, condition := c.sequence(s.Stmts), c.expression(s.Condition)
	c.scopes = c.scopes[:len(c.scopes)-1]
	return func(f *frame) bool {
		for {
			if do(f) {
				return true
			}
			if truth(condition(f)) {
				return false
			}
		}
	}
}

func (c *compiler) numbers(s *ast.NumberForStmt) step {
	first, last := c.expression(s.Init), c.expression(s.Limit)
	by := func(*frame) Value { return 1.0 }
	if s.Step != nil {
		by = c.expression(s.Step)
	}
	c.scopes = append(c.scopes, map[string]*local{})
	variable := c.declare(s.Name)
	do := c.block(s.Stmts)
	c.scopes = c.scopes[:len(c.scopes)-1]
	return func(f *frame) bool {
		i, end, step := operand(first(f)), operand(last(f)), operand(by(f))
		for ; step > 0 && i <= end || step <= 0 && i >= end; i += step {
			f.declare(variable, i)
			if do(f) {
				return true
			}
		}
		return false
	}
}

func (c *compiler) each(s *ast.GenericForStmt) step {
	values := c.list(s.Exprs)
	c.scopes = append(c.scopes, map[string]*local{})
	variables := make([]*local, len(s.Names))
	for i, name := range s.Names {
		variables[i] = c.declare(name)
	}
	do := c.block(s.Stmts)
	c.scopes = c.scopes[:len(c.scopes)-1]
	return func(f *frame) bool {
		given := values(f)
		next, state, at := arg(given, 0), arg(given, 1), arg(given, 2)
		for {
			results := Call(next, []Value{state, at})
			if at = arg(results, 0); at == nil {
				return false
			}
			for i, l := range variables {
				f.declare(l, arg(results, i))
			}
			if do(f) {
				return true
			}
		}
	}
}
