package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// sizes are the memory sizes that cards are sold with, in GB. What a driver reports is up to a tenth less: error correction and the driver's own
// share are taken off.
var sizes = []int{1, 2, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288}

var (
	vendorWords = regexp.MustCompile(`(?i)\b(nvidia|tesla|quadro|geforce|graphics|device|corporation|hbm\d*e?|mock)\b`)
	sizeWord    = regexp.MustCompile(`(?i)\b\d+\s?gi?b\b`)
	sxmWord     = regexp.MustCompile(`(?i)\bsxm\d*\b`)
	otherChars  = regexp.MustCompile(`[^a-z0-9]+`)
)

// ClassOf names a card's class from what the driver calls it and its memory in bytes: "NVIDIA H100 80GB HBM3" is h100-sxm-80gb, "NVIDIA L40S" is
// l40s-48gb. Operators override it with the label "class".
func ClassOf(name string, memory int64) string {
	sxm := sxmWord.MatchString(name) || strings.Contains(strings.ToUpper(name), "HBM3") && !strings.Contains(strings.ToUpper(name), "PCIE") && !strings.Contains(strings.ToUpper(name), "NVL")
	s := vendorWords.ReplaceAllString(name, " ")
	s = sizeWord.ReplaceAllString(s, " ")
	s = sxmWord.ReplaceAllString(s, " ")
	s = strings.Trim(otherChars.ReplaceAllString(strings.ToLower(s), "-"), "-")
	if s == "" {
		s = "gpu"
	}
	if sxm {
		s += "-sxm"
	}
	return fmt.Sprintf("%s-%dgb", s, soldAs(memory))
}

// soldAs returns the size that a card with so many usable bytes is sold with, in GB.
func soldAs(memory int64) int {
	gib := float64(memory) / (1 << 30)
	i := slices.IndexFunc(sizes, func(s int) bool { return float64(s) >= gib-0.5 })
	if i < 0 || float64(sizes[i])*0.85 > gib {
		return int(gib + 0.5)
	}
	return sizes[i]
}
