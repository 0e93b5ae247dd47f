package redislua

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parseScore reads a score as Redis does.
func parseScore(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	return score, err == nil && !math.IsNaN(score)
}

// scoreText writes a score as Redis does: the shortest text that is read back as the same number.
func scoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "inf"
	case math.IsInf(score, -1):
		return "-inf"
	case score == math.Trunc(score) && math.Abs(score) < 1<<53:
		return strconv.FormatFloat(score, 'f', -1, 64)
	default:
		return strconv.FormatFloat(score, 'g', 17, 64)
	}
}

func (s *Server) zadd(args []string) Value {
	at := 2
	var nx, xx, gt, lt bool
options:
	for ; at < len(args); at++ {
		switch strings.ToUpper(args[at]) {
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "GT":
			gt = true
		case "LT":
			lt = true
		default:
			break options
		}
	}
	pairs := args[at:]
	if len(pairs) == 0 || len(pairs)%2 != 0 || nx && (xx || gt || lt) || gt && lt {
		return failure(errSyntax)
	}
	scores := make([]float64, len(pairs)/2)
	for i := range scores {
		score, ok := parseScore(pairs[2*i])
		if !ok {
			return failure(errFloat)
		}
		scores[i] = score
	}
	if xx && s.key(args[1]) == nil {
		return integer(0)
	}
	k, added := s.writable(args[1], sortedSet), 0
	for i, score := range scores {
		name := pairs[2*i+1]
		old, known := k.scores[name]
		if known && (nx || gt && score <= old || lt && score >= old) || !known && xx {
			continue
		}
		if !known {
			added++
		}
		k.put(member{score, name})
	}
	return integer(added)
}

func (s *Server) zcard(args []string) Value {
	if k := s.key(args[1]); k != nil {
		return integer(len(k.members))
	}
	return integer(0)
}

func (s *Server) zrank(args []string) Value {
	if k := s.key(args[1]); k != nil {
		if at := k.rank(args[2]); at >= 0 {
			return integer(at)
		}
	}
	return Value{}
}

func (s *Server) zscore(args []string) Value {
	if k := s.key(args[1]); k != nil {
		if score, known := k.scores[args[2]]; known {
			return bulk(scoreText(score))
		}
	}
	return Value{}
}

// zrange knows ranges of ranks and of scores, without REV and BYLEX.
func (s *Server) zrange(args []string) Value {
	byScore, withScores, skip, most := false, false, 0, -1
	for i := 4; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "BYSCORE":
			byScore = true
		case "WITHSCORES":
			withScores = true
		case "LIMIT": // with two numbers
			skip, _ = strconv.Atoi(args[i+1])
			most, _ = strconv.Atoi(args[i+2])
			i += 2
		default:
			return failure(errSyntax)
		}
	}
	var members []member
	k := s.key(args[1])
	if k != nil {
		members = k.members
	}
	if byScore {
		from, ok1 := bound(args[2])
		to, ok2 := bound(args[3])
		if !ok1 || !ok2 {
			return failure(errFloat)
		}
		members = between(members, from, to)
		members = members[min(skip, len(members)):]
		if most >= 0 {
			members = members[:min(most, len(members))]
		}
	} else {
		from, err1 := strconv.Atoi(args[2])
		to, err2 := strconv.Atoi(args[3])
		if cmp.Or(err1, err2) != nil {
			return failure(errInteger)
		}
		members = ranked(members, from, to)
	}
	items := make([]Value, 0, 2*len(members))
	for _, m := range members {
		items = append(items, bulk(m.name))
		if withScores {
			items = append(items, bulk(scoreText(m.score)))
		}
	}
	return array(items)
}

// ranked returns the members from one rank to another. Negative ranks count from the end.
func ranked(members []member, from, to int) []member {
	n := len(members)
	if from < 0 {
		from = max(n+from, 0)
	}
	if to < 0 {
		to = n + to
	}
	to = min(to, n-1)
	if from > to {
		return nil
	}
	return members[from : to+1]
}

// scoreBound is the end of a range of scores.
type scoreBound struct {
	score float64
	open  bool
}

func bound(text string) (scoreBound, bool) {
	text, open := strings.CutPrefix(text, "(")
	score, ok := parseScore(text)
	return scoreBound{score, open}, ok
}

func between(members []member, from, to scoreBound) []member {
	begin := slices.IndexFunc(members, func(m member) bool {
		return m.score > from.score || m.score == from.score && !from.open
	})
	if begin < 0 {
		return nil
	}
	end := slices.IndexFunc(members[begin:], func(m member) bool {
		return m.score > to.score || m.score == to.score && to.open
	})
	if end < 0 {
		return members[begin:]
	}
	return members[begin : begin+end]
}
