package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/fleet/wire"
)

// Columns of a class row beside the bar and its brackets: name, percentage, and five counts.
const (
	className   = 16
	percent     = 5
	classCounts = 37
)

// classes draws a usage bar a class, below a legend of what its characters stand for.
func (l layout) classes(rows []wire.ClassCounts) []string {
	if len(rows) == 0 {
		return []string{l.line(plain, "GPUS           0")}
	}
	name := className + min(24, max(0, l.width-120)/2)
	width := min(mostBar, l.width-name-percent-classCounts-2)
	out := []string{l.line(bold, "%-*s%-*s %5s %5s %5s %9s %8s", name, "GPUS", width+2+percent, legend(width), "TOTAL", "USED", "FREE", "UNHEALTHY", "WITHHELD")}
	for _, c := range mergeSmall(rows, l.mostClasses()) {
		out = append(out, fmt.Sprintf("%-*s %s%5s %5s %5s %5s %9s %8s", name-1, clip(clean(c.Class), name-2), l.bar(c, width), percentage(c),
			cards(c.Total), cards(c.Used), cards(c.Free), cards(c.Unhealthy), cards(c.Withheld)))
	}
	return out
}

// mostClasses is how many classes have a row of their own; those with the fewest cards share one.
func (l layout) mostClasses() int {
	if l.roomy() {
		return 8
	}
	return 4
}

func legend(width int) string {
	if width >= 40 {
		return "# used  . free  x unhealthy  - withheld"
	}
	return "#used .free xbad -withheld"
}

// mergeSmall joins the classes with the fewest cards into one row when there are too many for a screen.
func mergeSmall(rows []wire.ClassCounts, most int) []wire.ClassCounts {
	if len(rows) <= most {
		return rows
	}
	sorted := slices.SortedStableFunc(slices.Values(rows), func(a, b wire.ClassCounts) int { return cmp.Compare(b.Total, a.Total) })
	rest := wire.ClassCounts{Class: fmt.Sprintf("+%d classes", len(rows)-most+1)}
	for _, c := range sorted[most-1:] {
		rest.Total, rest.Used, rest.Free = rest.Total+c.Total, rest.Used+c.Used, rest.Free+c.Free
		rest.Unhealthy, rest.Withheld = rest.Unhealthy+c.Unhealthy, rest.Withheld+c.Withheld
	}
	return append(sorted[:most-1:most-1], rest)
}

// cards writes a number in at most five characters.
func cards(n int) string {
	if n > 99_999 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

func percentage(c wire.ClassCounts) string {
	if c.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", (100*c.Used+c.Total/2)/c.Total)
}

// bar draws a class in as many characters as there is room: '#' used, '.' free, 'x' unhealthy, '-' withheld. What there is any of has at least one.
func (l layout) bar(c wire.ClassCounts, width int) string {
	parts := share([4]int{c.Used, c.Free, c.Unhealthy, c.Withheld}, width)
	return "[" + strings.Repeat("#", parts[0]) + strings.Repeat(".", parts[1]) + l.paint(bad, strings.Repeat("x", parts[2])) +
		l.paint(warn, strings.Repeat("-", parts[3])) + strings.Repeat(" ", width-parts[0]-parts[1]-parts[2]-parts[3]) + "]"
}

// share divides a width in proportion, at least one for what is not nothing; the largest part makes up the difference.
func share(of [4]int, width int) [4]int {
	total := of[0] + of[1] + of[2] + of[3]
	var parts [4]int
	if total == 0 {
		return parts
	}
	left, largest := width, 0
	for i, n := range of {
		if n > 0 {
			parts[i] = max(1, n*width/total)
		}
		if left -= parts[i]; n > of[largest] {
			largest = i
		}
	}
	parts[largest] += left
	return parts
}

// fabrics says how many whole nodes are free and where the largest block is, then each fabric that has some as free/nodes.
func (l layout) fabrics(rows []wire.FabricCounts) []string {
	var free, nodes, none int
	var best wire.FabricCounts
	var cells []string
	for _, f := range slices.SortedStableFunc(slices.Values(rows), func(a, b wire.FabricCounts) int { return cmp.Compare(b.FreeNodes, a.FreeNodes) }) {
		free, nodes = free+f.FreeNodes, nodes+f.Nodes
		if f.LargestFreeBlock > best.LargestFreeBlock {
			best = f
		}
		if f.FreeNodes == 0 {
			none++
			continue
		}
		cells = append(cells, fmt.Sprintf("%s %d/%d", clip(fabricName(f), 24), f.FreeNodes, f.Nodes))
	}
	head := fmt.Sprintf("FREE WHOLE NODES  %d of %d", free, nodes)
	if best.LargestFreeBlock > 0 {
		head += fmt.Sprintf(", largest free block %d (%s)", best.LargestFreeBlock, fabricName(best))
	}
	out := []string{l.line(bold, "%s", head)}
	if none > 0 && len(rows) > 1 {
		cells = append(cells, plural(none, "fabric", "fabrics")+" without")
	}
	if len(rows) <= 1 {
		return out
	}
	return append(out, l.flow(cells, l.fabricLines())...)
}

// fabricLines is how many lines the fabrics may take.
func (l layout) fabricLines() int {
	if l.roomy() {
		return 2
	}
	return 1
}

func fabricName(f wire.FabricCounts) string {
	if f.Fabric == nil {
		return "fabric unknown"
	}
	return *f.Fabric
}

// flow puts cells side by side into at most so many lines; what does not fit is counted.
func (l layout) flow(cells []string, lines int) []string {
	var out []string
	for line := 0; line < lines && len(cells) > 0; line++ {
		text, taken := " ", 0
		for taken < len(cells) {
			room := l.width - len(text) - 2
			if last := line == lines-1 && taken < len(cells)-1; last {
				room -= len("  +9999 more")
			}
			if len(cells[taken]) > room && taken > 0 {
				break
			}
			text += " " + cells[taken] + " "
			taken++
		}
		if cells = cells[taken:]; line == lines-1 && len(cells) > 0 {
			text += fmt.Sprintf(" +%d more", len(cells))
		}
		out = append(out, l.line(plain, "%s", strings.TrimRight(text, " ")))
	}
	return out
}

// silent names who has not been heard for longer than it should.
func (l layout) silent(s wire.Silent) []string {
	if len(s.Agents)+len(s.Routers) == 0 {
		return nil
	}
	return []string{l.line(warn, "SILENT  agents: %s   routers: %s", few(s.Agents, 3), few(s.Routers, 2))}
}

func few(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "-"
	case len(names) <= most:
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s +%d", strings.Join(names[:most], ", "), len(names)-most)
}
