package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of what Scanner accepts. They are far beyond any real request, and keep a hostile one from costing memory.
const (
	MaxDepth = 512     // of nested arrays and objects
	maxKey   = 256     // bytes of a member's name at the top; a longer one cannot be one that we read
	maxValue = 4 << 10 // bytes of the model's name as written
)

// Scanner finds the members "model" and "stream" at the top of a JSON object that arrives in pieces, and where those
// that make up the prompt lie. It decodes nothing else: strings are skipped at the speed of [bytes.IndexByte] and the body is never held. It checks what decides where
// the object ends (brackets, quotes, one value, nothing after it) and leaves the rest to the engine.
//
// A member that occurs twice is an error, because an engine could obey the other one.
type Scanner struct {
	model, stream string // as written; "" means not seen
	session       string // as written
	prompt        Prompt
	span          *Span // of the member that is being read, if it is one of the prompt's
	at            int64 // where in the body the current step begins
	state         state
	after         state  // where a string returns to
	stack         []byte // closing brackets that are due
	capture       []byte // string or literal at the top that is being read
	keep          int    // how much of it may be kept; 0: skip it
	key           string
	escaped       bool // the previous piece ended behind a backslash
	offset        int64
	err           error
}

type state byte

const (
	atStart state = iota // before the object
	atKey                // in the top object, before a name or the end
	atColon              // after a name
	atValue              // before a member's value
	inValue              // inside a nested value, or behind a value at the top
	inLiteral
	inString
	atEnd // behind the object
)

// Write takes the next piece of the body. Its error says what is wrong and where, and stays.
func (s *Scanner) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && s.err == nil; {
		s.at = s.offset + int64(i)
		i += s.step(p[i:])
	}
	s.offset += int64(len(p))
	return len(p), s.err
}

// Found says whether all that Scanner looks for has been seen, so that the rest of the body need not be waited for.
func (s *Scanner) Found() bool { return s.model != "" && s.stream != "" }

// HasModel says whether the model has been seen.
func (s *Scanner) HasModel() bool { return s.model != "" }

// Close ends the body and says whether it was a whole JSON object.
func (s *Scanner) Close() error {
	switch {
	case s.err != nil:
	case s.state == atStart:
		s.err = errors.New("the body is empty; a JSON object is needed")
	case s.state != atEnd:
		s.err = fmt.Errorf("the JSON object ends too early, after %d bytes", s.offset)
	}
	return s.err
}

// Model returns the model's name. It is an error if it is missing, or not a string.
func (s *Scanner) Model() (string, error) {
	if s.model == "" {
		return "", errors.New(`the member "model" is missing; it names the model to use`)
	}
	name, ok := unquote(s.model)
	if !ok {
		return "", errors.New(`the member "model" is not a string`)
	}
	if name == "" {
		return "", errors.New(`the member "model" is empty; it names the model to use`)
	}
	return name, nil
}

// unquote reads a string of JSON.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != '"' {
		return "", false
	}
	inner := text[1 : len(text)-1]
	for i := range len(inner) {
		if c := inner[i]; c < ' ' || c > '~' || c == '\\' || c == '"' { // not what it looks like
			err := json.Unmarshal([]byte(text), &inner)
			return inner, err == nil
		}
	}
	return inner, true
}

// Stream says whether the client asks for a stream. It is an error if the member is there and neither true, false nor null.
func (s *Scanner) Stream() (bool, error) {
	switch s.stream {
	case "true":
		return true, nil
	case "", "false", "null":
		return false, nil
	}
	return false, errors.New(`the member "stream" is neither true nor false`)
}

// step consumes some of p and returns how many bytes; none only when it has changed the state.
func (s *Scanner) step(p []byte) int {
	switch s.state {
	case inString:
		return s.text(p)
	case inLiteral:
		return s.literal(p)
	case inValue:
		return s.value(p)
	}
	c := p[0]
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return 1
	}
	switch {
	case s.state == atStart && c == '{':
		s.stack = append(s.stack, '}')
		s.state = atKey
	case s.state == atStart:
		s.fail("the body is not a JSON object: it begins with %q", c)
	case s.state == atKey && c == '"':
		s.begin(c, maxKey, atColon)
	case s.state == atKey && c == '}' && s.key == "":
		s.pop(c)
	case s.state == atColon && c == ':':
		s.state = atValue
	case s.state == atValue:
		s.member(c)
	default:
		s.fail("the body is not valid JSON: unexpected %q after %d bytes", c, s.offset)
	}
	return 1
}

// member begins the value of a member of the top object.
func (s *Scanner) member(c byte) {
	keep := 0
	switch s.key {
	case "model", "stream", "prompt_cache_key":
		keep = maxValue
	default:
		s.open()
	}
	switch c {
	case '"':
		s.begin(c, keep, inValue)
	case '{', '[':
		if keep > 0 {
			s.put(string(c)) // no string and no boolean: Model and Stream will say so
		}
		s.push(c)
		s.state = inValue
	case '}', ']', ',', ':':
		s.fail("the body is not valid JSON: the member %q has no value", s.key)
	default:
		s.begin(c, keep, inValue)
		s.state = inLiteral
	}
}

// begin starts to read a string or literal whose first byte is c.
func (s *Scanner) begin(c byte, keep int, after state) {
	s.capture, s.keep, s.after, s.state = s.capture[:0], keep, after, inString
	if keep > 0 {
		s.capture = append(s.capture, c)
	}
}

// text consumes the inside of a string up to its closing quote, as far as p has it.
func (s *Scanner) text(p []byte) int {
	i := 0
	if s.escaped {
		s.escaped, i = false, 1
	}
	quote := -1
	for i < len(p) {
		if quote < i {
			if quote = bytes.IndexByte(p[i:], '"'); quote < 0 {
				quote = len(p)
			} else {
				quote += i
			}
		}
		slash := bytes.IndexByte(p[i:quote], '\\')
		if slash < 0 {
			i = quote
			break
		}
		i += slash + 2
	}
	if i >= len(p) {
		s.escaped = i > len(p)
		s.take(p)
		return len(p)
	}
	s.take(p[:i+1])
	s.state = s.after
	s.finish(i + 1)
	return i + 1
}

// literal consumes a number, true, false or null at the top, up to what ends it.
func (s *Scanner) literal(p []byte) int {
	end := bytes.IndexAny(p, ",}] \t\r\n")
	if end < 0 {
		s.take(p)
		return len(p)
	}
	s.take(p[:end])
	s.state = s.after
	s.finish(end)
	return end
}

// take keeps a part of what is being read.
func (s *Scanner) take(p []byte) {
	if s.keep == 0 {
		return
	}
	if len(s.capture)+len(p) > s.keep {
		if s.after == inValue {
			s.fail("the member %q has more than %d bytes", s.key, s.keep)
		}
		s.keep, s.capture = 0, append(s.capture[:0], '"', '"')
		return
	}
	s.capture = append(s.capture, p...)
}

// finish uses what was read up to a byte of the current step: a name, or the value of a member that we look for.
func (s *Scanner) finish(end int) {
	switch {
	case s.err != nil || len(s.stack) != 1:
	case s.after == atColon:
		var ok bool
		if s.key, ok = unquote(string(s.capture)); !ok {
			s.fail("the body is not valid JSON: bad name of a member after %d bytes", s.offset)
		}
		if s.key == "" {
			s.key = "\x00" // a comma was seen: a name must follow it, and "" says that none was
		}
	case s.keep > 0:
		s.put(string(s.capture))
	default:
		s.shut(end)
	}
}

func (s *Scanner) put(v string) {
	field := &s.model
	switch s.key {
	case "stream":
		field = &s.stream
	case "prompt_cache_key":
		s.session = v
		return
	}
	if *field != "" {
		s.fail("the member %q is there twice", s.key)
	}
	*field = v
}

// value consumes what lies inside a nested value, or behind a value at the top.
func (s *Scanner) value(p []byte) int {
	for i, c := range p {
		switch c {
		case '"':
			if len(s.stack) == 1 {
				s.fail("the body is not valid JSON: a comma is missing after %q", s.key)
			}
			s.begin(c, 0, inValue)
			return i + 1
		case '{', '[':
			s.push(c)
		case '}', ']':
			s.pop(c)
			if len(s.stack) == 1 {
				s.shut(i + 1)
			}
		case ',':
			if len(s.stack) == 1 {
				s.state = atKey
				return i + 1
			}
		case ' ', '\t', '\n', '\r':
		default:
			if len(s.stack) == 1 {
				s.fail("the body is not valid JSON: unexpected %q after the value of %q", c, s.key)
			}
		}
		if s.err != nil || s.state != inValue {
			return i + 1
		}
	}
	return len(p)
}

func (s *Scanner) push(c byte) {
	if len(s.stack) >= MaxDepth {
		s.fail("the body is nested more than %d deep", MaxDepth)
		return
	}
	s.stack = append(s.stack, c+2) // in ASCII '{' and '}', '[' and ']' are two apart
}

func (s *Scanner) pop(c byte) {
	last := len(s.stack) - 1
	if s.stack[last] != c {
		s.fail("the body is not valid JSON: %q where %q is due", c, s.stack[last])
		return
	}
	if s.stack = s.stack[:last]; last == 0 {
		s.state = atEnd
	}
}

func (s *Scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}
