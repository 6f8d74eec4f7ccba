package openai

// Span is a part of a body: bytes From to To, To not among them.
type Span struct{ From, To int64 }

// Prompt says where in a body the prompt lies.
type Prompt struct {
	// Text is what grows from one request of a conversation to the next: the value of messages, prompt or input, as
	// written. A client writes the same messages the same way, so its bytes are as good as a canonical form.
	Text Span
	// Before are the values that chat templates put before the text, in a fixed order: tools, functions, system,
	// instructions, documents and the salt of the cache. One that is not there is empty.
	Before [6]Span
}

// member returns where the span of a member of the prompt is kept; nil for any other.
func (p *Prompt) member(name string) *Span {
	switch name {
	case "messages", "prompt", "input":
		return &p.Text
	case "tools":
		return &p.Before[0]
	case "functions":
		return &p.Before[1]
	case "system":
		return &p.Before[2]
	case "instructions":
		return &p.Before[3]
	case "documents":
		return &p.Before[4]
	case "cache_salt":
		return &p.Before[5]
	}
	return nil
}

// open notes the begin of a value at the top.
func (s *Scanner) open() {
	if s.span = s.prompt.member(s.key); s.span != nil {
		*s.span = Span{From: s.at}
	}
}

// shut notes its end, which lies that many bytes into the current step.
func (s *Scanner) shut(end int) {
	if s.span != nil {
		s.span.To, s.span = s.at+int64(end), nil
	}
}

// Prompt returns where the prompt lies, as far as the body was read: a value that has not ended yet ends there.
func (s *Scanner) Prompt() Prompt {
	p := s.prompt
	if s.span != nil {
		for i := range p.Before {
			if s.span == &s.prompt.Before[i] {
				p.Before[i].To = s.offset
			}
		}
		if s.span == &s.prompt.Text {
			p.Text.To = s.offset
		}
	}
	return p
}

// Session is the value of prompt_cache_key as written: the client's own word for requests that share a prefix.
func (s *Scanner) Session() string { return s.session }

// Of returns the bytes of the span in what was read of the body.
func (p Span) Of(body []byte) []byte {
	from, to := min(p.From, int64(len(body))), min(p.To, int64(len(body)))
	if to <= from {
		return nil
	}
	return body[from:to]
}
