package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func w(value string, start, end int64) op { return op{true, value, start, end} }
func r(value string, start, end int64) op { return op{false, value, start, end} }

func TestLinearizable(t *testing.T) {
	for name, c := range map[string]struct {
		ok  bool
		ops []op
	}{
		"nothing":                            {true, nil},
		"in turn":                            {true, []op{w("a", 1, 2), r("a", 3, 4), w("b", 5, 6), r("b", 7, 8)}},
		"the first value":                    {true, []op{r("0", 1, 2), w("a", 3, 4)}},
		"the first value after a write":      {false, []op{w("a", 1, 2), r("0", 3, 4)}},
		"an old value":                       {false, []op{w("a", 1, 2), w("b", 3, 4), r("a", 5, 6)}},
		"either of two at once":              {true, []op{w("a", 1, 4), w("b", 2, 3), r("a", 5, 6)}},
		"one of two at once and then other":  {false, []op{w("a", 1, 4), w("b", 2, 3), r("a", 5, 6), r("b", 7, 8)}},
		"seen early by one of two readers":   {false, []op{w("a", 1, 9), r("a", 2, 3), r("0", 4, 5)}},
		"seen late by one of two readers":    {true, []op{w("a", 1, 9), r("0", 2, 3), r("a", 4, 5)}},
		"from the future":                    {false, []op{r("a", 1, 2), w("a", 3, 4)}},
		"from nowhere":                       {false, []op{r("a", 1, 2)}},
		"lost without an answer":             {true, []op{w("a", 1, never), r("0", 2, 3)}},
		"done without an answer":             {true, []op{w("a", 1, never), r("0", 2, 3), r("a", 4, 5)}},
		"done without an answer, and undone": {false, []op{w("a", 1, never), r("a", 2, 3), r("0", 4, 5)}},
		"late after another":                 {true, []op{w("a", 1, never), w("b", 2, 3), r("b", 4, 5), r("a", 6, 7)}},
	} {
		if err := linearizable("0", c.ops); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Small random histories, against a search of every order.
func TestLinearizableAgreesWithASearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	verdicts := map[bool]int{}
	for range 5000 {
		ops := history(dice)
		want := explained("0", ops)
		verdicts[want]++
		if err := linearizable("0", ops); (err == nil) != want {
			t.Fatalf("an order exists: %v; %v\n%v", want, err, ops)
		}
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("one-sided histories: %v", verdicts)
	}
}

// history makes up to seven operations with distinct moments.
func history(dice *rand.Rand) []op {
	n := 2 + dice.IntN(6)
	moments := dice.Perm(2 * n)
	values := []string{"0"}
	ops := make([]op, n)
	for i := range ops {
		a, b := int64(moments[2*i]), int64(moments[2*i+1])
		ops[i] = op{start: min(a, b), end: max(a, b)}
		if ops[i].write = dice.IntN(2) == 0; ops[i].write {
			ops[i].value = string(rune('a' + i))
			values = append(values, ops[i].value)
			if dice.IntN(4) == 0 {
				ops[i].end = never
			}
		}
	}
	for i := range ops {
		if !ops[i].write {
			ops[i].value = values[dice.IntN(len(values))]
		}
	}
	return ops
}

// explained tries every order.
func explained(held string, ops []op) bool {
	if !slices.ContainsFunc(ops, func(o op) bool { return o.end != never }) {
		return true
	}
	for i, o := range ops {
		first := !slices.ContainsFunc(ops, func(other op) bool { return other.end < o.start })
		if !first || !o.write && o.value != held {
			continue
		}
		next := held
		if o.write {
			next = o.value
		}
		if explained(next, slices.Delete(slices.Clone(ops), i, i+1)) {
			return true
		}
	}
	return false
}
