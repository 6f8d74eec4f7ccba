package modelfile

// nearest returns the name among the fields that is fewest edits away from name, if it is near enough to be a slip; ties go to the first in
// order of the alphabet.
func nearest(name string, fields map[string]int) string {
	best, bestDistance := "", len(name)/2+1
	for f := range fields {
		d := distance(name, f)
		if d < bestDistance || d == bestDistance && best != "" && f < best {
			best, bestDistance = f, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b in bytes (V. Levenshtein, 1966), by the usual two rows.
func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			sub := prev[j-1]
			if a[i-1] != b[j-1] {
				sub++
			}
			cur[j] = min(sub, prev[j]+1, cur[j-1]+1)
		}
		prev = cur
	}
	return prev[len(b)]
}
