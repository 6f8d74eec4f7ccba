package screen

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// style is how a text looks where colours may be used; its words say the same without.
type style string

// Styles as ANSI parameters (ECMA-48, SGR).
const (
	plain style = ""
	bold  style = "1"
	good  style = "32"
	warn  style = "33"
	bad   style = "1;31"
)

func (l layout) paint(s style, text string) string {
	if !l.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line makes one line that is no wider than the screen. Control characters, which a name or reason may hold, never reach the terminal.
func (l layout) line(s style, format string, args ...any) string {
	return l.paint(s, clip(clean(fmt.Sprintf(format, args...)), l.width))
}

func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// wrap breaks a text into lines of at most so many characters, between words where it can.
func wrap(text string, width int) []string {
	var out []string
	rest := []rune(clean(text))
	for len(rest) > width {
		cut := width
		for i := width; i > width/2; i-- {
			if rest[i] == ' ' {
				cut = i
				break
			}
		}
		out = append(out, strings.TrimSpace(string(rest[:cut])))
		rest = []rune(strings.TrimSpace(string(rest[cut:])))
	}
	return append(out, string(rest))
}

// clip cuts a text to so many characters, the last of them '~' where something was cut.
func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "~"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Age writes seconds for people: two units at most, and "-" for an unknown duration.
func Age(s float64) string {
	if s < 0 {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
