package sim

// chatDialect is /v1/chat/completions.
type chatDialect struct{}

type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type chatChoice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

type chatDelta struct {
	Index        int     `json:"index"`
	Delta        message `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

func (chatDialect) names() (id, object, chunk string) {
	return "chatcmpl", "chat.completion", "chat.completion.chunk"
}

// token: the role comes with the first token, in a chunk of its own before it.
func (chatDialect) token(first bool, text string) []any {
	choice := chatDelta{Delta: message{Content: text}}
	if first {
		return []any{chatDelta{Delta: message{Role: "assistant"}}, choice}
	}
	return []any{choice}
}

func (chatDialect) last(reason string) any { return chatDelta{FinishReason: &reason} }

func (chatDialect) whole(text, reason string) any {
	return chatChoice{Message: message{Role: "assistant", Content: text}, FinishReason: reason}
}

// textDialect is /v1/completions.
type textDialect struct{}

type textChoice struct {
	Index        int     `json:"index"`
	Text         string  `json:"text"`
	FinishReason *string `json:"finish_reason"`
}

func (textDialect) names() (id, object, chunk string) {
	return "cmpl", "text_completion", "text_completion"
}

func (textDialect) token(_ bool, text string) []any { return []any{textChoice{Text: text}} }

func (textDialect) last(reason string) any { return textChoice{FinishReason: &reason} }

func (textDialect) whole(text, reason string) any {
	return textChoice{Text: text, FinishReason: &reason}
}
