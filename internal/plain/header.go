package plain

import (
	"net/http"
	"net/textproto"
	"strings"
)

// MaxLines is how many lines of a header are plain.
const MaxLines = 64

// Classes of bytes.
const (
	Token = 1 << iota // of names (RFC 9110 §5.6.2)
	Value             // visible ASCII, space, tab
	Host
)

var classes = func() (c [256]byte) { // never changed
	for b := ' '; b <= '~'; b++ {
		c[b] = Value
	}
	c['\t'] = Value
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, b := range []byte(letters + "!#$%&'*+-.^_`|~") {
		c[b] |= Token
	}
	for _, b := range []byte(letters + "-._:[]") {
		c[b] |= Host
	}
	return c
}()

// All says whether all bytes are of a class.
func All(s string, class byte) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// Header reads the lines of a header, which are separated by CRLF; none follows the last. It returns nil if they are not
// plain. Names come out in their canonical form.
func Header(text string) http.Header {
	count := strings.Count(text, "\r\n") + 1
	if count > MaxLines {
		return nil
	}
	header := make(http.Header, count)
	values := make([]string, 0, count) // one allocation for all
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || !All(name, Token) || !All(value, Value) {
			return nil
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		if old := header[name]; old != nil {
			header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return header
}

// Length reads the value of a Content-Length; -1 if it is not one line of at most 18 digits.
func Length(lines []string) int64 {
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > 18 {
		return -1
	}
	n := int64(0)
	for _, c := range []byte(lines[0]) {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// Close reads the lines of Connection. ok is false if they say anything but "close" or "keep-alive".
func Close(lines []string) (last, ok bool) {
	switch {
	case len(lines) == 0 || len(lines) == 1 && strings.EqualFold(lines[0], "keep-alive"):
		return false, true
	case len(lines) == 1 && strings.EqualFold(lines[0], "close"):
		return true, true
	}
	return false, false
}
