package sim

import "net/http"

func tokenize(c *call) error {
	var req struct {
		chatRequest
		Prompt *string `json:"prompt"`
	}
	if err := c.read(&req); err != nil {
		return err
	}
	if err := c.model(req.Model); err != nil {
		return err
	}
	var text string
	switch {
	case req.Prompt != nil:
		text = *req.Prompt
	case len(req.Messages) > 0:
		text = RenderChat(req.chat())
	default:
		return badRequest("neither prompt nor messages is given")
	}
	tokens := Tokenize(text)
	writeJSON(c.w, http.StatusOK, map[string]any{"count": len(tokens), "max_model_len": c.cfg.MaxModelLen, "tokens": tokens})
	return nil
}

func detokenize(c *call) error {
	var req struct {
		Model  string  `json:"model"`
		Tokens []int64 `json:"tokens"`
	}
	if err := c.read(&req); err != nil {
		return err
	}
	if err := c.model(req.Model); err != nil {
		return err
	}
	text, err := Detokenize(req.Tokens)
	if err != nil {
		return badRequest("%v", err)
	}
	writeJSON(c.w, http.StatusOK, map[string]string{"prompt": text})
	return nil
}
