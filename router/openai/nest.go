package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxMessage bounds the text that is taken from an engine's error which is not JSON.
const maxMessage = 1 << 10

// Nest brings an engine's error body into OpenAI's shape. A body that has it already is nil: pass it on as it came.
// Known forms are vLLM's flat {"object":"error",…}, SGLang's and llama.cpp's nested ones with a number as the code,
// FastAPI's {"detail":…}, {"error":"text"}, and text or HTML. Anthropic's {"type":"error","error":{…}} is a shape of its
// own, which the clients of /v1/messages read: it is passed on there.
func Nest(status int, d Dialect, body []byte) []byte {
	fields, err := split(status, body)
	switch {
	case err == nil && fields.nested && (complete(fields.error) || d == Messages && text(fields.top["type"]) == "error"):
		return nil
	case err == nil:
		return fromFields(status, fields.error).JSON()
	}
	return err.JSON()
}

// ParseError reads an engine's error body, whatever its form.
func ParseError(status int, body []byte) *Error {
	fields, err := split(status, body)
	if err != nil {
		return err
	}
	return fromFields(status, fields.error)
}

// parts are the members of an error body: all of it, and those that describe the error.
type parts struct {
	top, error map[string]json.RawMessage
	nested     bool
}

// split finds where in the body the error is described. What has no members is returned as an Error at once.
func split(status int, body []byte) (p parts, plain *Error) {
	if json.Unmarshal(body, &p.top) != nil {
		return p, &Error{Status: status, Message: fromText(status, body)}
	}
	inner, nested := p.top["error"]
	if !nested {
		p.error = p.top
		return p, nil
	}
	if json.Unmarshal(inner, &p.error) != nil {
		return p, &Error{Status: status, Message: text(inner)}
	}
	p.nested = true
	return p, nil
}

// complete says whether an error object has the four members in their types.
func complete(f map[string]json.RawMessage) bool {
	if text(f["message"]) == "" || text(f["type"]) == "" {
		return false
	}
	for _, name := range []string{"param", "code"} {
		v, ok := f[name]
		if !ok || string(v) != "null" && v[0] != '"' {
			return false
		}
	}
	return true
}

func fromFields(status int, f map[string]json.RawMessage) *Error {
	e := &Error{Status: status, Message: text(f["message"]), Param: text(f["param"]), Type: text(f["type"])}
	if code := f["code"]; len(code) > 0 && code[0] == '"' { // a number is the status again
		e.Code = text(code)
	}
	for _, name := range []string{"detail", "error", "msg"} {
		if e.Message == "" {
			e.Message = text(f[name])
		}
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the engine answered %d %s", status, http.StatusText(status))
	}
	if !strings.HasSuffix(e.Type, "_error") { // "BadRequestError" is a class of Python, which no client knows
		e.Type = ""
	}
	return e
}

// text returns a JSON value as text: a string as its content, null and nothing as "", anything else as written.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// fromText makes a message of a body that is not a JSON object.
func fromText(status int, body []byte) string {
	message := strings.ToValidUTF8(string(bytes.TrimSpace(body)), "�")
	if message == "" || message[0] == '<' {
		return fmt.Sprintf("the engine answered %d %s", status, http.StatusText(status))
	}
	if len(message) > maxMessage {
		message = message[:maxMessage]
		for !utf8.ValidString(message) {
			message = message[:len(message)-1]
		}
	}
	return message
}
